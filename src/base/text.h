/*
 * text.h: bytes that claim to be text: UTF-8, base64, and what a terminal may see.
 */
#pragma once

#include <stddef.h>

struct buf;

/* 1 if all bytes are well-formed UTF-8 (no surrogates, nothing overlong). */
int text_is_utf8(const char *s, size_t len);

/* How many of the bytes are left without a sequence at the end that has only begun. */
size_t text_utf8_whole(const char *s, size_t len);

/* Appends s to out with each ill-formed sequence replaced by U+FFFD. 0 or -errno. */
int text_append_utf8(struct buf *out, const char *s, size_t len);

/* Appends the base64 of the bytes. 0 or -errno. */
int text_append_base64(struct buf *out, const void *data, size_t len);

/*
 * Appends the bytes that base64 stands for. Strict: padded, no white space, no
 * bits left over; one text for each string of bytes. 0, -EINVAL, or -errno.
 */
int text_decode_base64(struct buf *out, const char *s, size_t len);

/*
 * Makes one harmless line of a text that others had a hand in: control characters
 * (C1 too) and those that turn the direction of writing become '?', line breaks a space.
 */
void text_flatten(char *s, size_t len);

/*
 * A terminal filter: passes text, white space and colour (CSI … m), and shows
 * every other control sequence harmlessly as caret notation; what is no UTF-8, a
 * C1 control or turns the direction of writing becomes U+FFFD. It keeps its state
 * between calls, because sequences are cut anywhere by the pipe.
 */
struct text_filter {
	int state;
	size_t held;
	char pending[32];
};

int text_filter_feed(struct text_filter *f, struct buf *out, const char *s, size_t len);

/* What is still held back at the end of the stream. */
int text_filter_end(struct text_filter *f, struct buf *out);

/*
 * Appends what others wrote as one line that does not act on a terminal; text is
 * flattened. 0 or -errno.
 */
int text_append_harmless(struct buf *out, char *text, size_t len);

/* Appends s so that it can stand in a path or query: all but letters, digits and -._~ is %XX. 0 or
 * -errno. */
int text_append_encoded(struct buf *out, const char *s);
