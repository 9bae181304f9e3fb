#include "engine/container/frames.h"

#include "base/attr.h"

#include <string.h>

#define HEAD_BYTES sizeof(((struct frames *)0)->head)

static uint32_t length_of(const unsigned char *head)
{
	return (uint32_t)head[4] << 24 | (uint32_t)head[5] << 16 | (uint32_t)head[6] << 8 | head[7];
}

static int take_head(struct frames *f, const char **data, size_t *len)
{
	size_t n = size_min(HEAD_BYTES - f->have, *len);

	memcpy(f->head + f->have, *data, n);
	f->have += n;
	*data += n;
	*len -= n;
	if (f->have < HEAD_BYTES)
		return 0;
	if (f->head[0] >= FRAME_KINDS || f->head[1] || f->head[2] || f->head[3])
		return -1;
	f->left = length_of(f->head);
	/* An empty frame is over. */
	f->have = f->left > 0 ? HEAD_BYTES : 0;
	return 0;
}

int frames_next(struct frames *f, const char **data, size_t *len, enum frame_kind *ret_kind,
		const char **ret_piece, size_t *ret_len)
{
	while (*len > 0) {
		size_t n;

		if (f->have < HEAD_BYTES) {
			if (take_head(f, data, len) < 0)
				return -1;
			continue;
		}
		n = size_min(f->left, *len);
		*ret_kind = (enum frame_kind)f->head[0];
		*ret_piece = *data;
		*ret_len = n;
		*data += n;
		*len -= n;
		f->left -= (uint32_t)n;
		if (f->left == 0)
			f->have = 0;
		return 1;
	}
	return 0;
}

int frames_at_border(const struct frames *f)
{
	return f->have == 0;
}
