/*
 * digest.h: SHA-256, as images name things by it: 64 small hexadecimal digits. The shim over
 * libcrypto.
 */
#pragma once

#include "spec/image.h"

#include <stddef.h>

#define DIGEST_PREFIX "sha256:"

struct digest;

/* NULL: no memory. */
struct digest *digest_new(void);
void digest_freep(struct digest **d);
void digest_add(struct digest *d, const void *data, size_t len);

/* Once; nothing can be added after. */
void digest_end(struct digest *d, char ret[IMAGE_ID_SIZE]);

/* Of these bytes. 0 or -ENOMEM. */
int digest_of(const void *data, size_t len, char ret[IMAGE_ID_SIZE]);

/* "sha256:…", the only kind there is; others are -EINVAL. */
int digest_parse(const char *text, char ret[IMAGE_ID_SIZE]);
