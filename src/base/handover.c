#include "base/handover.h"

#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

int handover_give(int sock, int fd)
{
	struct pollfd wait = {.fd = sock, .events = POLLIN};
	size_t none = 0;
	char answer = 0;
	int r = msg_send(sock, "", 1, &fd, 1);
	ssize_t n;

	if (r < 0)
		return r;
	do
		r = poll(&wait, 1, HANDOVER_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	n = msg_recv(sock, &answer, 1, NULL, 0, &none);
	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	return answer == 'y' ? 0 : -EINVAL;
}

int handover_take(int sock)
{
	int fd = -1;
	size_t n_fds = 0;
	char byte;
	ssize_t n = msg_recv(sock, &byte, 1, &fd, 1, &n_fds);

	if (n <= 0)
		return n < 0 ? (int)n : -EPIPE;
	return n_fds == 1 ? fd : -EINVAL;
}

void handover_answer(int sock, bool well)
{
	(void)msg_send(sock, well ? "y" : "n", 1, NULL, 0);
}
