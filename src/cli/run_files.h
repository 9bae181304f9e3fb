/*
 * run_files.h: the files of one `cay run`: the script, --put and --get.
 */
#pragma once

#include "base/buf.h"
#include "core/error.h"
#include "engine/engine.h"
#include "policy/script.h"
#include "settings/settings.h"
#include "spec/spec.h"

#include <limits.h>

/* Where a --get goes: opened before the program runs, which could put a link there. */
struct destination {
	int dir;
	const char *name; /* NULL: the files keep their names below dir */
};

/*
 * "dir/" (which is made) and what is a directory; else the directory that the file will be in,
 * and its name in to. what: for the error. dir is the caller's to close.
 */
int destination_open(const char *what, const char *to, struct destination *ret,
		     struct cay_error *err);

struct run_files {
	const struct spec *spec;         /* borrowed */
	const struct settings *settings; /* borrowed */
	struct destination destinations[SPEC_TRANSFERS_MAX];
	bool into_result; /* --get goes into the result instead of the caller's directory */
	struct result *result;
	struct script script; /* data is NULL where it is there already */
	bool gets_new;        /* of what is there when it begins only what changes is wanted */
	uint64_t since_ns;    /* when that was */
	struct run_changes *changes; /* what comes last; or NULL */
};

/* Looks at the paths of --put and --get: what can't work fails before anything runs. */
int run_files_init(struct run_files *f, const struct spec *spec, const struct settings *settings,
		   bool into_result, struct cay_error *err);
void run_files_done(struct run_files *f);

/*
 * Opens a file of the caller's that goes in. A name that leads through a symlink
 * to a forbidden path, or out of a directory that programs may write to, is
 * refused: an earlier program may have left it there.
 * flags: O_NONBLOCK where a FIFO must not be waited for.
 */
int run_files_open(const struct run_files *f, const char *path, int flags, const char *what,
		   int *ret_fd, struct cay_error *err);

/* Reads the script of the spec and decides where it goes. */
int run_files_script(struct run_files *f, struct spec *spec, struct cay_error *err);

/* The script's path on the island, or NULL. */
const char *run_files_path(const struct run_files *f);

/* Brings one out to where the nth --get says; n: how many there are of it. */
int run_files_save(const struct run_files *f, size_t nth, const char *path, int fd, size_t size,
		   struct cay_error *err);
int run_files_expect(const struct run_files *f, size_t nth, size_t n, struct cay_error *err);

/* Has the run call us at the right moments, if there is anything to do. */
void run_files_attach(struct run_files *f, struct run *run, struct result *result);
