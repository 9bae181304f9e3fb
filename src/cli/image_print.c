#include "cli/image.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX_BYTES (4u << 20)

/* What others wrote does not act on a terminal. */
static int add_line(struct buf *out, const char *label, const char *text)
{
	_cleanup_(buf_done) struct buf copy = BUF(OUTPUT_MAX_BYTES);
	int r = buf_append_str(&copy, text);

	if (r == 0)
		r = buf_printf(out, "%-13s ", label);
	if (r == 0 && copy.len > 0)
		r = text_append_harmless(out, copy.data, copy.len);
	return r < 0 ? r : buf_append_str(out, "\n");
}

static int add_list(struct buf *out, const char *label, const struct json *list)
{
	int r = 0;

	for (size_t i = 0; i < json_len(list) && r == 0; i++) {
		const char *text = json_str(json_at(list, i));

		r = text ? add_line(out, label, text) : 0;
	}
	return r;
}

static int add_runtimes(struct buf *out, const struct json *list)
{
	int r = 0;

	for (size_t i = 0; i < json_len(list) && r == 0; i++) {
		_cleanup_(buf_done) struct buf line = BUF(OUTPUT_MAX_BYTES);
		const struct json *rt = json_at(list, i);
		const char *language = json_str(json_get(rt, "language"));
		const char *version = json_str(json_get(rt, "version"));
		const char *program = json_str(json_get(rt, "program"));

		r = buf_printf(&line, "%s %s (%s)", language ? language : "?",
			       version && version[0] ? version : "-", program ? program : "?");
		if (r == 0)
			r = add_line(out, "runtime", buf_str(&line));
	}
	return r;
}

static int add_text(struct buf *out, const struct json *image, const char *key)
{
	const char *text = json_str(json_get(image, key));

	return text ? add_line(out, key, text) : 0;
}

static int add_size(struct buf *out, const struct json *image)
{
	int64_t bytes = json_int(json_get(image, "size_bytes"));
	char text[32];

	return add_line(out, "size",
			format_size(bytes > 0 ? (uint64_t)bytes : 0, text, sizeof(text)));
}

int image_print(const struct json *image, struct cay_error *err)
{
	static const char *const texts[] = {"id",           "manifest", "created", "os",
					    "architecture", "user",     "home",    "workdir"};
	_cleanup_(buf_done) struct buf out = BUF(OUTPUT_MAX_BYTES);
	int r = add_list(&out, "name", json_get(image, "names"));

	for (size_t i = 0; i < ARRAY_LEN(texts) && r == 0; i++)
		r = add_text(&out, image, texts[i]);
	if (r == 0)
		r = add_size(&out, image);
	if (r == 0)
		r = add_list(&out, "env", json_get(image, "env"));
	if (r == 0)
		r = add_list(&out, "entrypoint", json_get(image, "entrypoint"));
	if (r == 0)
		r = add_list(&out, "cmd", json_get(image, "cmd"));
	if (r == 0)
		r = add_runtimes(&out, json_get(image, "runtimes"));
	if (r == 0)
		r = add_list(&out, "layer", json_get(image, "layers"));
	if (r == 0)
		r = fd_write_all(STDOUT_FILENO, out.data, out.len);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "write to standard output") : 0;
}
