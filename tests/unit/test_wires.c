/*
 * An island's network as wires_lay() leaves it: what its programs send ends up in the four sockets,
 * and nowhere else.
 */
#include "engine/native/wires.h"

#include "base/attr.h"
#include "base/fd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SOON_MS 2000

static int wires[EGRESS_FDS];

/* Each test has a network of its own: this process never goes back. */
static int lay(void **state)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	static bool may; /* once in a user namespace of our own */
	struct cay_error err;
	int sock, r;

	(void)state;
	if (unshare(may || geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER) < 0)
		return -1;
	may = true;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r = ioctl(sock, SIOCSIFFLAGS, &lo);
	(void)close(sock);
	if (r < 0 || wires_lay(wires, &err) < 0) {
		print_error("%s\n", r < 0 ? "no loopback" : err.text);
		return -1;
	}
	return 0;
}

static int unlay(void **state)
{
	(void)state;
	wires_close(wires);
	return 0;
}

static struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
	return a;
}

static int to(int type, const char *address, uint16_t port)
{
	struct sockaddr_in a = at(address, port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

static bool comes(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, SOON_MS) == 1 && p.revents & events;
}

/* The packet in what the kernel told, which is its last attribute but for what is aligned. */
static size_t told(uint8_t packet[WIRES_LOG_BYTES], int protocol)
{
	uint8_t data[4096];
	ssize_t n;

	assert_true(comes(wires[EGRESS_SYNS], POLLIN));
	n = recv(wires[EGRESS_SYNS], data, sizeof(data), 0);
	assert_true(n > 0);
	for (ssize_t i = 0; i + 20 <= n; i++)
		if (data[i] == 0x45 && data[i + 9] == protocol && i > 20) {
			size_t len = (size_t)(n - i) < WIRES_LOG_BYTES ? (size_t)(n - i)
								       : WIRES_LOG_BYTES;

			memcpy(packet, data + i, len);
			return len;
		}
	fail_msg("no packet was told of");
	return 0;
}

static void a_connection_is_told_of_and_held(void **state)
{
	_cleanup_(fd_closep) int fd = to(SOCK_STREAM, "93.184.216.34", 443);
	uint8_t packet[WIRES_LOG_BYTES];
	struct iphdr ip;
	struct tcphdr tcp;

	(void)state;
	assert_true(told(packet, IPPROTO_TCP) >= sizeof(ip) + sizeof(tcp));
	memcpy(&ip, packet, sizeof(ip));
	memcpy(&tcp, packet + sizeof(ip), sizeof(tcp));
	assert_int_equal(ntohl(ip.saddr), WIRES_ISLAND);
	assert_int_equal(ntohl(ip.daddr), 0x5db8d822);
	assert_int_equal(ntohs(tcp.dest), 443);
	assert_true(tcp.syn && !tcp.ack);
	assert_int_equal(accept4(wires[EGRESS_LISTENER], NULL, NULL, 0), -1);
	assert_int_equal(errno, EAGAIN);
}

/* As whoever connects with the mark does. */
static void a_marked_connection_reaches_the_listener(void **state)
{
	struct sockaddr_in a = at("93.184.216.34", 443), met;
	socklen_t len = sizeof(met);
	int mark = WIRES_MARK;
	_cleanup_(fd_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_(fd_closep) int accepted = -1;

	(void)state;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_true(comes(wires[EGRESS_LISTENER], POLLIN));
	accepted = accept4(wires[EGRESS_LISTENER], NULL, NULL, SOCK_CLOEXEC);
	assert_true(accepted >= 0);
	assert_int_equal(getsockname(accepted, (struct sockaddr *)&met, &len), 0);
	assert_int_equal(met.sin_addr.s_addr, a.sin_addr.s_addr);
	assert_int_equal(met.sin_port, a.sin_port);
	assert_int_equal(write(accepted, "hello", 5), 5);
	assert_true(comes(fd, POLLIN));
}

static void loopback_is_the_islands_own(void **state)
{
	struct sockaddr_in a = at("127.0.0.1", 8080);
	_cleanup_(fd_closep) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_(fd_closep) int fd = -1;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	fd = to(SOCK_STREAM, "127.0.0.1", 8080);
	assert_true(comes(fd, POLLOUT));
	assert_true(comes(listener, POLLIN));
	assert_int_equal(recv(wires[EGRESS_SYNS], &(char){0}, 1, MSG_PEEK), -1);
	assert_int_equal(errno, EAGAIN);
}

static void dns_is_heard_whomever_it_asks(void **state)
{
	static const char *const servers[] = {"198.18.0.1", "8.8.8.8"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
		_cleanup_(fd_closep) int fd = to(SOCK_DGRAM, servers[i], 53);
		struct sockaddr_in asked = at(servers[i], 53);
		char data[16], control[256];
		struct iovec iov = {data, sizeof(data)};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = control,
				   .msg_controllen = sizeof(control)};
		struct in_pktinfo info;

		assert_int_equal(write(fd, "query", 5), 5);
		assert_true(comes(wires[EGRESS_DNS], POLLIN));
		assert_int_equal(recvmsg(wires[EGRESS_DNS], &m, 0), 5);
		assert_non_null(CMSG_FIRSTHDR(&m));
		memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(info));
		assert_int_equal(info.ipi_addr.s_addr, asked.sin_addr.s_addr);
	}
}

static void other_datagrams_are_told_of_and_refused(void **state)
{
	_cleanup_(fd_closep) int fd = to(SOCK_DGRAM, "8.8.8.8", 443);
	uint8_t packet[WIRES_LOG_BYTES];

	(void)state;
	assert_int_equal(write(fd, "quic", 4), 4);
	assert_true(told(packet, IPPROTO_UDP) > 0);
	assert_true(comes(fd, POLLIN | POLLERR));
	assert_int_equal(read(fd, packet, 1), -1);
	assert_int_equal(errno, ECONNREFUSED);
}

static void there_is_no_other_network(void **state)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
	_cleanup_(fd_closep) int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct if_nameindex *list = if_nameindex();

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "2606:2800:220:1::34", &a.sin6_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), -1);
	assert_int_equal(errno, ENETUNREACH);
	assert_non_null(list);
	assert_string_equal(list[0].if_name, "lo");
	assert_int_equal(list[1].if_index, 0);
	if_freenameindex(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connection_is_told_of_and_held, lay, unlay),
		cmocka_unit_test_setup_teardown(a_marked_connection_reaches_the_listener, lay,
						unlay),
		cmocka_unit_test_setup_teardown(loopback_is_the_islands_own, lay, unlay),
		cmocka_unit_test_setup_teardown(dns_is_heard_whomever_it_asks, lay, unlay),
		cmocka_unit_test_setup_teardown(other_datagrams_are_told_of_and_refused, lay,
						unlay),
		cmocka_unit_test_setup_teardown(there_is_no_other_network, lay, unlay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
