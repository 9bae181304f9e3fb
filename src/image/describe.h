/*
 * describe.h: what a configuration says of an image, for its record. Pure.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "spec/image.h"

/*
 * Fills what the text says: layers, environment, user and so on; *ret is the caller's to
 * image_done(), also after a failure. What can't be is CAY_E_INVALID.
 */
int describe_config(const struct buf *config, struct image *ret, struct cay_error *err);
