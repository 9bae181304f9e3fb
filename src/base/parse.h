/*
 * parse.h: numbers as people write them. All return 0, -EINVAL for what is no
 * such number, -ERANGE for one out of the range given.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/* Bytes: 512m, 1g, 100k, 1.5g, 4096, 10MB, 2GiB; units are powers of 1024. */
int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret_bytes);

/* Time: seconds (60, 1.5), or with a unit: 500ms, 10s, 5m, 1h. */
int parse_duration(const char *s, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms);

/* A decimal in thousandths: 1.5 -> 1500. */
int parse_milli(const char *s, uint64_t min, uint64_t max, uint64_t *ret_milli);

int parse_bool(const char *s, int *ret);

/* "512 MiB", "1.5 GiB", "100 bytes" into text. */
const char *format_size(uint64_t bytes, char *text, size_t size);

/* "60 s", "1.5 s", "200 ms" into text. */
const char *format_duration(uint64_t ms, char *text, size_t size);
