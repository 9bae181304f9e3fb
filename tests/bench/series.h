/*
 * series.h: times of one thing measured again and again, told as quartiles.
 * Header-only, for the two benchmark programs.
 *
 * The machines are shared: noise only ever adds, so the quartiles below the
 * median say what the code costs, and the median what a user sees. What is
 * compared is measured in turns, in a new random order each round, so that
 * noise, and what one run leaves to the kernel to clean up, hits all alike.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct series {
	const char *name;
	double *us;
	size_t len, max;
};

static inline double now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline void pause_us(long us)
{
	struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

	(void)nanosleep(&t, NULL);
}

static inline void series_init(struct series *s, const char *name, size_t max)
{
	*s = (struct series){.name = name, .max = max, .us = calloc(max, sizeof(double))};
	if (!s->us)
		abort();
}

static inline void series_done(struct series *s)
{
	free(s->us);
	*s = (struct series){0};
}

static inline void series_add(struct series *s, double us)
{
	if (s->len < s->max)
		s->us[s->len++] = us;
}

static inline int series_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts: after this the order of measuring is gone. */
static inline json_t *series_json(struct series *s)
{
	qsort(s->us, s->len, sizeof(double), series_order);
	if (s->len == 0)
		return json_null();
	return json_pack("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)s->len, "min", s->us[0],
			 "p25", s->us[s->len / 4], "median", s->us[s->len / 2], "p75",
			 s->us[s->len * 3 / 4]);
}

/* A new order of 0 to n - 1. The same in every run of the program: rand() is not seeded. */
static inline void shuffle(size_t *order, size_t n)
{
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t k = (size_t)rand() % i, swap = order[i - 1];

		order[i - 1] = order[k];
		order[k] = swap;
	}
}

static inline int print_json(json_t *j)
{
	int r = j ? json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : -1;

	json_decref(j);
	return r < 0 || puts("") < 0 ? 1 : 0;
}
