#include "cli/bundle.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define UNSAVED_TEXT_MAX 512

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

/* 1: it is not on the screen, and what it is may still be said in words. */
static int show_picture(struct bundles *b, size_t which, const struct buf *picture,
			struct cay_error *err)
{
	_cleanup_(buf_done) struct buf sequence = BUF(2u * REMOTE_EVENT_MAX);
	const struct picture_type *type = &picture_types[which];
	char name[32];

	if (b->dir_fd == -1) {
		b->unsaved[which]++;
		return 1;
	}
	if (b->taken == BUNDLE_PICTURES_MAX) {
		b->beyond++;
		return 1;
	}
	b->taken++;
	if (!b->dir &&
	    picture_append(&sequence, type, picture->data, picture->len, b->screen) == 0) {
		/* Past the filter, which would not let it through. */
		output_settle(&b->out->out);
		(void)fd_write_all(STDOUT_FILENO, sequence.data, sequence.len);
		return 0;
	}
	/* A place that can't be written to is no reason to end the cell. */
	if (picture_save(b->dir_fd, type, picture->data, picture->len, name, err) < 0)
		cli_say("%s", err->text);
	else
		cli_note("%s: %s%s%s", type->mime, b->dir ? b->dir : "", b->dir ? "/" : "", name);
	return 1;
}

int bundles_show(struct bundles *b, const struct json *bundle, struct cay_error *err)
{
	for (size_t i = 0; i < PICTURE_TYPES; i++) {
		_cleanup_(buf_done) struct buf picture = BUF(REMOTE_EVENT_MAX);
		const struct json *value = json_get(bundle, picture_types[i].mime);

		if (!value)
			continue;
		if (decode(&picture_types[i], value, &picture) == 0 &&
		    picture_is(&picture_types[i], picture.data, picture.len))
			return show_picture(b, i, &picture, err) == 0
				       ? 0
				       : show_text(b->out, bundle, err);
		b->false_claims++;
	}
	return show_text(b->out, bundle, err);
}

int bundles_init(struct bundles *b, struct remote_output *o, struct screen *screen, const char *dir,
		 struct cay_error *err)
{
	*b = (struct bundles){.out = o, .screen = screen, .dir = dir, .dir_fd = -1};
	if (dir) {
		b->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (b->dir_fd < 0)
			return cay_fail(err, CAY_E_NOT_FOUND, errno, "--pictures %s", dir);
	} else if (isatty(STDOUT_FILENO) == 1) {
		b->dir_fd = AT_FDCWD;
	}
	return 0;
}

void bundles_done(struct bundles *b)
{
	fd_closep(&b->dir_fd);
}

void bundles_finish(const struct bundles *b)
{
	_cleanup_(buf_done) struct buf list = BUF(UNSAVED_TEXT_MAX);
	int r = 0;

	for (size_t i = 0; i < PICTURE_TYPES && r == 0; i++)
		if (b->unsaved[i] > 0)
			r = buf_printf(&list, "%s%u %s", list.len ? ", " : "", b->unsaved[i],
				       picture_types[i].mime);
	if (list.len > 0)
		cli_note("pictures not saved: %s; --pictures DIR saves them, cay exec --json has "
			 "them",
			 buf_str(&list));
	if (b->beyond > 0)
		cli_note("pictures left out: %u, beyond the first %d of a cell", b->beyond,
			 BUNDLE_PICTURES_MAX);
	if (b->false_claims > 0)
		cli_say("pictures left out: %u, not of the type that they claim", b->false_claims);
}
