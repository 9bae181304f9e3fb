/*
 * runtime_cache.h: versions found in the bytes of programs, remembered by the
 * identity of the file; each version of cay finds anew. The cache is never required: one that can't
 * be read, trusted or written is as good as none, and nobody is told.
 */
#pragma once

#include "image/runtime.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define RUNTIME_CACHE_MAX 128

struct runtime_cache_entry {
	char language[16];
	uint64_t dev, ino, sec, nsec, size;
	char version[VERSION_SIZE];
};

struct runtime_cache {
	struct runtime_cache_entry entries[RUNTIME_CACHE_MAX]; /* oldest first */
	size_t len;
	bool dirty; /* there is something to save */
};

/* /var/cache/cay as root, else $XDG_CACHE_HOME/cay or ~/.cache/cay. NULL: nowhere. */
const char *runtime_cache_dir(char *path, size_t size);

/* Empty if dir is NULL, or its file not there, not ours, or not sane. */
void runtime_cache_load(struct runtime_cache *c, const char *dir);

/* Writes the file anew if anything was put since it was loaded. */
void runtime_cache_save(const struct runtime_cache *c, const char *dir);

/*
 * NULL if this file, as it is now, is not known. "" if it was searched for its
 * version in vain, which need not be done again.
 */
const char *runtime_cache_get(const struct runtime_cache *c, const char *language,
			      const struct stat *st);
void runtime_cache_put(struct runtime_cache *c, const char *language, const struct stat *st,
		       const char *version);
