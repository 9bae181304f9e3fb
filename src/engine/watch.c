#include "engine/watch.h"

#include "base/attr.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 65536

/* How often CPU time is looked at, where it is limited. */
#define CPU_TICK_MS 20

/* After everything was killed its pipes end at once; a program that escaped the kill can't hold us.
 */
#define DRAIN_MS 2000

/* Bytes that came and could not be passed on yet. */
struct pending {
	char data[CHUNK];
	size_t start, len;
};

struct pump {
	struct watch *w;
	struct watched *ret;
	struct pending out[STREAMS], in;
	bool gone, cancelled;
	uint64_t drain_ns; /* 0: not yet */
};

enum {
	ON_ALIVE,
	ON_CANCEL,
	ON_OOM,
	ON_INPUT,
	ON_STDIN_PIPE,
	ON_OUTPUT,
	ON_SINK = ON_OUTPUT + STREAMS,
	ONS = ON_SINK + STREAMS
};

static void end_by(struct pump *p, enum cause cause)
{
	if (p->ret->cause == CAUSE_NONE && !p->gone)
		p->ret->cause = cause;
	p->w->kill(p->w->ctx);
	if (p->drain_ns == 0)
		p->drain_ns = clock_now_ns();
}

static void end_by_error(struct pump *p)
{
	if (p->ret->cause == CAUSE_NONE) {
		p->ret->error = errno;
		p->ret->cause = CAUSE_ERROR;
	}
	end_by(p, CAUSE_ERROR);
}

/* Passes on what is pending; closes the stream when nobody wants it. */
static void pass_on(struct pump *p, enum stream s)
{
	struct pending *b = &p->out[s];

	while (b->len > 0) {
		ssize_t n = p->w->sink.output(p->w->sink.ctx, s, b->data + b->start, b->len);

		if (n == -EFBIG) {
			end_by(p, CAUSE_OUTPUT);
			n = (ssize_t)b->len;
		}
		if (n == -ENOMEM) {
			errno = ENOMEM;
			end_by_error(p);
			n = (ssize_t)b->len;
		}
		if (n < 0) {
			b->len = 0;
			fd_closep(&p->w->output[s]);
			return;
		}
		if (n == 0)
			return;
		b->start += (size_t)n;
		b->len -= (size_t)n;
	}
}

