/*
 * agent_support.h: the files agent in a child, its client in a loop here. What a
 * call brought is in struct outcome. Behind cmocka.h.
 */
#pragma once

#include "clear.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/loop.h"
#include "engine/landlock.h"
#include "engine/agent.h"
#include "engine/seccomp.h"
#include "session/agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRIES_MAX 12000

struct outcome {
	bool done, ok;
	struct cay_error err;
	struct agent_end end;
	struct buf data;
	struct agent_file *files; /* with strings of their own */
	size_t n_files;
	int status; /* of the agent */
};

struct session {
	struct loop *loop;
	struct agent_call *call;
	struct outcome *out;
	/* The body. */
	const char *body;
	size_t len, sent;
	size_t break_off;              /* leave after so many bytes; 0: don't */
	const struct agent_file *tree; /* or the entries, each with its text */
	const char *const *texts;
	size_t n_tree, at;
	bool entry_sent;
	bool discard; /* count the bytes that come, no more */
	unsigned long long came;
};

static void outcome_done(struct outcome *o)
{
	for (size_t i = 0; i < o->n_files; i++) {
		free((void *)(uintptr_t)o->files[i].path);
		free((void *)(uintptr_t)o->files[i].target);
	}
	free(o->files);
	buf_done(&o->data);
	*o = (struct outcome){0};
}

static void on_entry(void *ctx, const struct agent_file *f)
{
	struct session *s = ctx;
	struct outcome *o = s->out;

	if (!o->files)
		o->files = calloc(ENTRIES_MAX, sizeof(*o->files));
	assert_non_null(o->files);
	assert_true(o->n_files < ENTRIES_MAX);
	o->files[o->n_files] = *f;
	o->files[o->n_files].path = strdup(f->path);
	o->files[o->n_files].target = strdup(f->target);
	o->n_files++;
}

static void on_data(void *ctx, const void *data, size_t len)
{
	struct session *s = ctx;

	s->came += len;
	if (!s->discard)
		assert_int_equal(buf_append(&s->out->data, data, len), 0);
}

/* 0 when all is sent. */
static int send_tree(struct session *s)
{
	for (; s->at < s->n_tree; s->at++, s->entry_sent = false, s->sent = 0) {
		size_t len = strlen(s->texts[s->at]);

		if (!s->entry_sent && agent_call_entry(s->call, &s->tree[s->at]) < 0)
			return -1;
		s->entry_sent = true;
		s->sent += agent_call_send(s->call, s->texts[s->at] + s->sent, len - s->sent);
		if (s->sent < len)
			return -1;
	}
	return 0;
}

static void on_room(void *ctx)
{
	struct session *s = ctx;
	size_t upto = s->break_off ? s->break_off : s->len;

	if (s->tree) {
		if (send_tree(s) == 0)
			agent_call_end(s->call);
		return;
	}
	s->sent += agent_call_send(s->call, s->body + s->sent, upto - s->sent);
	if (s->sent < upto)
		return;
	if (s->break_off)
		loop_stop(s->loop);
	else
		agent_call_end(s->call);
}

static void on_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct session *s = ctx;

	assert_false(s->out->done);
	assert_true(!end != !err);
	s->out->done = true;
	s->out->ok = end != NULL;
	if (end)
		s->out->end = *end;
	else
		s->out->err = *err;
	loop_stop(s->loop);
}

static const struct agent_sink test_sink = {
	.entry = on_entry, .data = on_data, .room = on_room, .done = on_done};

/* Runs in the child before the agent: more confinement, say. */
static void (*agent_prepare)(void);

static pid_t start_agent(const char *base, int *ret_to, int *ret_from)
{
	int to[2], from[2];
	pid_t pid;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(to[1]);
		(void)close(from[0]);
		if (agent_prepare)
			agent_prepare();
		_exit(agent_serve(base, to[0], from[1], -1) < 0 ? 1 : 0);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	*ret_to = to[1];
	*ret_from = from[0];
	return pid;
}

static void run_session(struct session *s, const char *base, const struct agent_ask *ask)
{
	struct cay_error err = {0};
	int to, from;
	pid_t pid = start_agent(base, &to, &from);

	s->loop = loop_new();
	assert_non_null(s->loop);
	s->call = agent_call_new(s->loop, to, from, ask, &test_sink, s, &err);
	if (!s->call) {
		s->out->done = true;
		s->out->err = err;
	} else {
		if (ask->op == AGENT_WRITE || ask->op == AGENT_TREE_IN)
			on_room(s);
		assert_int_equal(loop_run(s->loop), 0);
		agent_call_free(s->call);
	}
	loop_free(s->loop);
	assert_int_equal(waitpid(pid, &s->out->status, 0), pid);
}

