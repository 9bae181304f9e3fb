#include "image/ref.h"

#include "base/attr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGEST_PREFIX "sha256:"
#define LATEST        "latest"
#define HUB_HOST      "registry-1.docker.io"
#define HUB_ALIAS     "index.docker.io"
#define HUB_LIBRARY   "library/"

#define LOWER   "abcdefghijklmnopqrstuvwxyz"
#define UPPER   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"
#define HEX_LEN (IMAGE_ID_SIZE - 1)

static int bad(struct cay_error *err, const char *text, const char *why)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "%.300s is no reference to an image: %s", text, why);
	return cay_hint(err, "use NAME[:TAG] or REGISTRY/NAME[:TAG], such as python:3.12-slim or "
			     "localhost:5000/team/app:1.0");
}

/* Copies text of exactly len bytes, all of them among the given; false where it is not so. */
static bool take(char *ret, size_t size, const char *text, size_t len, const char *among)
{
	if (len == 0 || len >= size || strspn(text, among) < len)
		return false;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return true;
}

const char *image_ref_host(const char *registry)
{
	return strcmp(registry, IMAGE_REF_HUB) == 0 ? HUB_HOST : registry;
}

/* Letters and digits, with '.', '_', '__' or any number of '-' between them. */
static bool part_ok(const char *part, size_t len)
{
	size_t i = 0;

	while (i < len) {
		size_t run = strspn(part + i, LOWER DIGITS), between;

		if (run == 0)
			return false;
		i += run;
		if (i >= len)
			return i == len;
		between = strspn(part + i, "-");
		if (between == 0)
			between = part[i] == '.'                         ? 1
				  : part[i] == '_' && part[i + 1] == '_' ? 2
				  : part[i] == '_'                       ? 1
									 : 0;
		if (between == 0)
			return false;
		i += between;
	}
	return false;
}

static bool repository_ok(const char *repository)
{
	const char *part = repository;

	for (;;) {
		size_t len = strcspn(part, "/");

		if (!part_ok(part, len))
			return false;
		if (part[len] == '\0')
			return true;
		part += len + 1;
	}
}

static bool is_hex(const char *text, size_t len)
{
	return len == HEX_LEN && strspn(text, DIGITS "abcdef") >= HEX_LEN;
}

bool image_ref_names_registry(const char *text, size_t len)
{
	static const char local[] = "localhost";

	if (len == sizeof(local) - 1 && memcmp(text, local, len) == 0)
		return true;
	return strcspn(text, ".:") < len;
}

/* What stands before the first slash, where that is a registry; *rest is what follows. */
static int parse_registry(const char *text, struct image_ref *ret, const char **ret_rest)
{
	const char *slash = strchr(text, '/');

	*ret_rest = text;
	memcpy(ret->registry, IMAGE_REF_HUB, sizeof(IMAGE_REF_HUB));
	if (!slash || !image_ref_names_registry(text, (size_t)(slash - text)))
		return 0;
	*ret_rest = slash + 1;
	if (registry_parse(text, (size_t)(slash - text), ret->registry) < 0)
		return -EINVAL;
	if (strcmp(ret->registry, HUB_ALIAS) == 0)
		memcpy(ret->registry, IMAGE_REF_HUB, sizeof(IMAGE_REF_HUB));
	return 0;
}

static int parse_repository(const char *name, size_t len, struct image_ref *ret)
{
	bool official = strcmp(ret->registry, IMAGE_REF_HUB) == 0 && memchr(name, '/', len) == NULL;
	int n = snprintf(ret->repository, sizeof(ret->repository), "%s%.*s",
			 official ? HUB_LIBRARY : "", (int)size_min(len, sizeof(ret->repository)),
			 name);

	return n < 0 || (size_t)n >= sizeof(ret->repository) || !repository_ok(ret->repository)
		       ? -EINVAL
		       : 0;
}

int image_ref_parse(const char *text, struct image_ref *ret, struct cay_error *err)
{
	struct image_ref ref = {0};
	const char *rest, *at, *colon;
	size_t name_len;

	if (strlen(text) >= IMAGE_REF_SIZE)
		return bad(err, text, "it is too long");
	if (parse_registry(text, &ref, &rest) < 0)
		return bad(err, text, "its registry is no host");
	at = strchrnul(rest, '@');
	colon = memchr(rest, ':', (size_t)(at - rest));
	name_len = (size_t)((colon ? colon : at) - rest);
	if (rest == text && is_hex(rest, name_len))
		return bad(err, text, "it is an image's id");
	if (parse_repository(rest, name_len, &ref) < 0)
		return bad(err, text, "names are of lower-case letters, digits and single . _ -");
	if (colon && (!take(ref.tag, sizeof(ref.tag), colon + 1, (size_t)(at - colon - 1),
			    LOWER UPPER DIGITS "_.-") ||
		      ref.tag[0] == '.' || ref.tag[0] == '-'))
		return bad(err, text, "a tag is of at most 128 letters, digits and . _ -");
	if (*at && (strncmp(at + 1, DIGEST_PREFIX, sizeof(DIGEST_PREFIX) - 1) != 0 ||
		    !is_hex(at + sizeof(DIGEST_PREFIX), strlen(at + sizeof(DIGEST_PREFIX))) ||
		    !take(ref.digest, sizeof(ref.digest), at + sizeof(DIGEST_PREFIX), HEX_LEN,
			  DIGITS "abcdef")))
		return bad(err, text, "a digest is sha256: and 64 hexadecimal digits");
	if (!ref.tag[0] && !ref.digest[0])
		memcpy(ref.tag, LATEST, sizeof(LATEST));
	*ret = ref;
	return 0;
}

void image_ref_text(const struct image_ref *ref, char ret[IMAGE_REF_SIZE])
{
	(void)snprintf(ret, IMAGE_REF_SIZE, "%s/%s%s%s%s%s", ref->registry, ref->repository,
		       ref->tag[0] ? ":" : "", ref->tag, ref->digest[0] ? "@" DIGEST_PREFIX : "",
		       ref->digest);
}
