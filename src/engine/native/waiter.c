#include "engine/native/waiter.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int waiter_place(const struct waiter *w, int sys_fd)
{
	return fd_create_file_at(sys_fd, WAITER_BOOT, w->boot, strlen(w->boot), 0444);
}

int waiter_start(struct island *i, struct cay_error *err)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC), theirs = -1;
	struct island its = *i;
	int pair[2];

	if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start what is to wait");
	i->waiter_sock = pair[0];
	theirs = pair[1];
	its.ahead = false;
	its.keep_facts = &i->waiter_facts;
	its.stdio[0] = theirs;
	its.stdio[1] = i->waiter->module;
	its.stdio[2] = null;
	i->waiter_pid = island_vfork(&its, island_list(i->waiter->plan, i->waiter->plan->argv),
				     island_list(i->waiter->plan, i->waiter->plan->env));
	if (i->waiter_pid < 0)
		return cay_fail(err, CAY_E_ENGINE, errno, "start what is to wait");
	return 0;
}

/* Only what it can be: a program by itself, as it was made for. */
static bool suits(const struct island *i)
{
	return i->waiter && i->waiter_sock >= 0 && i->waiter_pid > 0 && plan_warm(i->plan) &&
	       !(i->order.flags & ~(uint32_t)(ORDER_LAST | ORDER_SCRATCH));
}

bool waiter_hand_over(struct island *i)
{
	struct message m = {.kind = MESSAGE_READY,
			    .command = i->command,
			    .status = READY_WAITED,
			    .facts = i->waiter_facts};
	bool taken;

	if (!suits(i))
		return false;
	taken = msg_send(i->waiter_sock, i->plan, i->plan->size, i->stdio, 3) == 0;
	fd_closep(&i->waiter_sock);
	if (!taken)
		return false;
	if (msg_send(i->control, &m, sizeof(m), &i->scratch_fd,
		     i->order.flags & ORDER_SCRATCH ? 1 : 0) < 0)
		_exit(125);
	return true;
}

void waiter_drop(struct island *i)
{
	if (!i->waiter || i->waiter_sock < 0)
		return;
	fd_closep(&i->waiter_sock);
	if (i->waiter_pid > 0)
		(void)kill(i->waiter_pid, SIGKILL);
}

bool waiter_ended(struct island *i, pid_t pid)
{
	struct message m = {.kind = MESSAGE_FAILED, .command = WAITER_COMMAND};

	if (!i->waiter || i->waiter_pid != pid || i->waiter_sock < 0)
		return false;
	i->waiter_pid = 0;
	(void)cay_fail(&m.error, CAY_E_ENGINE, 0, "what waited on the island ended");
	return msg_send(i->control, &m, sizeof(m), NULL, 0) == 0;
}