static inline void ask_agent(struct outcome *o, const char *base, struct agent_ask ask,
			     const void *body, size_t len)
{
	struct session s = {.out = o, .body = body, .len = len};

	outcome_done(o);
	o->data.max = 64 << 20;
	if (!ask.idle_ms)
		ask.idle_ms = 20000;
	run_session(&s, base, &ask);
	assert_true(o->done);
}

/*
 * In one directory lie "ws", which is the agent's workspace, and "out", beside it;
 * the current directory is there, so that tests can say "ws/a".
 */
static char top[] = "/tmp/cay-test-agent-XXXXXX";
static char base[64];
static struct outcome got;

static inline int make_top(void **state)
{
	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	if (!mkdtemp(top) || chdir(top) < 0)
		return -1;
	(void)snprintf(base, sizeof(base), "%s/ws", top);
	return 0;
}

static inline int remove_top(void **state)
{
	(void)state;
	outcome_done(&got);
	return clear() < 0 || rmdir(top) < 0 ? -1 : 0;
}

static inline int begin(void **state)
{
	(void)state;
	agent_prepare = NULL;
	return clear() < 0 || mkdir("ws", 0755) < 0 || mkdir("out", 0755) < 0 ? -1 : 0;
}

static inline void ask(struct agent_ask a)
{
	ask_agent(&got, base, a, NULL, 0);
}

static inline void ok(void)
{
	if (!got.ok)
		fail_msg("%s (%s)", got.err.text, got.err.hint);
}

static inline void fails(enum cay_code code, const char *word)
{
	if (got.ok)
		fail_msg("it worked");
	if (got.err.code != code || !strstr(got.err.text, word))
		fail_msg("%s: %s", cay_code_name(got.err.code), got.err.text);
}

static inline void make(const char *path, const char *text)
{
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static inline void holds(const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF(1 << 20);

	assert_int_equal(fd_read_file_at(AT_FDCWD, path, &b), 0);
	assert_string_equal(buf_str(&b), text);
}

static inline bool exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

static size_t n_leftovers;

static inline int count_leftover(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	n_leftovers += strncmp(path + at->base, ".cay-", 5) == 0;
	return 0;
}

static inline void nothing_left(void)
{
	n_leftovers = 0;
	assert_int_equal(nftw(".", count_leftover, 16, FTW_PHYS), 0);
	assert_int_equal(n_leftovers, 0);
}

/* A child that does not outlive a test that failed. */
static inline pid_t fork_bound(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
	return pid;
}

static inline void make_deep(const char *at, int levels)
{
	int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(chdir(at), 0);
	for (int i = 0; i < levels; i++) {
		assert_int_equal(mkdir("deep", 0755), 0);
		assert_int_equal(chdir("deep"), 0);
	}
	assert_int_equal(fchdir(back), 0);
	(void)close(back);
}

/* As on an island: the filter, and Landlock where the kernel has it. */
static inline void load_filter(void)
{
	const char *const scratch[] = {base, NULL}, *const none[] = {NULL};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || landlock_confine(scratch, none) < 0 ||
	    syscall_filter_load(false) < 0)
		_exit(99);
}

typedef void agent_test(void **state);

/* The same again, with the agent under the island's filter. */
static inline void under_the_filter(agent_test *const *tests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(begin(NULL), 0);
		agent_prepare = load_filter;
		tests[i](NULL);
	}
}

static inline void write_file(const char *path, const char *text, unsigned flags)
{
	ask_agent(&got, base,
		  (struct agent_ask){
			  .op = AGENT_WRITE, .path = path, .flags = flags, .mode = AGENT_MODE_KEEP},
		  text, strlen(text));
}

static inline void read_file(const char *path)
{
	ask((struct agent_ask){.op = AGENT_READ, .path = path, .length = AGENT_TO_END});
}

static inline void list(const char *path, unsigned depth, unsigned count, const char *cursor)
{
	ask((struct agent_ask){
		.op = AGENT_LIST, .path = path, .depth = depth, .count = count, .arg = cursor});
}

static inline void remove_path(const char *path, unsigned flags)
{
	ask((struct agent_ask){.op = AGENT_REMOVE, .path = path, .flags = flags});
}

static inline void move(const char *from, const char *to, unsigned flags)
{
	ask((struct agent_ask){.op = AGENT_MOVE, .path = from, .arg = to, .flags = flags});
}
