#include "store/key.h"

#include "base/buf.h"
#include "base/text.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int hash_make(const void *data, size_t len, struct hash *ret, struct cay_error *err)
{
	if (EVP_Digest(data, len, ret->bytes, NULL, EVP_sha256(), NULL) != 1)
		return cay_fail(err, CAY_E_INTERNAL, 0, "no SHA-256 to be had from OpenSSL");
	return 0;
}

bool hash_is(const struct hash *a, const struct hash *b)
{
	return CRYPTO_memcmp(a->bytes, b->bytes, HASH_SIZE) == 0;
}

struct hasher {
	EVP_MD_CTX *context;
	bool failed;
};

struct hasher *hasher_new(void)
{
	struct hasher *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->context = EVP_MD_CTX_new();
	if (h->context && EVP_DigestInit_ex(h->context, EVP_sha256(), NULL) == 1)
		return h;
	hasher_free(h);
	return NULL;
}

void hasher_add(struct hasher *h, const void *data, size_t len)
{
	h->failed = h->failed || EVP_DigestUpdate(h->context, data, len) != 1;
}

int hasher_end(struct hasher *h, struct hash *ret)
{
	return h->failed || EVP_DigestFinal_ex(h->context, ret->bytes, NULL) != 1 ? -1 : 0;
}

void hasher_free(struct hasher *h)
{
	if (h)
		EVP_MD_CTX_free(h->context);
	free(h);
}

/* base64url, without padding: as it may stand in a URL, a header and a shell. */
static int encode(const unsigned char random[HASH_SIZE], char text[KEY_CHARS + 1])
{
	struct buf base64 = BUF(64);
	int r = text_append_base64(&base64, random, HASH_SIZE);

	for (size_t i = 0; r == 0 && i < KEY_CHARS; i++)
		text[i] = base64.data[i] == '+'   ? '-'
			  : base64.data[i] == '/' ? '_'
						  : base64.data[i];
	text[KEY_CHARS] = '\0';
	if (r == 0)
		OPENSSL_cleanse(base64.data, base64.len);
	buf_done(&base64);
	return r;
}

int key_make(char key[KEY_SIZE], struct cay_error *err)
{
	unsigned char random[HASH_SIZE];
	char text[KEY_CHARS + 1] = "";
	int r = 0;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return cay_fail(err, CAY_E_INTERNAL, errno, "make a key");
	r = encode(random, text);
	(void)snprintf(key, KEY_SIZE, KEY_PREFIX "%s", text);
	OPENSSL_cleanse(random, sizeof(random));
	OPENSSL_cleanse(text, sizeof(text));
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "make a key") : 0;
}

void key_wipe(char key[KEY_SIZE])
{
	OPENSSL_cleanse(key, KEY_SIZE);
}

bool key_ok(const char *text)
{
	size_t n = strlen(KEY_PREFIX);

	return strncmp(text, KEY_PREFIX, n) == 0 && strspn(text + n, alphabet) == KEY_CHARS &&
	       text[n + KEY_CHARS] == '\0';
}

void key_shown(const char key[KEY_SIZE], char shown[KEY_SHOWN_SIZE])
{
	(void)snprintf(shown, KEY_SHOWN_SIZE, "%.*s", (int)KEY_SHOWN_SIZE - 1, key);
}

int key_hash(const char *key, struct hash *ret, struct cay_error *err)
{
	return hash_make(key, strlen(key), ret, err);
}
