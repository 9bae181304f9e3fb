/*
 * command.h: what to execute: a request and its language's row, turned into
 * words. Pure.
 */
#pragma once

#include "base/strv.h"
#include "spec/runtime.h"
#include "spec/spec.h"

#include <stdint.h>

/*
 * Where compilers put what they make; a program beside others has a directory below it
 * (command_build_dir). Their caches are shared.
 */
#define ISLAND_BUILD "/tmp/cay-build"
#define BUILD_SIZE   (sizeof(ISLAND_BUILD "/") + ID_SIZE)

struct command_words {
	struct strv compile; /* empty: there is nothing to compile */
	struct strv argv;
	struct strv env; /* what the language needs */
};

/*
 * runtime is NULL for a bare argv; script is the source's path on the island, or
 * NULL where the code goes as an argument. 0 or -errno; command_done() in any case.
 */
int command_make(const struct spec *spec, const struct runtime *runtime, const char *script,
		 uint64_t memory_bytes, struct command_words *ret);
void command_done(struct command_words *c);

/* The program's build directory on the island. */
void command_build_dir(const struct spec *spec, char path[BUILD_SIZE]);
