/*
 * fetch.h: the processes that talk to registries. Each is forked from cay-image, gives up its
 * rights and confines itself, and only then hears whom to ask, and with which password. It opens no
 * file for writing: it is handed one for each thing that it is to bring.
 */
#pragma once

#include "core/error.h"
#include "image/registry.h"

#include <stdint.h>
#include <sys/types.h>

/* Whom to ask: the first message. */
struct fetch_whom {
	char repository[IMAGE_REF_REPOSITORY_SIZE];
	unsigned stall_s;
	uint32_t n_sources;
	struct source sources[REGISTRY_SOURCES_MAX];
};

#define FETCH_REFERENCE_SIZE (sizeof("sha256:") + IMAGE_REF_TAG_SIZE)

enum fetch_kind { FETCH_MANIFEST, FETCH_BLOB };

/* What to bring: one message each, with the file's fd. */
struct fetch_order {
	enum fetch_kind kind;
	char reference[FETCH_REFERENCE_SIZE]; /* of a manifest: a tag, or sha256:HEX; of a blob HEX
					       */
	uint64_t have, size;                  /* as in struct body */
	bool at_most;
};

enum fetch_news { FETCH_MORE, FETCH_DONE, FETCH_FAILED };

struct fetch_report {
	enum fetch_news news;
	uint64_t have;
	char type[WEB_TYPE_SIZE], digest[WEB_DIGEST_SIZE]; /* of a manifest */
	struct cay_error err;
};

struct fetcher {
	pid_t pid; /* 0: none */
	int channel;
};

#define FETCHER_NONE ((struct fetcher){.channel = -1})

/* file_bytes: no file that it is handed can get larger. */
int fetcher_start(struct fetcher *ret, uint64_t file_bytes, struct cay_error *err);

/* Kills it, if it is there. */
void fetcher_stop(struct fetcher *f);

int fetcher_tell(const struct fetcher *f, const struct fetch_whom *whom, struct cay_error *err);
int fetcher_order(const struct fetcher *f, const struct fetch_order *order, int fd,
		  struct cay_error *err);

/* Waits for the next; that it ended is FETCH_FAILED too. */
void fetcher_report(const struct fetcher *f, struct fetch_report *ret);

/* Of the process itself: what it can do from here on. */
int fetch_confine(uint64_t file_bytes, struct cay_error *err);
