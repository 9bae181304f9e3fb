/*
 * attr.h: the few language helpers everything else uses.
 */
#pragma once

#include <stddef.h>

#define _cleanup_(fn)       __attribute__((cleanup(fn)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _noreturn_          __attribute__((noreturn))
#define _unused_            __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Hands a pointer or fd over: the variable is emptied, so its cleanup does nothing. */
#define take_ptr(p)                         \
	({                                  \
		__typeof__(p) _pp = (p);    \
		__typeof__(*_pp) _v = *_pp; \
		*_pp = NULL;                \
		_v;                         \
	})

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

static inline size_t size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
	return a > b ? a : b;
}
