/*
 * confine.h: the steps that decide what an island's processes may do.
 */
#pragma once

#include "core/error.h"

struct island;
struct facts;

int confine_cgroup(struct island *i, struct cay_error *err);
int confine_cgroup_namespace(struct island *i, struct cay_error *err);
int confine_to_launcher(struct island *i, struct cay_error *err);
int confine_ids(struct island *i, struct cay_error *err);
int confine_hostname(struct island *i, struct cay_error *err);
int confine_keyring(struct island *i, struct cay_error *err);
int confine_rlimits(struct island *i, struct cay_error *err);
int confine_cpus(struct island *i, struct cay_error *err);
int confine_bounding(struct island *i, struct cay_error *err);
int confine_securebits(struct island *i, struct cay_error *err);
int confine_no_new_privs(struct island *i, struct cay_error *err);
int confine_shut_init(struct island *i, struct cay_error *err);

int confine_command(struct island *i, struct cay_error *err);
int confine_session(struct island *i, struct cay_error *err);
int confine_user(struct island *i, struct cay_error *err);
int confine_capabilities(struct island *i, struct cay_error *err);
int confine_terminal(struct island *i, struct cay_error *err);
int confine_stdio(struct island *i, struct cay_error *err);
int confine_fds(struct island *i, struct cay_error *err);
int confine_workdir(struct island *i, struct cay_error *err);
int confine_landlock(struct island *i, struct cay_error *err);
int confine_seccomp(struct island *i, struct cay_error *err);

/* What is in force for the calling process, from the kernel's mouth. */
int confine_read_facts(struct island *i, struct facts *ret, struct cay_error *err);

/* PID 1's, while it waits for orders. */
int confine_waiting(struct island *i, struct cay_error *err);

/* PID 1's own confinement, once the program runs. */
int confine_init(struct island *i, struct cay_error *err);
