#include "api/run_stream.h"

#include "api/exchange.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "core/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct run_follower {
	struct run_follower *next;
	struct run_stream *stream;
	struct exchange *x;
	bool owner, begun, full;
};

static void follower_free(struct run_follower *f)
{
	struct run_follower **at = &f->stream->followers;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	f->stream->n_followers--;
	free(f);
}

static void look_for_room(struct run_stream *s)
{
	for (struct run_follower *f = s->followers; f; f = f->next)
		if (f->full)
			return;
	for (int n = 0; n < STREAMS; n++) {
		if (!s->paused[n])
			continue;
		s->paused[n] = false;
		s->drained(s->ctx, (enum stream)n);
	}
}

static void on_drain(struct exchange *x)
{
	struct run_follower *f = exchange_ctx(x);

	if (!f)
		return;
	f->full = false;
	look_for_room(f->stream);
}

static void on_close(struct exchange *x, enum exchange_end how _unused_)
{
	struct run_follower *f = exchange_ctx(x);
	struct run_stream *s;
	bool owner;

	if (!f)
		return;
	s = f->stream;
	owner = f->owner;
	follower_free(f);
	look_for_room(s);
	if (owner)
		s->left(s->ctx);
}

static const struct exchange_events events = {.on_drain = on_drain, .on_close = on_close};

void run_stream_add(struct run_stream *s, struct exchange *x, bool owner)
{
	struct run_follower *f = s->n_followers < RUN_FOLLOWERS_MAX ? calloc(1, sizeof(*f)) : NULL;
	struct cay_error err;

	if (!f) {
		(void)cay_fail(&err, CAY_E_AT_CAPACITY, 0, "%d follow this run already",
			       RUN_FOLLOWERS_MAX);
		exchange_fail(x, &err);
		return;
	}
	*f = (struct run_follower){.stream = s, .x = x, .owner = owner, .next = s->followers};
	s->followers = f;
	s->n_followers++;
	exchange_watch(x, &events, f);
	/* It is there, and may have nothing to say for hours; only who waits for its start may
	 * still get an error instead. */
	if (!owner) {
		f->begun = true;
		exchange_events_begin(x);
	}
}

void run_stream_tell(struct run_stream *s, const char *event, const struct json *j)
{
	for (struct run_follower *f = s->followers; f; f = f->next) {
		f->begun = true;
		if (exchange_event(f->x, event, j) > EXCHANGE_HIGH)
			f->full = true;
	}
}

void run_stream_start(struct run_stream *s, const char *id, const struct isolation *i)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "id", id);
	json_set(j, "isolation", isolation_json(i));
	run_stream_tell(s, "start", j);
}

static const char *const names[STREAMS] = {"stdout", "stderr"};

static void tell_bytes(struct run_stream *s, enum stream which, const char *data, size_t len)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	_cleanup_(buf_done) struct buf text = BUF(1u << 20);

	if (text_is_utf8(data, len)) {
		json_set_bytes(j, "text", data, len);
	} else if (text_append_base64(&text, data, len) == 0) {
		json_set_str(j, "base64", buf_str(&text));
	}
	run_stream_tell(s, names[which], j);
}

bool run_stream_output(struct run_stream *s, enum stream which, const char *data, size_t len)
{
	_cleanup_(buf_done) struct buf all = BUF(1u << 20);
	size_t whole;

	if (!s->followers)
		return false;
	if (buf_append(&all, s->held[which], s->n_held[which]) < 0 ||
	    buf_append(&all, data, len) < 0)
		return false;
	whole = text_utf8_whole(all.data, all.len);
	s->n_held[which] = all.len - whole;
	memcpy(s->held[which], all.data + whole, s->n_held[which]);
	if (whole > 0)
		tell_bytes(s, which, all.data, whole);
	for (struct run_follower *f = s->followers; f; f = f->next)
		s->paused[which] |= f->full;
	return s->paused[which];
}

static void answer(struct run_follower *f, const char *event, const struct json *j,
		   const struct cay_error *err)
{
	if (!f->begun && err) {
		exchange_fail(f->x, err);
	} else {
		(void)exchange_event(f->x, event, j);
		exchange_end(f->x);
	}
	exchange_watch(f->x, NULL, NULL);
	follower_free(f);
}

void run_stream_end(struct run_stream *s, const char *event, const struct json *j,
		    const struct cay_error *err)
{
	for (int n = 0; n < STREAMS; n++)
		if (s->n_held[n] > 0) {
			tell_bytes(s, (enum stream)n, s->held[n], s->n_held[n]);
			s->n_held[n] = 0;
		}
	while (s->followers)
		answer(s->followers, event, j, err);
}

void run_stream_done(struct run_stream *s)
{
	while (s->followers) {
		exchange_abort(s->followers->x);
		exchange_watch(s->followers->x, NULL, NULL);
		follower_free(s->followers);
	}
}
