#include "core/capture.h"

#include "base/attr.h"
#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void capture_init(struct capture *c, size_t limit)
{
	*c = (struct capture){.head_max = limit - limit / 2, .tail_max = limit / 2};
}

void capture_done(struct capture *c)
{
	free(c->head);
	free(c->tail);
	*c = (struct capture){0};
}

/* Appends to a plain growing array of at most max bytes; returns how many went in, or -ENOMEM. */
static ssize_t fill(char **data, size_t *len, size_t *cap, size_t max, const char *more, size_t n)
{
	n = size_min(n, max - *len);
	if (n == 0)
		return 0;
	if (*len + n > *cap) {
		size_t new_cap = size_min(size_max(*cap * 2, size_max(*len + n, 1024)), max);
		char *p = realloc(*data, new_cap);

		if (!p)
			return -ENOMEM;
		*data = p;
		*cap = new_cap;
	}
	memcpy(*data + *len, more, n);
	*len += n;
	return (ssize_t)n;
}

/* The tail is full: the oldest bytes make room. */
static void turn(struct capture *c, const char *data, size_t len)
{
	size_t first;

	c->dropped += len;
	if (len > c->tail_max) {
		data += len - c->tail_max;
		len = c->tail_max;
	}
	first = size_min(len, c->tail_max - c->tail_start);
	memcpy(c->tail + c->tail_start, data, first);
	memcpy(c->tail, data + first, len - first);
	c->tail_start = (c->tail_start + len) % c->tail_max;
}

int capture_add(struct capture *c, const char *data, size_t len)
{
	ssize_t n = fill(&c->head, &c->head_len, &c->head_cap, c->head_max, data, len);

	if (n < 0)
		return (int)n;
	data += n;
	len -= (size_t)n;
	n = fill(&c->tail, &c->tail_len, &c->tail_cap, c->tail_max, data, len);
	if (n < 0)
		return (int)n;
	data += n;
	len -= (size_t)n;
	if (len > 0 && c->tail_max > 0)
		turn(c, data, len);
	else
		c->dropped += len;
	return 0;
}

bool capture_truncated(const struct capture *c)
{
	return c->dropped > 0;
}

int capture_text(const struct capture *c, struct buf *out)
{
	size_t start = c->dropped > 0 ? c->tail_start : 0;
	int r = buf_append(out, c->head, c->head_len);

	if (r == 0)
		r = buf_append(out, c->tail ? c->tail + start : NULL, c->tail_len - start);
	if (r == 0)
		r = buf_append(out, c->tail, start);
	return r;
}
