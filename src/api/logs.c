#include "api/logs.h"

#include "api/api.h"
#include "api/exchange.h"
#include "api/sandboxes.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "session/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* That wait for a follower: what is there at first, as JSON, and as much again. */
#define FOLLOWER_MAX ((size_t)4 << 20)

static const char *const names[STREAMS] = {"stdout", "stderr"};

/* A character whose end is in the next piece of the same run's stream. */
struct held {
	char run[ID_SIZE];
	int64_t time_ms;
	char data[4];
	size_t len;
};

/* Makes entries of pieces. */
struct teller {
	const char *run; /* of this one alone; NULL: of all */
	struct held held[STREAMS];
	void *ctx;
	void (*entry)(void *ctx, enum stream s, struct json *j); /* which it takes over */
};

static void tell(struct teller *t, enum stream s, const char *run, int64_t time_ms,
		 const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf text = BUF(2 * LOGS_MAX_BYTES);
	struct json *j = json_new_object();

	json_set_str(j, "run", run);
	json_set_int(j, "time", time_ms);
	if (text_is_utf8(data, len))
		json_set_bytes(j, "text", data, len);
	else if (text_append_base64(&text, data, len) == 0)
		json_set_str(j, "base64", buf_str(&text));
	t->entry(t->ctx, s, j);
}

static void tell_held(struct teller *t, enum stream s)
{
	struct held *h = &t->held[s];

	if (h->len > 0)
		tell(t, s, h->run, h->time_ms, h->data, h->len);
	h->len = 0;
}

static void tell_piece(struct teller *t, const struct log_piece *c)
{
	_cleanup_(buf_done) struct buf all = BUF(2 * LOGS_MAX_BYTES);
	struct held *h = &t->held[c->stream];
	size_t whole;

	if (t->run && strcmp(t->run, c->run) != 0)
		return;
	if (h->len > 0 && strcmp(h->run, c->run) != 0)
		tell_held(t, c->stream);
	if (buf_append(&all, h->data, h->len) < 0 || buf_append(&all, c->data, c->len) < 0)
		return;
	whole = all.len > 0 ? text_utf8_whole(all.data, all.len) : 0;
	if (whole > 0)
		tell(t, c->stream, c->run, c->time_ms, all.data, whole);
	h->len = all.len - whole;
	h->time_ms = c->time_ms;
	memcpy(h->run, c->run, sizeof(h->run));
	if (h->len > 0)
		memcpy(h->data, all.data + whole, h->len);
}

static void tell_all(struct teller *t, const struct logs *l)
{
	for (const struct log_chunk *c = l->first; c; c = c->next)
		tell_piece(t, &c->all);
}

/* As they are now */

static void add_entry(void *ctx, enum stream s, struct json *j)
{
	json_set_str(j, "stream", names[s]);
	json_add(ctx, j);
}

static void answer_now(struct exchange *x, const struct logs *l, const char *run)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *list = json_new_array();
	struct teller t = {.run = run, .ctx = list, .entry = add_entry};

	tell_all(&t, l);
	for (int s = 0; s < STREAMS; s++)
		tell_held(&t, (enum stream)s);
	json_set(j, "logs", list);
	exchange_respond_json(x, 200, j);
}

/* As they come */

struct follower {
	struct log_follower link;
	struct logs *logs; /* NULL: it hears no more */
	struct exchange *x;
	struct teller teller;
	char run[ID_SIZE];
};

static void leave(struct follower *f, const char *event)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	logs_unfollow(f->logs, &f->link);
	f->logs = NULL;
	(void)exchange_event(f->x, event, j);
	exchange_end(f->x);
}

static void send_entry(void *ctx, enum stream s, struct json *j)
{
	struct follower *f = ctx;

	/* The commands don't wait for those who watch. */
	if (f->logs && exchange_event(f->x, names[s], j) > FOLLOWER_MAX)
		leave(f, "lost");
	json_free(j);
}

static void on_piece(void *ctx, const struct log_piece *p)
{
	struct follower *f = ctx;

	tell_piece(&f->teller, p);
}

static void on_end(void *ctx)
{
	struct follower *f = ctx;

	for (int s = 0; s < STREAMS; s++)
		tell_held(&f->teller, (enum stream)s);
	if (f->logs)
		leave(f, "end");
}

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct follower *f = exchange_ctx(x);

	if (f->logs)
		logs_unfollow(f->logs, &f->link);
	free(f);
}

static const struct exchange_events follower_events = {.on_close = on_close};

static int follow(struct exchange *x, struct logs *l, const char *run, struct cay_error *err)
{
	struct follower *f;
	size_t n = 0;

	for (const struct log_follower *other = l->followers; other; other = other->next)
		n++;
	if (n >= LOG_FOLLOWERS_MAX)
		return cay_fail(err, CAY_E_AT_CAPACITY, 0, "%d follow these logs already",
				LOG_FOLLOWERS_MAX);
	f = calloc(1, sizeof(*f));
	if (!f)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "follow the logs");
	f->logs = l;
	f->x = x;
	f->link = (struct log_follower){.ctx = f, .piece = on_piece, .end = on_end};
	f->teller = (struct teller){.ctx = f, .entry = send_entry};
	if (run) {
		memcpy(f->run, run, sizeof(f->run));
		f->teller.run = f->run;
	}
	exchange_watch(x, &follower_events, f);
	exchange_events_begin(x);
	tell_all(&f->teller, l);
	if (f->logs)
		logs_follow(l, &f->link);
	return 0;
}

/* The query */

static int read_query(const struct request *q, bool *ret_follow, char run[ID_SIZE],
		      struct cay_error *err)
{
	*ret_follow = false;
	run[0] = '\0';
	for (size_t i = 0; i < q->n_query; i++) {
		const char *name = q->query[i].name, *value = q->query[i].value;
		bool yes = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;

		if (strcmp(name, "follow") == 0 &&
		    (yes || strcmp(value, "0") == 0 || strcmp(value, "false") == 0)) {
			*ret_follow = yes;
		} else if (strcmp(name, "run") == 0 && strlen(value) < ID_SIZE) {
			memcpy(run, value, strlen(value) + 1);
			if (!id_ok("run", run))
				return cay_fail(err, CAY_E_INVALID, 0, "run: is no run's id");
		} else {
			return cay_fail(err, CAY_E_INVALID, 0,
					"%.64s: no such parameter, or no such value", name);
		}
	}
	return 0;
}

static void logs(struct exchange *x)
{
	const struct request *q = exchange_request(x);
	struct sandbox *s = sandbox_of(x);
	struct cay_error err;
	char run[ID_SIZE];
	bool live;

	if (!s)
		return;
	if (read_query(q, &live, run, &err) < 0)
		exchange_fail(x, &err);
	else if (!live)
		answer_now(x, &s->logs, run[0] ? run : NULL);
	else if (follow(x, &s->logs, run[0] ? run : NULL, &err) < 0)
		exchange_fail(x, &err);
}

static void release(void *ctx _unused_, struct sandbox *s)
{
	while (s->logs.followers)
		leave(s->logs.followers->ctx, "end");
}

void logs_leave(struct sandboxes *all)
{
	sandboxes_each(all, &(struct viewer){.all = true}, release, NULL);
}

const struct route route_logs = {.method = "GET",
				 .pattern = "/v1/sandboxes/{id}/logs",
				 .handle = logs,
				 .name = "sandbox.logs"};