static void read_output(struct pump *p, enum stream s)
{
	struct pending *b = &p->out[s];
	ssize_t n = read(p->w->output[s], b->data, sizeof(b->data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0)
		end_by_error(p);
	if (n <= 0) {
		fd_closep(&p->w->output[s]);
		return;
	}
	b->start = 0;
	b->len = (size_t)n;
	pass_on(p, s);
}

static void read_input(struct pump *p)
{
	ssize_t n = read(p->w->stdin_fd, p->in.data, sizeof(p->in.data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		fd_closep(&p->w->stdin_pipe);
		return;
	}
	p->in.start = 0;
	p->in.len = (size_t)n;
}

static void write_input(struct pump *p)
{
	ssize_t n = write(p->w->stdin_pipe, p->in.data + p->in.start, p->in.len);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		fd_closep(&p->w->stdin_pipe); /* the program closed its input */
		return;
	}
	p->in.start += (size_t)n;
	p->in.len -= (size_t)n;
}

static void read_cancel(struct pump *p)
{
	struct signalfd_siginfo info;

	if (read(p->w->cancel_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	/* Also when the program has ended and only a reader of ours keeps us. */
	if (p->ret->cause == CAUSE_NONE) {
		p->ret->signal = (int)info.ssi_signo;
		p->ret->cause = CAUSE_CANCELLED;
	}
	p->cancelled = true;
	end_by(p, CAUSE_CANCELLED);
}

static uint64_t ms_since(uint64_t start_ns)
{
	return (clock_now_ns() - start_ns) / 1000000;
}

static void check_time(struct pump *p)
{
	const struct limits *l = p->w->limits;

	if (p->gone || p->drain_ns)
		return;
	if (ms_since(p->w->start_ns) >= l->timeout_ms)
		end_by(p, CAUSE_TIMEOUT);
	else if (l->cpu_time_ms && p->w->cpu_ms && p->w->cpu_ms(p->w->ctx) >= l->cpu_time_ms)
		end_by(p, CAUSE_CPU_TIME);
}

static int next_timeout(const struct pump *p)
{
	uint64_t passed, left;

	if (p->drain_ns || p->gone)
		return 100;
	passed = ms_since(p->w->start_ns);
	left = passed >= p->w->limits->timeout_ms ? 0 : p->w->limits->timeout_ms - passed;
	if (p->w->limits->cpu_time_ms && p->w->cpu_ms && left > CPU_TICK_MS)
		left = CPU_TICK_MS;
	return (int)(left > 60000 ? 60000 : left);
}

static void set(struct pollfd *f, int fd, short events)
{
	*f = (struct pollfd){.fd = fd, .events = events};
}

static void arm(struct pump *p, struct pollfd f[ONS])
{
	struct watch *w = p->w;
	bool feeding = w->stdin_pipe >= 0;

	set(&f[ON_ALIVE], p->gone ? -1 : w->alive_fd, POLLIN);
	set(&f[ON_CANCEL], w->cancel_fd, POLLIN);
	set(&f[ON_OOM], p->gone ? -1 : w->oom_event, POLLIN);
	set(&f[ON_INPUT], feeding && p->in.len == 0 ? w->stdin_fd : -1, POLLIN);
	/* Without data it is watched all the same: the program closing its input is an error there.
	 */
	set(&f[ON_STDIN_PIPE], w->stdin_pipe, p->in.len > 0 ? POLLOUT : 0);
	for (int s = 0; s < STREAMS; s++) {
		bool held = p->out[s].len > 0;

		set(&f[ON_OUTPUT + s], held ? -1 : w->output[s], POLLIN);
		set(&f[ON_SINK + s], held ? w->sink.wait_fd[s] : -1, POLLOUT);
	}
}

static void serve(struct pump *p, const struct pollfd f[ONS])
{
	for (int s = 0; s < STREAMS; s++) {
		if (f[ON_OUTPUT + s].revents)
			read_output(p, (enum stream)s);
		if (f[ON_SINK + s].revents)
			pass_on(p, (enum stream)s);
	}
	if (f[ON_STDIN_PIPE].revents & POLLERR)
		fd_closep(&p->w->stdin_pipe);
	else if (f[ON_STDIN_PIPE].revents)
		write_input(p);
	if (f[ON_INPUT].revents && p->w->stdin_pipe >= 0)
		read_input(p);
	if (f[ON_CANCEL].revents)
		read_cancel(p);
	if (f[ON_OOM].revents)
		end_by(p, CAUSE_MEMORY);
	if (f[ON_ALIVE].revents) {
		p->gone = true;
		if (p->drain_ns == 0)
			p->drain_ns = clock_now_ns();
		/* What the program left running goes with it, and its pipes end. */
		(p->w->clear ? p->w->clear : p->w->kill)(p->w->ctx);
		fd_closep(&p->w->stdin_pipe);
	}
}

static bool output_ended(const struct pump *p)
{
	for (int s = 0; s < STREAMS; s++)
		if (p->w->output[s] >= 0 || p->out[s].len > 0)
			return false;
	return true;
}

/* All is dead and read, and only a slow reader of ours keeps us: that may take its time. */
static bool only_sink_waits(const struct pump *p)
{
	return !p->cancelled && (p->out[STREAM_STDOUT].len > 0 || p->out[STREAM_STDERR].len > 0);
}

void watch_until_end(struct watch *w, struct watched *ret)
{
	struct pollfd fds[ONS];
	struct pump p; /* its buffers are large: they are not cleared for nothing */

	p.w = w;
	p.ret = ret;
	p.in.len = 0;
	for (int s = 0; s < STREAMS; s++)
		p.out[s].len = 0;
	p.gone = p.cancelled = false;
	p.drain_ns = 0;

	*ret = (struct watched){0};
	while (!p.gone || (!p.cancelled && !output_ended(&p))) {
		arm(&p, fds);
		if (poll(fds, ONS, next_timeout(&p)) < 0 && errno != EINTR)
			end_by_error(&p);
		else
			serve(&p, fds);
		check_time(&p);
		/* The clock of the drain stands still while a reader of ours holds it up. */
		if (p.gone && only_sink_waits(&p))
			p.drain_ns = clock_now_ns();
		else if (p.gone && ms_since(p.drain_ns) > DRAIN_MS)
			break;
	}
	fd_closep(&w->stdin_pipe);
	for (int s = 0; s < STREAMS; s++)
		fd_closep(&w->output[s]);
}

static void ended_by_us(const struct watched *w, const struct limits *l, struct result *ret)
{
	char text[32];

	switch (w->cause) {
	case CAUSE_TIMEOUT:
		ret->status = STATUS_TIMEOUT;
		(void)snprintf(ret->message, sizeof(ret->message), "time limit of %s reached",
			       format_duration(l->timeout_ms, text, sizeof(text)));
		break;
	case CAUSE_CPU_TIME:
		ret->status = STATUS_TIMEOUT;
		(void)snprintf(ret->message, sizeof(ret->message), "CPU time limit of %s reached",
			       format_duration(l->cpu_time_ms, text, sizeof(text)));
		break;
	case CAUSE_MEMORY:
		ret->status = STATUS_OUT_OF_MEMORY;
		(void)snprintf(ret->message, sizeof(ret->message), "memory limit of %s reached",
			       format_size(l->memory_bytes, text, sizeof(text)));
		break;
	case CAUSE_OUTPUT:
		ret->status = STATUS_OUTPUT_LIMIT;
		(void)snprintf(ret->message, sizeof(ret->message),
			       "%s of output past the limit: ended as a flood",
			       format_size(FLOOD_BYTES, text, sizeof(text)));
		break;
	case CAUSE_CANCELLED:
		ret->status = STATUS_CANCELLED;
		ret->signal = w->signal;
		(void)snprintf(ret->message, sizeof(ret->message), "cancelled by %s",
			       strsignal(w->signal));
		break;
	case CAUSE_ERROR:
		ret->status = STATUS_SANDBOX_ERROR;
		if (w->error)
			(void)snprintf(ret->message, sizeof(ret->message),
				       "ended, because its output could not be taken: %s",
				       strerror(w->error));
		else
			(void)snprintf(ret->message, sizeof(ret->message),
				       "ended, because its sandbox did, or could not be reached");
		break;
	case CAUSE_NONE:
		break;
	}
	ret->timed_out = ret->status == STATUS_TIMEOUT;
}

/* The same words, but about the compiler. */
static void blame_compiler(struct result *ret)
{
	size_t len = strlen(ret->message);

	if (!ret->compile.begun || (ret->compile.ended && ret->compile.wait_status == 0))
		return;
	if (ret->status == STATUS_FAILED)
		(void)snprintf(ret->message, sizeof(ret->message), "compiling failed with code %d",
			       ret->exit_code);
	else
		(void)snprintf(ret->message + len, sizeof(ret->message) - len, " while compiling");
}

static void conclude_exit(int wait_status, const struct limits *limits, struct result *ret)
{
	if (WIFSIGNALED(wait_status)) {
		/* The kernel's own CPU limit (of one process) can be first: it is ours as well. */
		if (WTERMSIG(wait_status) == SIGXCPU && limits->cpu_time_ms) {
			ended_by_us(&(struct watched){.cause = CAUSE_CPU_TIME}, limits, ret);
			return;
		}
		ret->status = STATUS_SIGNAL;
		ret->signal = WTERMSIG(wait_status);
		(void)snprintf(ret->message, sizeof(ret->message), "ended by signal %d (%s)",
			       ret->signal, strsignal(ret->signal));
		return;
	}
	ret->exited = true;
	ret->exit_code = WEXITSTATUS(wait_status);
	ret->status = ret->exit_code == 0 ? STATUS_OK : STATUS_FAILED;
	if (ret->exit_code != 0)
		(void)snprintf(ret->message, sizeof(ret->message), "exited with code %d",
			       ret->exit_code);
}

void watch_conclude(const struct watched *w, const struct limits *limits, int wait_status,
		    struct result *ret)
{
	if (w->cause != CAUSE_NONE) {
		ended_by_us(w, limits, ret);
	} else if (wait_status == -1) {
		ret->status = STATUS_SANDBOX_ERROR;
		(void)snprintf(ret->message, sizeof(ret->message), "the sandbox died");
	} else {
		conclude_exit(wait_status, limits, ret);
	}
	blame_compiler(ret);
}
