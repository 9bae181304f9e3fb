/*
 * fuzz.h: what the targets share. A target feeds bytes to a parser and states
 * what must hold of whatever comes out: not crashing is the least of it.
 */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(holds)                                                                      \
	do {                                                                              \
		if (!(holds)) {                                                           \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
			abort();                                                          \
		}                                                                         \
	} while (0)

/* Bytes that are taken from the front; 0 where there are no more. */
struct input {
	const uint8_t *at;
	size_t len;
};

#define INPUT(data, size) ((struct input){(data), (size)})

static inline uint8_t input_u8(struct input *in)
{
	if (in->len == 0)
		return 0;
	in->len--;
	return *in->at++;
}

static inline uint16_t input_u16(struct input *in)
{
	unsigned high = input_u8(in);

	return (uint16_t)(high << 8 | input_u8(in));
}

/* The rest as a string, in a block of exactly its size: a step past it is seen. */
static inline char *input_rest(struct input *in)
{
	char *s = malloc(in->len + 1);

	CHECK(s);
	if (in->len > 0)
		memcpy(s, in->at, in->len);
	s[in->len] = '\0';
	in->at += in->len;
	in->len = 0;
	return s;
}

/* The bytes up to the next NUL or newline, in the same way. */
static inline char *input_line(struct input *in)
{
	struct input line = {in->at, 0};

	while (line.len < in->len && in->at[line.len] != '\0' && in->at[line.len] != '\n')
		line.len++;
	in->at += size_min(line.len + 1, in->len);
	in->len -= size_min(line.len + 1, in->len);
	return input_rest(&line);
}

static inline void freep(void *p)
{
	void *block;

	memcpy(&block, p, sizeof(block));
	free(block);
}
