#include "engine/container/docker_images.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"
#include "image/ref.h"

#include <errno.h>
#include <string.h>

#define PATH_MAX_BYTES ((size_t)4 << 10)
#define HEADER_MAX     ((size_t)30 << 10) /* of the head of a request */
#define PULL_IDLE_MS   180000             /* without a word: a layer that is unpacked says little */

static int too_long(const char *what, int why, struct cay_error *err)
{
	return cay_fail(err, why == -EFBIG ? CAY_E_INVALID : CAY_E_INTERNAL, -why, "%s", what);
}

/* Of an image, all that is missing is the image. */
static int about_image(int r, struct cay_error *err)
{
	if (r < 0 && err->code == CAY_E_NOT_FOUND)
		err->code = CAY_E_IMAGE;
	return r;
}

/* A call about one image: lead, its name, rest. */
static int ask_image(struct docker *d, struct docker_ask *ask, const char *lead, const char *name,
		     const char *rest, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	int r = buf_append_str(&path, lead);

	if (r == 0)
		r = text_append_encoded(&path, name);
	if (r == 0)
		r = buf_append_str(&path, rest);
	if (r < 0)
		return too_long(ask->what, r, err);
	ask->path = buf_str(&path);
	return about_image(docker_json(d, ask, ret, err), err);
}

int docker_image_inspect(struct docker *d, const char *name, struct json **ret,
			 struct cay_error *err)
{
	struct docker_ask ask = {.method = "GET", .what = "look for the image"};

	return ask_image(d, &ask, "/images/", name, "/json", ret, err);
}

bool docker_image_is(const struct json *inspected, const char *reference)
{
	const struct json *names;
	char wanted[IMAGE_REF_SIZE];
	struct image_ref ref;
	struct cay_error unused;

	if (image_ref_parse(reference, &ref, &unused) < 0)
		return false;
	if (ref.digest[0])
		ref.tag[0] = '\0';
	image_ref_text(&ref, wanted);
	names = json_get(inspected, ref.digest[0] ? "RepoDigests" : "RepoTags");
	for (size_t i = 0; names && json_kind(names) == JSON_KIND_ARRAY && i < json_len(names);
	     i++) {
		const char *name = json_str(json_at(names, i));

		if (name && strcmp(name, wanted) == 0)
			return true;
	}
	return false;
}

int docker_image_remove(struct docker *d, const char *name, struct cay_error *err)
{
	struct docker_ask ask = {.method = "DELETE", .what = "remove the image"};

	return ask_image(d, &ask, "/images/", name, "", NULL, err);
}

int docker_image_list(struct docker *d, struct json **ret, struct cay_error *err)
{
	const struct docker_ask ask = {
		.method = "GET", .path = "/images/json", .what = "list images"};

	return docker_json(d, &ask, ret, err);
}

struct puller {
	struct docker *docker;
	docker_pull_fn *fn;
	void *ctx;
};

static const char *text_at(const struct json *j, const char *key)
{
	const struct json *v = json_get(j, key);

	return v ? json_str(v) : NULL;
}

static uint64_t bytes_at(const struct json *j, const char *key)
{
	const struct json *v = j ? json_get(j, key) : NULL;
	int64_t n = v ? json_int(v) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

/* The status was sent long before: what fails then is told in the stream. */
static int on_pull(void *ctx, const struct json *j, struct cay_error *err)
{
	struct puller *p = ctx;
	const struct json *detail = json_get(j, "progressDetail");
	const char *error = text_at(j, "error");
	struct docker_pull said = {
		.layer = text_at(j, "id"),
		.words = text_at(j, "status"),
		.now_bytes = bytes_at(detail, "current"),
		.total_bytes = bytes_at(detail, "total"),
	};

	if (error) {
		(void)docker_refused(docker_place(p->docker)->engine, "pull the image", 500, error,
				     strlen(error), err);
		if (err->code == CAY_E_ENGINE)
			err->code = CAY_E_IMAGE;
		return -1;
	}
	if (p->fn)
		p->fn(p->ctx, &said);
	return 0;
}

int docker_image_pull(struct docker *d, const char *name, const char *auth, docker_pull_fn *fn,
		      void *ctx, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = BUF(PATH_MAX_BYTES);
	_cleanup_(buf_done) struct buf header = BUF(HEADER_MAX);
	struct docker_ask ask = {
		.method = "POST", .timeout_ms = PULL_IDLE_MS, .what = "pull the image"};
	struct puller p = {.docker = d, .fn = fn, .ctx = ctx};
	int r = buf_append_str(&path, "/images/create?fromImage=");

	if (r == 0)
		r = text_append_encoded(&path, name);
	if (r == 0 && auth)
		r = buf_printf(&header, "X-Registry-Auth: %s\r\n", auth);
	if (r < 0)
		return too_long(ask.what, r, err);
	ask.path = buf_str(&path);
	ask.header = auth ? buf_str(&header) : NULL;
	return about_image(docker_objects(d, &ask, on_pull, &p, err), err);
}

int docker_version(struct docker *d, struct json **ret, struct cay_error *err)
{
	const struct docker_ask ask = {
		.method = "GET", .path = "/version", .what = "ask for the version"};

	return docker_json(d, &ask, ret, err);
}

int docker_info(struct docker *d, struct json **ret, struct cay_error *err)
{
	const struct docker_ask ask = {
		.method = "GET", .path = "/info", .what = "ask about the engine"};

	return docker_json(d, &ask, ret, err);
}
