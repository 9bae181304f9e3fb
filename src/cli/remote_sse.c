#include "cli/remote_sse.h"

#include "base/attr.h"

#include <stdio.h>
#include <string.h>

void sse_init(struct sse *s, size_t max_bytes)
{
	*s = (struct sse){.line = BUF(max_bytes), .data = BUF(max_bytes)};
}

void sse_done(struct sse *s)
{
	buf_done(&s->line);
	buf_done(&s->data);
}

static int end_event(struct sse *s, sse_fn *fn, void *ctx)
{
	int r = 0;

	if (s->has_data)
		r = fn(ctx, s->name[0] ? s->name : "message", buf_str(&s->data), s->data.len);
	buf_done(&s->data);
	s->has_data = false;
	s->name[0] = '\0';
	return r;
}

/* The value behind "NAME:" and one space; NULL: it is another field's line. */
static const char *value_of(const struct buf *line, const char *name, size_t *ret_len)
{
	size_t n = strlen(name);
	const char *at = line->data;

	if (line->len < n || memcmp(at, name, n) != 0 || (line->len > n && at[n] != ':'))
		return NULL;
	n += line->len > n;
	n += line->len > n && at[n] == ' ';
	*ret_len = line->len - n;
	return at + n;
}

static int add_data(struct sse *s, const char *value, size_t len)
{
	int r = s->has_data ? buf_append(&s->data, "\n", 1) : 0;

	s->has_data = true;
	return r < 0 ? r : buf_append(&s->data, value, len);
}

static int end_line(struct sse *s, sse_fn *fn, void *ctx)
{
	const char *value;
	size_t len;
	int r = 0;

	if (s->line.len == 0)
		return end_event(s, fn, ctx);
	value = value_of(&s->line, "data", &len);
	if (value) {
		r = add_data(s, value, len);
	} else {
		value = value_of(&s->line, "event", &len);
		/* A name that is too long is none that anybody waits for: its beginning isn't,
		 * either. */
		if (value)
			(void)snprintf(s->name, sizeof(s->name), "%.*s",
				       (int)size_min(len, SSE_NAME_MAX), value);
	}
	s->line.len = 0;
	return r;
}

/* How many bytes there are before the line ends. */
static size_t line_rest(const char *bytes, size_t len)
{
	const char *lf = memchr(bytes, '\n', len);
	const char *cr = memchr(bytes, '\r', lf ? (size_t)(lf - bytes) : len);

	return cr ? (size_t)(cr - bytes) : lf ? (size_t)(lf - bytes) : len;
}

int sse_feed(struct sse *s, const char *bytes, size_t len, sse_fn *fn, void *ctx)
{
	int r = 0;

	while (len > 0 && r == 0) {
		size_t n;

		if (s->after_cr && bytes[0] == '\n') {
			bytes++;
			len--;
		}
		s->after_cr = false;
		n = line_rest(bytes, len);
		r = buf_append(&s->line, bytes, n);
		bytes += n;
		len -= n;
		if (r < 0 || len == 0)
			break;
		s->after_cr = bytes[0] == '\r';
		bytes++;
		len--;
		r = end_line(s, fn, ctx);
	}
	return r;
}
