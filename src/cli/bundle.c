#include "cli/bundle.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/picture.h"

#include <string.h>
#include <unistd.h>

/* The first of these that is there is what is printed. */
static const char *const texts[] = {
	"text/plain", "text/markdown", "text/latex", "text/html", "application/json",
};

static int show_text(struct remote_output *o, const struct json *bundle, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf json = BUF(REMOTE_EVENT_MAX);
	const struct json *value = NULL;
	const char *text;
	size_t len = 0;
	int r;

	for (size_t i = 0; !value && i < ARRAY_LEN(texts); i++)
		value = json_get(bundle, texts[i]);
	text = json_bytes(value, &len);
	if (!text && json_kind(value) >= JSON_KIND_ARRAY && json_text(value, &json) == 0) {
		text = json.data;
		len = json.len;
	}
	if (!text)
		return 0;
	r = remote_output_text(o, STREAM_STDOUT, text, len, err);
	if (r == 0 && (len == 0 || text[len - 1] != '\n'))
		r = remote_output_text(o, STREAM_STDOUT, "\n", 1, err);
	return r;
}

static int decode(const struct picture_type *type, const struct json *value, struct buf *out)
{
	size_t len = 0;
	const char *text = json_bytes(value, &len);

	if (!text)
		return -1;
	return type->is_text ? buf_append(out, text, len) : text_decode_base64(out, text, len);
}

/* 1: it is a file, and what it is may still be said in words. */
static int show_picture(struct remote_output *o, const struct picture_type *type,
			const struct buf *picture, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf sequence = BUF(2u * REMOTE_EVENT_MAX);
	char name[32];

	if (picture_append(&sequence, type, picture->data, picture->len) == 0) {
		/* Past the filter, which would not let it through. */
		output_settle(&o->out);
		(void)fd_write_all(STDOUT_FILENO, sequence.data, sequence.len);
		return 0;
	}
	/* A place that can't be written to is no reason to end the cell. */
	if (picture_save(type, picture->data, picture->len, name, err) < 0)
		cli_say("%s", err->text);
	else
		cli_note("%s: %s", type->mime, name);
	return 1;
}

int bundle_show(struct remote_output *o, const struct json *bundle, struct cay_error *err)
{
	for (size_t i = 0; i < n_picture_types; i++) {
		_cleanup_(buf_done) struct buf picture = BUF(REMOTE_EVENT_MAX);
		const struct json *value = json_get(bundle, picture_types[i].mime);

		if (value && decode(&picture_types[i], value, &picture) == 0)
			return show_picture(o, &picture_types[i], &picture, err) == 0
				       ? 0
				       : show_text(o, bundle, err);
	}
	return show_text(o, bundle, err);
}
