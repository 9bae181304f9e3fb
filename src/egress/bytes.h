/*
 * bytes.h: numbers as they are on the wire.
 */
#pragma once

#include <stdint.h>

static inline uint16_t bytes_get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline void bytes_put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}
