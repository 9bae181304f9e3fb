/*
 * ref.h: references: [REGISTRY/]REPOSITORY[:TAG][@sha256:DIGEST], as Docker reads them. Pure.
 *
 * The first part names a registry if it has a dot or a colon in it, or is "localhost"; else the
 * registry is Docker Hub, where a name of one part lies below library/. Without tag and digest the
 * tag is "latest"; with both, the digest says which image it is and the tag is a name.
 */
#pragma once

#include "core/error.h"
#include "core/registry.h"
#include "spec/image.h"

#include <stdbool.h>
#include <stddef.h>

#define IMAGE_REF_REPOSITORY_SIZE 256
#define IMAGE_REF_TAG_SIZE        129
#define IMAGE_REF_SIZE                                                                         \
	(REGISTRY_SIZE + IMAGE_REF_REPOSITORY_SIZE + IMAGE_REF_TAG_SIZE + sizeof("@sha256:") + \
	 IMAGE_ID_SIZE)

/* Docker Hub's name in references. */
#define IMAGE_REF_HUB "docker.io"

struct image_ref {
	char registry[REGISTRY_SIZE]; /* a name or an address, [::1]; maybe :PORT */
	char repository[IMAGE_REF_REPOSITORY_SIZE];
	char tag[IMAGE_REF_TAG_SIZE]; /* "": none */
	char digest[IMAGE_ID_SIZE];   /* the SHA-256 in hexadecimal; "": none */
};

/* CAY_E_INVALID says what a reference looks like. */
int image_ref_parse(const char *text, struct image_ref *ret, struct cay_error *err);

/* In full: one text for each reference, however it was written. */
void image_ref_text(const struct image_ref *ref, char ret[IMAGE_REF_SIZE]);

/* Whether the first part of a name, which has a slash behind it, is a registry. */
bool image_ref_names_registry(const char *text, size_t len);

/* Whom to ask: the host, with its port, behind the registry's name. */
const char *image_ref_host(const char *registry);
