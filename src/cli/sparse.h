/*
 * sparse.h: files of a sandbox's, written here. Holes come as zeros, and become holes again:
 * whoever runs code in the sandbox makes a file of a terabyte for nothing, and must not fill
 * our disk by it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Appends to the file, which has *at bytes so far. 0 or -errno. */
int sparse_write(int fd, uint64_t *at, const char *data, size_t len);

/* One that ends in a hole is as long as it was. 0 or -errno. */
int sparse_end(int fd, uint64_t at);
