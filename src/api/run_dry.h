/*
 * run_dry.h: what a run would do, or a sandbox would be, for "dry_run":true.
 */
#pragma once

struct decision;
struct job_order;
struct json;
struct plan;

/*
 * The caller frees it. Mounts are as they were asked for: this process can't open host
 * directories, and so it can't say what the launcher will make of them. user: whom it would
 * run as without a sandbox; "" where it has one.
 */
struct json *run_dry_json(const struct job_order *o, const char *user);

/* The same of a sandbox, which has no program: the plan has none either behind it. */
struct json *sandbox_dry_json(struct plan *p, const char *image, const struct decision *decision);
