/*
 * image.h: an image that was chosen, as its record in the store has it.
 * image/images.h finds them. The host's own /usr (image/host.h) has no record.
 */
#pragma once

#include "base/strv.h"
#include "spec/version.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_ID_SIZE      65 /* a SHA-256 in hexadecimal */
#define IMAGE_RUNTIMES_MAX 64

/*
 * As root, files of images belong to these ids, which are nobody's, nor a process of ours
 * (base/rights.h): an id of the image's is that many above the first. The engine shows them to
 * each island as its own.
 */
#define IMAGE_IDS_FIRST 0x6ffe0000u
#define IMAGE_IDS       65536u

/* An interpreter in an image, found when it was unpacked; paths are the image's own. */
struct image_runtime {
	char language[16];
	char version[VERSION_SIZE]; /* "" where the language has none */
	char *program, *tool;       /* tool may be NULL */
};

struct image {
	char id[IMAGE_ID_SIZE]; /* of its configuration, as Docker's image id; names its root */
	char manifest[IMAGE_ID_SIZE]; /* of the manifest it came by; "" where there was none */
	struct strv names;            /* references that lead to it, written in full */
	struct strv layers;           /* digests of the layers' tars ("diff ids"), lowest first */
	struct strv env, entrypoint, cmd;
	char *workdir;     /* NULL: none said */
	char *user;        /* as the configuration has it; NULL: root */
	char *home;        /* of that user in the image's passwd; NULL: not known */
	uint32_t uid, gid; /* of that user */
	char *os, *architecture, *created;
	bool one_id;         /* unpacked without root: all files are one user's */
	uint64_t size_bytes; /* of its layers, unpacked */
	uint64_t root_bytes; /* of its root, beside those: directories, and files of its own */
	struct image_runtime *runtimes;
	size_t n_runtimes;
};
