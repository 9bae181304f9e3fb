/*
 * platform.h: what an image is for, as registries write it: OS/ARCHITECTURE[/VARIANT]. Pure.
 */
#pragma once

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

#define PLATFORM_PART_SIZE 32
#define PLATFORM_SIZE      (3 * PLATFORM_PART_SIZE)

struct platform {
	char os[PLATFORM_PART_SIZE], architecture[PLATFORM_PART_SIZE];
	char variant[PLATFORM_PART_SIZE]; /* "": none said */
};

/* CAY_E_INVALID says what one looks like. */
int platform_parse(const char *text, struct platform *ret, struct cay_error *err);

/* Small letters, digits and what may stand between them. */
bool platform_part_ok(const char *part);

/* This machine's. */
int platform_here(struct platform *ret, struct cay_error *err);

void platform_text(const struct platform *p, char ret[PLATFORM_SIZE]);

/*
 * How well an image for offered does where wanted was asked for: 0 not at all, more is better.
 * Where no variant is wanted, one that every machine of the architecture runs is best.
 */
int platform_fits(const struct platform *wanted, const struct platform *offered);
