/*
 * images.h: the images of the store: what is there is read; pulling and removing is asked of the
 * process that has the rights for it (image/order.h).
 */
#pragma once

#include "api/router.h"

extern const struct route route_image_list, route_image_pull, route_image_remove;
