#include "engine/native/wires.h"

#include "base/attr.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wires-bytes.h"

#define BACKLOG 4096

static int fail(struct cay_error *err, int sys_errno, const char *what)
{
	(void)cay_fail(err, CAY_E_NOT_ENFORCEABLE, sys_errno, "%s", what);
	return cay_hint(err, "an island's way out needs nf_tables in the kernel, with tproxy and "
			     "nfnetlink_log (modules nft_tproxy, nfnetlink_log); or use "
			     "--network none");
}

/* The answers in one datagram; -errno where one of them says so. */
static int count_answers(const char *data, size_t len, unsigned *answers)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)data;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		const struct nlmsgerr *e = NLMSG_DATA(h);

		if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
			continue;
		if (e->error != 0)
			return e->error;
		++*answers;
	}
	return 0;
}

/* Sends messages and waits until each is done. 0 or -errno. */
static int tell(int sock, const void *messages, size_t len, unsigned answers)
{
	char data[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	unsigned come = 0;
	int r = 0;

	if (send(sock, messages, len, MSG_NOSIGNAL) != (ssize_t)len)
		return -errno;
	while (r == 0 && come < answers) {
		ssize_t n = recv(sock, data, sizeof(data), 0);

		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? -errno : count_answers(data, (size_t)n, &come);
	}
	return r;
}

static int netlink_socket(int protocol)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
}

static int tell_once(int protocol, const void *messages, size_t len, unsigned answers)
{
	_cleanup_(fd_closep) int sock = netlink_socket(protocol);

	return sock < 0 ? -errno : tell(sock, messages, len, answers);
}

/* An IPv4 socket on port 53; where: in host order. 0 or -errno. */
static int open_inet(int type, uint32_t where, int option, int *ret)
{
	const struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(WIRES_PORT), .sin_addr = {htonl(where)}};
	int on = 1;

	*ret = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return *ret < 0 || setsockopt(*ret, SOL_IP, IP_TRANSPARENT, &on, sizeof(on)) < 0 ||
			       setsockopt(*ret, SOL_IP, option, &on, sizeof(on)) < 0 ||
			       bind(*ret, (const struct sockaddr *)&a, sizeof(a)) < 0
		       ? -errno
		       : 0;
}

static int open_listener(int *ret)
{
	int r = open_inet(SOCK_STREAM, INADDR_LOOPBACK, IP_FREEBIND, ret);

	if (r < 0)
		return r;
	/* What is accepted has it too; the route's is for programs that connect. */
	return setsockopt(*ret, IPPROTO_TCP, TCP_CONGESTION, WIRES_CONGESTION,
			  sizeof(WIRES_CONGESTION) - 1) < 0 ||
			       listen(*ret, BACKLOG) < 0
		       ? -errno
		       : 0;
}

static int open_syns(int *ret)
{
	int r;

	*ret = netlink_socket(NETLINK_NETFILTER);
	r = *ret < 0 ? -errno : tell(*ret, wires_log, sizeof(wires_log), wires_log_answers);
	return r < 0 ? r : fd_set_nonblock(*ret, 1);
}

static int open_raw(int *ret)
{
	int mark = WIRES_MARK;

	*ret = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
	return *ret < 0 || setsockopt(*ret, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ? -errno
											  : 0;
}

static int lay(int wires[EGRESS_FDS], struct cay_error *err)
{
	int r = tell_once(NETLINK_ROUTE, wires_route, sizeof(wires_route), wires_route_answers);

	if (r < 0)
		return fail(err, -r, "lead an island's network to one place");
	/* The listeners before the rules that lead there, or a first SYN would be lost. */
	r = open_listener(&wires[EGRESS_LISTENER]);
	if (r == 0)
		r = open_inet(SOCK_DGRAM, INADDR_ANY, IP_PKTINFO, &wires[EGRESS_DNS]);
	if (r == 0)
		r = open_raw(&wires[EGRESS_RAW]);
	if (r < 0)
		return fail(err, -r, "open the sockets of an island's network");
	r = open_syns(&wires[EGRESS_SYNS]);
	if (r < 0)
		return fail(err, -r, "hear of an island's connections");
	r = tell_once(NETLINK_NETFILTER, wires_filter, sizeof(wires_filter), wires_filter_answers);
	return r < 0 ? fail(err, -r, "set the rules of an island's network") : 0;
}

int wires_lay(int ret[EGRESS_FDS], struct cay_error *err)
{
	int r;

	memset(ret, -1, EGRESS_FDS * sizeof(ret[0]));
	r = lay(ret, err);
	if (r < 0)
		wires_close(ret);
	return r;
}

void wires_close(int wires[EGRESS_FDS])
{
	for (int i = 0; i < EGRESS_FDS; i++)
		fd_closep(&wires[i]);
}
