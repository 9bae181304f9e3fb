/*
 * A hostile agent: a byte that says what was asked, then what it answers. Whatever
 * comes, the caller hears of one end, and of nothing that it must not believe.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/loop.h"
#include "session/agent_client.h"

#include <fcntl.h>
#include <unistd.h>

struct heard {
	struct loop *loop;
	struct agent_ask ask;
	uint64_t bytes, entries;
	uint64_t size; /* of the last */
	unsigned ends;
};

static void check_path(const char *path, bool tmp)
{
	if (tmp && strncmp(path, "/tmp/", 5) == 0)
		path += 5;
	CHECK(*path && *path != '/' && strlen(path) <= AGENT_PATH_MAX);
	for (size_t len; *path; path += len + (path[len] == '/')) {
		len = strcspn(path, "/");
		CHECK(len > 0 && !(len == 1 && path[0] == '.') &&
		      !(len == 2 && path[0] == '.' && path[1] == '.'));
	}
}

static void on_entry(void *ctx, const struct agent_file *f)
{
	struct heard *h = ctx;

	CHECK(h->ends == 0);
	CHECK(f->type > 0 && f->type < AGENT_TYPES && f->mode <= 07777);
	CHECK(strlen(f->target) <= AGENT_PATH_MAX && (!*f->target || f->type == AGENT_LINK));
	CHECK((f->change != 0) == (h->ask.op == AGENT_DIFF) && f->change <= AGENT_DELETED);
	if (h->ask.op == AGENT_LIST || h->ask.op == AGENT_TREE_OUT || h->ask.op == AGENT_DIFF)
		check_path(f->path, h->ask.flags & AGENT_GET);
	else
		CHECK(strcmp(f->path, h->ask.path) == 0);
	h->entries++;
	h->size = f->size;
	if (h->ask.op == AGENT_LIST || h->ask.op == AGENT_DIFF)
		CHECK(h->entries <= h->ask.count);
}

static void on_data(void *ctx, const void *data _unused_, size_t len)
{
	struct heard *h = ctx;

	CHECK(h->ends == 0 && h->entries > 0);
	CHECK(h->ask.op == AGENT_READ || h->ask.op == AGENT_TREE_OUT);
	h->bytes += len;
	CHECK(h->bytes <= h->ask.length);
}

static void on_news(void *ctx, const struct agent_news *n)
{
	struct heard *h = ctx;

	CHECK(h->ends == 0 && h->ask.op == AGENT_WATCH && n->change < AGENT_CHANGES);
	if (*n->path)
		check_path(n->path, false);
	if (*n->to)
		check_path(n->to, false);
}

static void on_done(void *ctx, const struct agent_end *end, const struct cay_error *err)
{
	struct heard *h = ctx;

	CHECK(h->ends++ == 0 && !end != !err);
	if (err)
		CHECK(err->code > CAY_OK && err->code < CAY_CODES &&
		      memchr(err->text, '\0', sizeof(err->text)) && !strchr(err->text, '\033'));
	loop_stop(h->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct agent_sink sink = {
		.entry = on_entry, .data = on_data, .news = on_news, .done = on_done};
	struct input in = INPUT(data, size);
	uint8_t what = input_u8(&in);
	struct heard h = {.ask = {.op = (enum agent_op)(1 + what % (AGENT_OPS - 1)),
				  .flags = what & 0x80 ? AGENT_GET : 0,
				  .path = "asked",
				  .depth = 1,
				  .count = 3,
				  .length = 100}};
	struct agent_call *call;
	struct cay_error err;
	int to[2], from[2];

	CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
	in.len = size_min(in.len, 60000); /* what a pipe holds */
	CHECK(fd_write_all(from[1], in.at, in.len) == 0);
	(void)close(from[1]);
	h.loop = loop_new();
	CHECK(h.loop);
	call = agent_call_new(h.loop, to[1], from[0], &h.ask, &sink, &h, &err);
	CHECK(call);
	if (what & 0x40)
		agent_call_end(call);
	CHECK(loop_run(h.loop) == 0 && h.ends == 1);
	agent_call_free(call);
	loop_free(h.loop);
	(void)close(to[0]);
	return 0;
}
