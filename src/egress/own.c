#include "egress/own.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_BYTES 4096

struct query {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr to;
	uint8_t address[16];
};

int own_open(void)
{
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	return sock < 0 ? -errno : sock;
}

static int ask(int sock, const struct address *a, uint32_t number)
{
	bool v4 = address_is_v4(a);
	size_t len = v4 ? 4 : sizeof(a->bytes);
	struct query q = {
		.head = {.nlmsg_len = (uint32_t)(offsetof(struct query, address) + len),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST,
			 .nlmsg_seq = number},
		.route = {.rtm_family = v4 ? AF_INET : AF_INET6, .rtm_dst_len = (uint8_t)(8 * len)},
		.to = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = RTA_DST},
	};

	memcpy(q.address, a->bytes + sizeof(a->bytes) - len, len);
	return send(sock, &q, q.head.nlmsg_len, MSG_NOSIGNAL) == (ssize_t)q.head.nlmsg_len ? 0 : -1;
}

/* Nobody is reached there by us, so it is nobody's who has to be kept from islands. */
static bool leads_nowhere(int error)
{
	return error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES ||
	       error == -EINVAL;
}

/* All but the way to others: local, and what is for many. */
static bool is_own(const struct nlmsghdr *h)
{
	if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		return !leads_nowhere(((const struct nlmsgerr *)NLMSG_DATA(h))->error);
	return h->nlmsg_type != RTM_NEWROUTE || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)) ||
	       ((const struct rtmsg *)NLMSG_DATA(h))->rtm_type != RTN_UNICAST;
}

bool own_address(int sock, const struct address *a)
{
	static uint32_t number;
	char data[ANSWER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)data;
	ssize_t n;

	if (ask(sock, a, ++number) < 0)
		return true;
	/* The kernel has answered when send() returns. */
	do
		n = recv(sock, data, sizeof(data), 0);
	while ((n < 0 && errno == EINTR) || (n > 0 && NLMSG_OK(h, n) && h->nlmsg_seq != number));
	return n <= 0 || !NLMSG_OK(h, n) || is_own(h);
}
