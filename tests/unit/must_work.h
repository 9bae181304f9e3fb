/*
 * must_work.h: a test that can't run on this machine says so and is skipped; in
 * CI (CAY_MUST_WORK) that is a failure. Behind cmocka.h.
 */
#pragma once

#include <stdlib.h>

#define CANT_RUN(why)                                         \
	do {                                                  \
		print_message("can't run here: %s\n", (why)); \
		if (getenv("CAY_MUST_WORK"))                  \
			fail();                               \
		skip();                                       \
	} while (0)
