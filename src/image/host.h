/*
 * host.h: the image "host": this machine's own /usr, read-only, with an /etc
 * of the island's own, and nothing else of the machine. This is data; the
 * engine lays it out.
 */
#pragma once

#include <stddef.h>

#define HOST_IMAGE "host"

enum host_kind {
	HOST_DIR,      /* an empty directory */
	HOST_TREE,     /* the host's directory, read-only; skipped where the host has none */
	HOST_COPY,     /* the host's file, read-only; skipped where the host has none */
	HOST_ROOT_DIR, /* as the host has it: its symlink, or else as HOST_TREE */
	HOST_LINK,     /* as the host has it: its symlink, or else as HOST_COPY */
	HOST_SYMLINK,  /* a symlink with this target */
	HOST_FILE,     /* a file with this content */
	HOST_DEVICE,   /* a device node of the host */
	HOST_WHEN,     /* what follows, up to the next one, only where the host has this path */
};

struct host_item {
	enum host_kind kind;
	const char *path; /* without the leading slash */
	const char *text; /* target or content */
};

extern const struct host_item host_items[];
extern const size_t n_host_items;
