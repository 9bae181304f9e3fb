#include "image/digest.h"

#include "base/attr.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>

#define BYTES 32

struct digest {
	EVP_MD_CTX *ctx;
	bool failed;
};

struct digest *digest_new(void)
{
	struct digest *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ctx = EVP_MD_CTX_new();
	if (d->ctx && EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) == 1)
		return d;
	digest_freep(&d);
	return NULL;
}

void digest_freep(struct digest **d)
{
	if (!*d)
		return;
	EVP_MD_CTX_free((*d)->ctx);
	free(*d);
	*d = NULL;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
	if (EVP_DigestUpdate(d->ctx, data, len) != 1)
		d->failed = true;
}

/* A failure must look like no digest at all: "" is equal to none that was asked for. */
void digest_end(struct digest *d, char ret[IMAGE_ID_SIZE])
{
	unsigned char bytes[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	ret[0] = '\0';
	if (EVP_DigestFinal_ex(d->ctx, bytes, &len) != 1 || len != BYTES || d->failed)
		return;
	for (unsigned i = 0; i < BYTES; i++)
		(void)snprintf(ret + (size_t)2 * i, 3, "%02x", bytes[i]);
}

int digest_of(const void *data, size_t len, char ret[IMAGE_ID_SIZE])
{
	_cleanup_(digest_freep) struct digest *d = digest_new();

	if (!d)
		return -ENOMEM;
	digest_add(d, data, len);
	digest_end(d, ret);
	return ret[0] ? 0 : -ENOMEM;
}

int digest_parse(const char *text, char ret[IMAGE_ID_SIZE])
{
	const size_t prefix = sizeof(DIGEST_PREFIX) - 1;

	if (strncmp(text, DIGEST_PREFIX, prefix) != 0 ||
	    strlen(text + prefix) != IMAGE_ID_SIZE - 1 ||
	    strspn(text + prefix, "0123456789abcdef") != IMAGE_ID_SIZE - 1)
		return -EINVAL;
	memcpy(ret, text + prefix, IMAGE_ID_SIZE);
	return 0;
}
