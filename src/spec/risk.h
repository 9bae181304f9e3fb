/*
 * risk.h: the operator's rules of what mode selective sandboxes though it is marked as trusted
 * ([selective] sandbox = RULE). A rule looks at what is asked for, never at code. Pure.
 *
 *   shell                     sh, bash or zsh, as language, as a command line or by name in argv
 *   argv                      a program of its own, and no code
 *   language:NAME             by name or alias
 *   network, network:MODE     any network, or exactly that mode
 *   mounts, mounts:rw         host directories, also as workspace; or one that is writable
 *   image                     made of an image, and not of this machine's own /usr
 *   tier:NAME                 the request's tier or, where it names none, the key's
 *   key, key:NAME             who comes with a key, or with the one of that name or id
 *   label:NAME[=VALUE]        a label of the request's
 */
#pragma once

#include "core/error.h"
#include "spec/spec.h"

#include <stdbool.h>

#define RISK_SIZE 160

/* What the rules look at. */
struct risk_facts {
	const struct spec *spec;
	enum network_mode network; /* that it would get */
	const char *tier;          /* NULL: none */
	const char *key, *key_id;  /* the caller's, by name and id; NULL: none */
	const struct strv *labels; /* NAME=VALUE */
};

/* text as it is kept, with a language by its own name. CAY_E_INVALID. */
int risk_parse(const char *text, char normal[RISK_SIZE], struct cay_error *err);

/* rule: as risk_parse() wrote it. */
bool risk_matches(const char *rule, const struct risk_facts *f);

bool spec_is_shell(const struct spec *s);
