/*
 * tar.h: trees as archives, by libarchive, in constant memory: what the files agent
 * sends becomes a tar, and an archive becomes what it takes. For cay-api alone.
 */
#pragma once

#include "core/error.h"
#include "session/agent_client.h"

#include <stddef.h>

enum tar_filter { TAR_PLAIN, TAR_GZIP, TAR_ZSTD };

/*
 * Out: entries and their data, in the order of the agent's, to bytes. A file that
 * brings less than it said is filled with zeros; what it brings more is dropped.
 */
struct tar_writer;

/* The bytes come to out, during any of the calls below. */
struct tar_writer *tar_writer_new(enum tar_filter filter,
				  void (*out)(void *ctx, const void *data, size_t len), void *ctx,
				  struct cay_error *err);
int tar_writer_entry(struct tar_writer *w, const struct agent_file *file, struct cay_error *err);
int tar_writer_data(struct tar_writer *w, const void *data, size_t len, struct cay_error *err);
int tar_writer_end(struct tar_writer *w, struct cay_error *err);
void tar_writer_free(struct tar_writer *w);
void tar_writer_freep(struct tar_writer **w);

/*
 * In: tar or zip, as it is or in gzip or zstd, which it says itself. Names are
 * made relative and plain; absolute ones, "..", devices and FIFOs are an error, set-id
 * bits are cleared. (Symlinks pass: the agent follows none.)
 */
struct tar_reader;

enum tar_step {
	TAR_NEEDS_INPUT, /* tar_reader_feed(), then go on */
	TAR_ENTRY,       /* file: as agent_call_entry() takes it */
	TAR_DATA,        /* data and len: of that file */
	TAR_END,
};

struct tar_item {
	struct agent_file file; /* its strings until the next step */
	const void *data;
	size_t len;
};

struct tar_reader *tar_reader_new(struct cay_error *err);

/* The bytes stay the caller's, until TAR_NEEDS_INPUT comes again. len 0: there are no more. */
void tar_reader_feed(struct tar_reader *r, const void *data, size_t len);

/* An enum tar_step, or -1; after TAR_END and -1 nothing more comes. */
int tar_reader_next(struct tar_reader *r, struct tar_item *ret, struct cay_error *err);
void tar_reader_free(struct tar_reader *r);
void tar_reader_freep(struct tar_reader **r);
