#include "engine/packet.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

bool packet_has_plan(const struct service_request *q)
{
	return q->kind == SERVICE_RUN || q->kind == SERVICE_MAKE || q->kind == SERVICE_COMMAND ||
	       q->kind == SERVICE_AHEAD;
}

bool packet_has_names(const struct service_request *q)
{
	return q->kind == SERVICE_DISCARD || q->kind == SERVICE_SWEEP || q->kind == SERVICE_COPY;
}

/*
 * What a program may get as its standard streams: pipes and /dev/null. A directory or file of the
 * host's would be a way out of the island, and a socket one into the host's network. Sockets are
 * what we talk by ourselves.
 */
static bool fd_ok(int fd, bool socket)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || flags & O_PATH || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return false;
	if (S_ISCHR(st.st_mode))
		return st.st_rdev == makedev(1, 3);
	return (socket && S_ISSOCK(st.st_mode)) ||
	       (S_ISFIFO(st.st_mode) && fs.f_type == PIPEFS_MAGIC);
}

/* What each kind may ask for: the rest is the launcher's own to say. */
static bool flags_ok(const struct service_request *q)
{
	static const uint32_t may[] = {
		[SERVICE_RUN] = FLAG_TELL_READY | FLAG_COLD | FLAG_BARE | FLAG_PEER | ORDER_CHANNEL,
		[SERVICE_MAKE] = FLAG_OWN | FLAG_COLD | FLAG_BARE | FLAG_PEER,
		[SERVICE_COMMAND] = FLAG_TELL_READY | FLAG_STAYS | ORDER_COMPILE | ORDER_TERMINAL |
				    ORDER_CHANNEL | ORDER_AGENT,
		[SERVICE_SWEEP] = FLAG_MORE,
		[SERVICE_INTERRUPT] = 0,
		[SERVICE_COPY] = 0,
	};

	return !(q->flags & ~may[q->kind]) && (!(q->flags & FLAG_PEER) || q->flags & FLAG_BARE);
}

bool packet_times_ok(const struct service_request *q, const struct limits *l)
{
	bool timeless = q->flags & (ORDER_AGENT | ORDER_TERMINAL | FLAG_STAYS);

	return q->timeout_ms <= (timeless ? LIMIT_MAX_TIME_MS : l->timeout_ms) &&
	       (l->cpu_time_ms == 0 || q->cpu_time_ms <= l->cpu_time_ms);
}

/* Who asks, and what a terminal or a channel is sent by: no program gets these. */
static bool is_ours(const struct service_request *q, size_t n, size_t n_fds)
{
	return (q->flags & FLAG_PEER && n == n_fds - 1) ||
	       (q->flags & (ORDER_TERMINAL | ORDER_CHANNEL) && n == 0);
}

bool packet_ok(const struct service_request *q, size_t len, const int *fds, size_t n_fds)
{
	bool has_fds = q->kind == SERVICE_RUN || q->kind == SERVICE_COMMAND;

	if (q->kind < SERVICE_RUN || q->kind > SERVICE_COPY || !flags_ok(q) ||
	    n_fds != (has_fds ? 3u : 0u) + (q->flags & FLAG_PEER ? 1u : 0u))
		return false;
	for (size_t n = 0; n < n_fds; n++)
		if (!fd_ok(fds[n], is_ours(q, n, n_fds)))
			return false;
	return packet_has_plan(q) || packet_has_names(q) || len == sizeof(*q);
}
