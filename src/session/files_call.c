#include "session/files_call.h"

#include "base/attr.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Transfers take as long as they take: the client minds those that do nothing. */
#define CALL_TIMEOUT_MS (24ull * 3600 * 1000)

static int order(struct island_ref *ref, const struct plan *plan, int in, int out, int null,
		 uint32_t *ret_command, struct cay_error *err)
{
	const struct island_order o = {.plan = plan,
				       .fds = {in, out, null},
				       .flags = ORDER_AGENT,
				       .timeout_ms = CALL_TIMEOUT_MS};

	return islands_command(ref, &o, ret_command, err);
}

struct agent_call *files_call(struct loop *loop, struct island_ref *ref, const struct plan *plan,
			      const struct agent_ask *ask, const struct agent_sink *sink, void *ctx,
			      uint32_t *ret_command, struct cay_error *err)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int to[2] = {-1, -1}, from[2] = {-1, -1};
	struct agent_call *call = NULL;

	if (null < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		(void)cay_fail(err, CAY_E_INTERNAL, errno, "reach the sandbox's files");
	else if (order(ref, plan, to[0], from[1], null, ret_command, err) == 0)
		call = agent_call_new(loop, take_fd(&to[1]), take_fd(&from[0]), ask, sink, ctx,
				      err);
	for (int n = 0; n < 2; n++) {
		fd_closep(&to[n]);
		fd_closep(&from[n]);
	}
	return call;
}
