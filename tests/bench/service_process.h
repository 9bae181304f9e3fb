/*
 * service_process.h: the daemon's launcher as a process of its own, without the API, with islands
 * ready for one plan and, where that is a language's that has them, zygotes.
 */
#pragma once

#include "base/fd.h"
#include "cli/serve_warm.h"
#include "engine/native/service_main.h"
#include "engine/pipes.h"
#include "engine/service.h"
#include "image/runtime_choose.h"
#include "policy/plan.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AHEAD    4 /* as cay-api asks for */
#define READY_MS 60000

struct service_process {
	int sock;
	struct plan *plan;
};

/* A packet for it: with the plan behind the request. */
static inline int service_ask(const struct service_process *s, struct service_request q,
			      const int *fds, size_t n_fds)
{
	static char packet[SERVICE_PACKET_MAX];

	memcpy(packet, &q, sizeof(q));
	memcpy(packet + sizeof(q), s->plan, s->plan->size);
	return msg_send(s->sock, packet, sizeof(q) + s->plan->size, fds, n_fds);
}

static inline int service_hear(const struct service_process *s, struct service_report *ret)
{
	size_t n_fds;
	ssize_t n = msg_recv(s->sock, ret, sizeof(*ret), NULL, 0, &n_fds);

	return n == (ssize_t)sizeof(*ret) ? 0 : -1;
}

/* Until the islands that were asked for stand. */
static inline int service_await_stock(const struct service_process *s)
{
	struct pollfd said = {.fd = s->sock, .events = POLLIN};
	struct service_report r = {0};

	while (r.stock.islands < AHEAD)
		if (poll(&said, 1, READY_MS) != 1 || service_hear(s, &r) < 0)
			return -1;
	return 0;
}

/* Takes the spec. The settings are the defaults, not this machine's. */
static inline int service_start(struct spec *spec, struct service_process *ret,
				struct cay_error *err)
{
	static struct mount_rules no_rules;
	struct service_config config = {
		.rules = &no_rules, .kept_dir = -1, .ahead_bytes = UINT64_MAX};
	struct serve_warm warm = {.module = -1};
	struct settings settings;
	struct runtime runtime;
	int pair[2];

	settings_init(&settings);
	if ((spec->language &&
	     (runtime_choose(&settings, spec->language, NULL, NULL, &runtime, err) < 0 ||
	      serve_warm_find(&settings, "", &warm, err) < 0)) ||
	    plan_make(spec, &settings, spec->language ? &runtime : NULL, NULL, NULL, &ret->plan,
		      err) < 0)
		return -1;
	config.zygote_kinds = warm.kinds;
	config.n_zygote_kinds = warm.len;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start a launcher");
	if (fork() == 0) {
		(void)close(pair[0]);
		_exit(service_main(pair[1], &config));
	}
	(void)close(pair[1]);
	spec_done(spec);
	settings_done(&settings);
	ret->sock = pair[0];
	if (service_ask(ret, (struct service_request){.kind = SERVICE_AHEAD, .command = AHEAD},
			NULL, 0) < 0 ||
	    service_await_stock(ret) < 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "the launcher has no islands ready");
	return 0;
}

/* The spec of a Python program, for service_start(). */
static inline int service_python(const char *code, struct spec *ret, struct cay_error *err)
{
	*ret = (struct spec){.kind = SPEC_CODE, .code = strdup(code), .code_len = strlen(code)};
	return ret->code ? spec_set_language(ret, "python", err) : -1;
}
