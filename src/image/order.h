/*
 * order.h: what a daemon's api, which has no rights, asks of the process that starts cay-image for
 * it: one packet with the write end of a pipe. Down that pipe come cay-image's lines of JSON, and
 * last {"ended":CODE}, whatever happens, as long as both processes live.
 */
#pragma once

#include "core/error.h"
#include "image/ref.h"
#include "settings/settings.h"

#include <stdint.h>

#define IMAGE_PLATFORM_SIZE 64

enum image_order_kind { IMAGE_ORDER_PULL, IMAGE_ORDER_RM, IMAGE_ORDER_KINDS };

struct image_order {
	uint32_t kind;
	char name[IMAGE_REF_SIZE];          /* as image_name_resolve() makes it */
	char platform[IMAGE_PLATFORM_SIZE]; /* "": this machine's */
};

/* text NULL: this machine's. CAY_E_INVALID. */
int image_order_make(const struct settings *s, enum image_order_kind kind, const char *text,
		     const char *platform, struct image_order *ret, struct cay_error *err);

/*
 * Whether len bytes from somewhere are an order that may be carried out. It is asked again by who
 * carries it out, and believes nothing: names and platforms become arguments of a program.
 */
int image_order_check(const struct image_order *o, size_t len, const struct settings *s,
		      struct cay_error *err);
