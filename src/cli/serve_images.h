/*
 * serve_images.h: the process of a daemon that starts cay-image for the api.
 */
#pragma once

#include "settings/settings.h"

/*
 * Its whole life: takes orders (image/order.h) from sock until that ends. It has our rights and
 * uses them for nothing but to start cay-image; of the api it believes no word.
 */
int serve_images(int sock, const struct settings *s);
