#include "cli/remote_sandbox.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define PAGES_MAX      1000
#define PATH_BYTES_MAX 4096

int remote_sandbox_ask(struct remote *r, const char *method, const char *id, const char *rest,
		       const struct json *body, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = {0};
	struct remote_ask ask = {.method = method, .json = body};

	if (remote_sandbox_path(&path, id, rest, err) < 0)
		return -1;
	ask.path = buf_str(&path);
	return remote_json(r, &ask, ret, err);
}

/* The values of one page, to those of the pages before. */
static int add_page(struct json *list, const struct json *page, const char *name,
		    struct cay_error *err)
{
	const struct json *more = json_get(page, name);

	if (json_kind(more) != JSON_KIND_ARRAY)
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer has no %s", name);
	for (size_t i = 0; i < json_len(more); i++)
		json_add(list, json_ref(json_at(more, i)));
	return 0;
}

static int next_page(struct buf *path, const char *first, const char *cursor)
{
	int r;

	path->len = 0;
	r = buf_printf(path, "%s%ccursor=", first, strchr(first, '?') ? '&' : '?');
	return r < 0 ? r : text_append_encoded(path, cursor);
}

int remote_list(struct remote *r, const char *path, const char *name, struct json **ret,
		struct cay_error *err)
{
	_cleanup_(json_freep) struct json *all = json_new_object();
	_cleanup_(buf_done) struct buf at = BUF(PATH_BYTES_MAX);
	struct json *list = json_new_array();
	int s = buf_append_str(&at, path) < 0 ? -1 : 0;

	json_set(all, name, list);
	for (int n = 0; s == 0 && n < PAGES_MAX; n++) {
		_cleanup_(json_freep) struct json *page = NULL;
		const struct remote_ask ask = {.method = "GET", .path = buf_str(&at)};
		const char *cursor;

		if (remote_json(r, &ask, &page, err) < 0 || add_page(list, page, name, err) < 0)
			return -1;
		cursor = json_str(json_get(page, "cursor"));
		if (!cursor || !cursor[0]) {
			*ret = take_ptr(&all);
			return 0;
		}
		s = next_page(&at, path, cursor);
	}
	return cay_fail(err, CAY_E_TOO_LARGE, 0, "the daemon's list of %s has no end", name);
}

int remote_sandbox_which(struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "which sandbox?");
	return cay_hint(err, "cay ps lists them");
}

int remote_sandbox_verb(const struct verb *v, int argc, char **argv, remote_sandbox_fn *fn,
			void *ctx)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	const char *words[SANDBOX_WORDS_MAX];
	struct cay_error err;
	int s = verb_parse(v, argc, argv, ctx, words, SANDBOX_WORDS_MAX, &err), code = 0;

	if (s == 1)
		return 0;
	if (s == 0 && !words[0])
		s = remote_sandbox_which(&err);
	if (s < 0 || remote_open(&r, &err) < 0)
		return cli_error(&err, false);
	for (size_t i = 0; i < SANDBOX_WORDS_MAX && words[i] && !remote_signal(r); i++) {
		s = fn(r, words[i], ctx, &err);
		if (s < 0)
			code = cli_error(&err, false);
		else if (s == 0)
			(void)printf("%s\n", words[i]);
	}
	return code;
}
