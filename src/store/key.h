/*
 * key.h: API keys as text: "cay_" and 43 characters that stand for 256 random
 * bits. A key is shown to whoever made it, once; kept is its hash, and its
 * beginning, to tell keys apart.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

#define KEY_PREFIX     "cay_"
#define KEY_CHARS      43
#define KEY_SIZE       (sizeof(KEY_PREFIX) + KEY_CHARS)
#define KEY_SHOWN_SIZE (sizeof(KEY_PREFIX) + 4) /* "cay_abcd" */

#define HASH_SIZE 32 /* SHA-256 */

struct hash {
	unsigned char bytes[HASH_SIZE];
};

int hash_make(const void *data, size_t len, struct hash *ret, struct cay_error *err);

/* In a time that does not depend on where they differ. */
bool hash_is(const struct hash *a, const struct hash *b);

/* The same of what comes in pieces. NULL: it can't be had. */
struct hasher;
struct hasher *hasher_new(void);
void hasher_add(struct hasher *h, const void *data, size_t len);
/* 0, or -1 where a piece was not taken. */
int hasher_end(struct hasher *h, struct hash *ret);
void hasher_free(struct hasher *h);

/* The caller wipes it when it was shown: key_wipe(). */
int key_make(char key[KEY_SIZE], struct cay_error *err);
void key_wipe(char key[KEY_SIZE]);

/* Whether text has a key's form. */
bool key_ok(const char *text);

void key_shown(const char key[KEY_SIZE], char shown[KEY_SHOWN_SIZE]);

/*
 * Plain SHA-256, without salt and without a slow function: those are for secrets
 * that people choose. Nobody can try 2^256 keys, and no two are the same.
 */
int key_hash(const char *key, struct hash *ret, struct cay_error *err);
