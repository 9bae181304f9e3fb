#include "egress/pipes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void pipe_free(struct pipe *p)
{
	(void)close(p->read);
	(void)close(p->write);
	free(p);
}

void pipes_done(struct pipes *p)
{
	while (p->kept) {
		struct pipe *first = p->kept;

		p->kept = first->next;
		pipe_free(first);
	}
	p->n_kept = 0;
}

static struct pipe *pipe_new(void)
{
	struct pipe *p = calloc(1, sizeof(*p));
	int ends[2];

	if (!p)
		return NULL;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(p);
		return NULL;
	}
	/* The kernel may know a user who has enough of them: then it is a smaller one. */
	(void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	p->read = ends[0];
	p->write = ends[1];
	return p;
}

struct pipe *pipes_take(struct pipes *p)
{
	struct pipe *first = p->kept;

	if (!first)
		return pipe_new();
	p->kept = first->next;
	p->n_kept--;
	return first;
}

void pipes_give(struct pipes *p, struct pipe *pipe, int empty)
{
	if (!empty || p->n_kept >= PIPES_KEPT) {
		pipe_free(pipe);
		return;
	}
	pipe->next = p->kept;
	p->kept = pipe;
	p->n_kept++;
}
