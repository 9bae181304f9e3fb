/* Images of a daemon, by its API. */
#include "cli/image.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/remote_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 4096

int image_remote(struct remote **ret, struct cay_error *err)
{
	const char *host = getenv("CAY_HOST");

	*ret = NULL;
	return host && host[0] ? remote_open(ret, err) : 0;
}

int image_remote_list(struct remote *r, struct json **ret, struct cay_error *err)
{
	return remote_json(r, &(struct remote_ask){.method = "GET", .path = "/v1/images"}, ret,
			   err);
}

static int path_of(struct buf *path, const char *lead, const char *name, struct cay_error *err)
{
	*path = BUF(PATH_BYTES_MAX);
	return buf_append_str(path, lead) < 0 || text_append_encoded(path, name) < 0
		       ? cay_fail(err, CAY_E_TOO_LARGE, 0, "the image's name")
		       : 0;
}

int image_remote_get(struct remote *r, const char *name, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = {0};

	if (path_of(&path, "/v1/images?name=", name, err) < 0)
		return -1;
	return remote_json(r, &(struct remote_ask){.method = "GET", .path = buf_str(&path)}, ret,
			   err);
}

int image_remote_rm(struct remote *r, const struct image_ask *a, struct cay_error *err)
{
	for (const char *const *word = a->words; *word; word++) {
		_cleanup_(buf_done) struct buf path = {0};
		_cleanup_(json_freep) struct json *answer = NULL;

		/* As a segment of a path, ".." would be another place. */
		if ((*word)[0] == '.')
			return cay_fail(err, CAY_E_INVALID, 0, "'%.64s' is no image", *word);
		if (path_of(&path, "/v1/images/", *word, err) < 0 ||
		    remote_json(r,
				&(struct remote_ask){.method = "DELETE",
						     .path = buf_str(&path),
						     .patient = true},
				&answer, err) < 0)
			return -1;
		if (a->json && cli_print_json(take_ptr(&answer)) != 0)
			return EXIT_OURS;
	}
	return 0;
}

/* A step of a pull: what a terminal shows of it is whose turn it is. */
static int on_event(void *ctx, const char *name, const struct json *data, struct cay_error *err)
{
	const struct image_ask *a = ctx;

	if (strcmp(name, "error") == 0)
		return remote_refusal_json(500, data, err);
	if (a->json && cli_print_json(json_ref(data)) != 0)
		return cay_fail(err, CAY_E_INTERNAL, 0, "write to standard output");
	if (strcmp(name, "image") != 0)
		return 0;
	if (!a->json)
		(void)printf("%.12s\n", json_str(json_get(data, "id")) ?: "?");
	return 1;
}

int image_remote_pull(struct remote *r, const struct image_ask *a, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *body = json_new_object();
	const struct remote_ask ask = {.method = "POST",
				       .path = "/v1/images",
				       .json = body,
				       .events = true,
				       .patient = true};

	if (remote_request_str(body, "reference", a->words[0], "the image's name", err) < 0 ||
	    (a->platform &&
	     remote_request_str(body, "platform", a->platform, "--platform", err) < 0))
		return -1;
	return remote_events(r, &ask, false, on_event, (void *)(uintptr_t)a, err) < 0 ? -1 : 0;
}
