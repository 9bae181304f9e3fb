/*
 * frames.h: what a container without a terminal prints, out of the stream of an attach or exec:
 * frames of [kind, 0, 0, 0, length in 4 bytes, big-endian]. With a terminal there are none: who
 * asked for it knows, and must not ask here (what the answer calls its type says nothing). Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum frame_kind { FRAME_STDIN, FRAME_STDOUT, FRAME_STDERR, FRAME_ERROR, FRAME_KINDS };

/* All zero at first. */
struct frames {
	unsigned char head[8];
	size_t have;   /* of head */
	uint32_t left; /* of the frame's bytes */
};

/*
 * Takes from the *len bytes at *data, which are moved on, up to the next piece of one frame. 1: it
 * is ret_piece, of data's own bytes; 0: all is taken; -1: this is no frame, nor will be.
 */
int frames_next(struct frames *f, const char **data, size_t *len, enum frame_kind *ret_kind,
		const char **ret_piece, size_t *ret_len);

/* Whether the stream may end here. */
int frames_at_border(const struct frames *f);
