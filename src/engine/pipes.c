#include "engine/pipes.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* All above 2: they are moved to 0, 1, 2 later, and must not overwrite each other there. */
static int open_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_read = fd_above_stdio(ends[0]);
	*ret_write = fd_above_stdio(ends[1]);
	return *ret_read < 0 || *ret_write < 0 ? -EMFILE : 0;
}

int pipes_open(struct pipes *p, int with_input, struct cay_error *err)
{
	int r;

	*p = PIPES_NONE;
	if (with_input) {
		r = open_pipe(&p->theirs[0], &p->ours[0]);
	} else {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		p->theirs[0] = null < 0 ? -1 : fd_above_stdio(null);
		r = p->theirs[0] < 0 ? -errno : 0;
	}
	for (int n = 1; n < 3 && r == 0; n++)
		r = open_pipe(&p->ours[n], &p->theirs[n]);
	for (int n = 0; n < 3 && r == 0; n++)
		if (p->ours[n] >= 0)
			r = fd_set_nonblock(p->ours[n], 1);
	if (r == 0)
		return 0;
	pipes_done(p);
	return cay_fail(err, CAY_E_INTERNAL, -r, "make the program's pipes");
}

void pipes_close_theirs(struct pipes *p)
{
	for (int n = 0; n < 3; n++)
		fd_closep(&p->theirs[n]);
}

void pipes_done(struct pipes *p)
{
	pipes_close_theirs(p);
	for (int n = 0; n < 3; n++)
		fd_closep(&p->ours[n]);
}
