/*
 * used.h: what a store takes on disk, as its budget counts it.
 */
#pragma once

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

/* Layers, each once; downloads; what roots have of their own. No store: nothing. */
int images_used(const char *dir, uint64_t *ret_bytes, size_t *ret_images, struct cay_error *err);
