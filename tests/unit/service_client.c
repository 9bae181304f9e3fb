#include "service_client.h"

#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int client_sock = -1;
pid_t client_launcher;

void client_start(int kept_dir, const struct bare_rules *bare, const struct limits *maximum)
{
	static struct mount_rules no_rules;
	const struct service_config config = {.rules = &no_rules,
					      .kept_dir = kept_dir,
					      .bare = bare,
					      .maximum = maximum,
					      .ahead_bytes = UINT64_MAX};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	client_launcher = fork();
	if (client_launcher == 0) {
		(void)close(pair[0]);
		_exit(service_main(pair[1], &config));
	}
	(void)close(pair[1]);
	client_sock = pair[0];
}

void client_stop(void)
{
	int status;

	(void)close(client_sock);
	assert_int_equal(waitpid(client_launcher, &status, 0), client_launcher);
	assert_int_equal(status, 0);
}

struct plan *client_plan(struct spec spec, const char *line)
{
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	spec.kind = SPEC_ARGV;
	settings_init(&settings);
	assert_int_equal(strv_add(&spec.args, "/bin/sh"), 0);
	assert_int_equal(strv_add(&spec.args, "-c"), 0);
	assert_int_equal(strv_add(&spec.args, line), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

void client_ask(struct service_request q, const void *more, size_t more_len, const int *fds,
		size_t n_fds)
{
	char packet[SERVICE_PACKET_MAX];

	assert_true(more_len <= sizeof(packet) - sizeof(q));
	memcpy(packet, &q, sizeof(q));
	if (more_len > 0)
		memcpy(packet + sizeof(q), more, more_len);
	assert_int_equal(msg_send(client_sock, packet, sizeof(q) + more_len, fds, n_fds), 0);
}

struct service_report client_hear(void)
{
	struct service_report r;
	struct pollfd wait = {.fd = client_sock, .events = POLLIN};
	size_t n_fds;

	do {
		assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
		assert_int_equal(msg_recv(client_sock, &r, sizeof(r), NULL, 0, &n_fds), sizeof(r));
	} while (r.kind == REPORT_STOCK);
	if (r.kind == REPORT_FAILED)
		print_message("failed: %s\n", r.error.text);
	return r;
}

void client_read(const struct pipes *pipes, char *out, size_t size)
{
	size_t len = 0;
	ssize_t n;

	(void)fd_set_nonblock(pipes->ours[1], 0);
	while (len + 1 < size && (n = read(pipes->ours[1], out + len, size - 1 - len)) > 0)
		len += (size_t)n;
	out[len] = '\0';
}
