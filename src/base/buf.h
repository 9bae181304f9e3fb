/*
 * buf.h: a growing byte buffer with a mandatory maximum. The bytes are always
 * followed by a NUL that does not count, so text in it can be used as a string.
 */
#pragma once

#include "base/attr.h"

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data; /* NULL until something was appended */
	size_t len;
	size_t cap;
	size_t max;
};

#define BUF(max_bytes) ((struct buf){.max = (max_bytes)})

/* Frees the bytes; the buffer can be used again, with the same maximum. */
void buf_done(struct buf *b);

/* All return 0, -EFBIG past the maximum (nothing is appended then), or -ENOMEM. */
int buf_append(struct buf *b, const void *data, size_t len);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) _printf_(2, 0);

/* The bytes as a string: "" when empty. */
const char *buf_str(const struct buf *b);

/* Gives the bytes away: free() them. NULL only when memory is out. The buffer is empty after. */
char *buf_take(struct buf *b);
