/*
 * api.h: what the handlers of one daemon share.
 */
#pragma once

#include "api/settings.h"
#include "base/buf.h"
#include "base/loop.h"
#include "session/job.h"
#include "settings/settings.h"
#include "store/owner.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cay_error;
struct file_watch;
struct events;
struct keeper;
struct metrics;
struct quota;
struct runs;
struct sandboxes;
struct server;
struct store;
struct terminals;

struct api {
	struct loop *loop;         /* place.loop */
	struct settings settings;  /* in force: the files' and what was said at run time */
	struct settings base;      /* the files' alone; kept as long as we live */
	struct buf settings_parts; /* of which they were read: settings_parse_parts() */
	struct live_state live;
	int live_fd;             /* to who hands them on; -1: nobody does */
	struct outlets *outlets; /* by which islands reach the network */
	struct job_place place;  /* where programs run */
	struct store *store;
	struct keeper *keeper; /* commits what is gathered in the store, and forgets what is old */
	struct quota *quota;
	struct metrics *metrics;
	struct events *events;
	struct server *server;
	struct runs *runs;
	struct sandboxes *sandboxes;
	struct file_watch *watches; /* files_watch.c's */
	struct terminals *terminals;
	bool draining; /* no new work is taken */
	uid_t owner;   /* whoever started the daemon; 0: root did */
};

struct exchange;

/* Of the exchange's server. */
struct api *api_of(const struct exchange *x);

/* Who asks, and what they may see. */
struct viewer api_viewer(const struct exchange *x);

/* CAY_E_AT_CAPACITY while the daemon ends: no new work is taken. */
int api_check_open(const struct exchange *x, struct cay_error *err);

/* Every operation there is; ends with a NULL. */
extern const struct route *const api_routes[];
