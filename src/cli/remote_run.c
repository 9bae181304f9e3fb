#include "cli/remote_run.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/bundle.h"
#include "cli/cli.h"
#include "cli/remote_output.h"
#include "core/limit.h"
#include "core/result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* What comes of a run under way. */
struct streaming {
	const struct remote_run *q;
	struct remote_output out;
	struct bundles shown;
	bool ended; /* there is a result */
	struct result result;
};

static int bad_result(struct cay_error *err)
{
	return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer is no result of a run");
}

static unsigned read_degraded(const struct json *list)
{
	bool strange = false;
	unsigned set = 0;

	for (size_t i = 0; i < json_len(list); i++) {
		const char *name = json_str(json_at(list, i));
		const struct limit_row *row = name ? limit_find(name) : NULL;

		if (row)
			set |= limit_bit(row);
		strange |= !row;
	}
	if (strange)
		cli_say("degraded: a limit that this cay does not know was not enforced");
	return set;
}

static void read_engine(const struct json *j, struct result *ret)
{
	const struct json *sandboxed = json_get(j, "sandboxed");
	const char *reason = json_str(json_get(j, "engine_reason"));

	ret->sandboxed = !sandboxed || json_bool(sandboxed);
	ret->engine_reason = reason ? strdup(reason) : NULL;
}

/* As far as it decides what is said and the exit code. */
static int read_result(const struct json *j, struct result *ret, struct cay_error *err)
{
	const char *status = json_str(json_get(j, "status"));
	const char *message = json_str(json_get(j, "message"));
	int64_t code = json_int(json_get(j, "exit_code")), sig = json_int(json_get(j, "signal"));
	int s = 0;

	while (status && s < STATUSES && strcmp(status_name((enum status)s), status) != 0)
		s++;
	if (!status || s == STATUSES || code < 0 || code > 255 || sig < 0 || sig > 64)
		return bad_result(err);
	ret->status = (enum status)s;
	ret->exit_code = (int)code;
	ret->signal = (int)sig;
	/* The lie of a success with a code is none that an exit code may tell. */
	if (ret->status == STATUS_OK && code != 0)
		return bad_result(err);
	(void)snprintf(ret->message, sizeof(ret->message), "%s", message ? message : status);
	ret->state_lost = json_bool(json_get(j, "state_lost"));
	read_engine(j, ret);
	ret->isolation.degraded = read_degraded(json_get(json_get(j, "isolation"), "degraded"));
	return 0;
}

static void say(const struct remote_run *q, const struct result *r)
{
	if (!r->sandboxed)
		cli_say("ran without a sandbox (%s)",
			r->engine_reason ? r->engine_reason : "the daemon's mode");
	if (r->status != STATUS_OK && !(q->quiet && r->status == STATUS_FAILED))
		cli_say("%s", r->message);
	if (r->state_lost)
		cli_say("the interpreter is gone, with all that it knew");
	if (!q->quiet)
		cli_say_degraded(&r->isolation);
}

static int take_result(const struct remote_run *q, const struct json *j, struct result *ret,
		       struct cay_error *err)
{
	if (read_result(j, ret, err) < 0)
		return -1;
	return q->result ? q->result(q->ctx, j, err) : 0;
}

/* As an interpreter says it that nobody has asked to. */
static int pass_traceback(struct streaming *s, const struct json *exception, struct cay_error *err)
{
	size_t len = 0;
	const char *text = json_bytes(json_get(exception, "traceback"), &len);
	int r = text ? remote_output_text(&s->out, STREAM_STDERR, text, len, err) : 0;

	if (r == 0 && text && len > 0 && text[len - 1] != '\n')
		r = remote_output_text(&s->out, STREAM_STDERR, "\n", 1, err);
	return r;
}

static int on_result(struct streaming *s, const struct json *data, struct cay_error *err)
{
	if (take_result(s->q, data, &s->result, err) < 0 ||
	    pass_traceback(s, json_get(data, "exception"), err) < 0)
		return -1;
	s->ended = true;
	return 1;
}

/* What comes before it, and what only cells of a context send. */
static int on_cell_event(struct streaming *s, const char *name, const struct json *data,
			 struct cay_error *err)
{
	const char *text = json_str(json_get(data, "text"));

	if (strcmp(name, "display") == 0)
		return bundles_show(&s->shown, data, err);
	if (strcmp(name, "queued") == 0 && !s->q->quiet)
		cli_note("waiting for room");
	if (strcmp(name, "note") == 0 && text)
		cli_note("%s", text);
	if (strcmp(name, "input") != 0 || !s->q->input)
		return 0;
	output_settle(&s->out.out);
	return s->q->input(s->q->ctx, data, err);
}

static int on_event(void *ctx, const char *name, const struct json *data, struct cay_error *err)
{
	struct streaming *s = ctx;
	int which = remote_output_stream(name);

	if (which >= 0)
		return remote_output_pass(&s->out, (enum stream)which, data, err);
	if (strcmp(name, "error") == 0)
		return remote_refusal_json(0, data, err);
	return strcmp(name, "result") == 0 ? on_result(s, data, err)
					   : on_cell_event(s, name, data, err);
}

/* As if the program had found the broken pipe itself. */
static int unread(void)
{
	cli_say("ended by signal %d (%s)", SIGPIPE, strsignal(SIGPIPE));
	return 128 + SIGPIPE;
}

static int stream(const struct remote_run *q, struct cay_error *err)
{
	const struct remote_ask ask = {.method = "POST",
				       .path = q->path,
				       .json = q->body,
				       .events = true,
				       .patient = true};
	struct streaming s = {.q = q};
	int r;

	if (bundles_init(&s.shown, &s.out, q->screen, q->pictures, err) < 0)
		return -1;
	remote_output_init(&s.out, q->remote, q->output_limit);
	r = remote_events(q->remote, &ask, false, on_event, &s, err);
	remote_output_finish(&s.out);
	bundles_finish(&s.shown);
	if (r == 0) {
		r = s.out.unread ? unread() : result_exit_code(&s.result);
		if (output_failed(&s.out.out))
			r = EXIT_OURS;
		if (s.ended)
			say(q, &s.result);
	}
	result_done(&s.result);
	bundles_done(&s.shown);
	remote_output_done(&s.out);
	return r;
}

static int fetch(const struct remote_run *q, struct cay_error *err)
{
	const struct remote_ask ask = {
		.method = "POST", .path = q->path, .json = q->body, .patient = true};
	_cleanup_(result_done) struct result result = {0};
	_cleanup_(json_freep) struct json *j = NULL;
	int code;

	if (remote_json(q->remote, &ask, &j, err) < 0 || take_result(q, j, &result, err) < 0)
		return -1;
	code = result_exit_code(&result);
	if (cli_print_json(take_ptr(&j)) != 0)
		code = EXIT_OURS;
	say(q, &result);
	return code;
}

int remote_run(const struct remote_run *q, struct cay_error *err)
{
	return q->json ? fetch(q, err) : stream(q, err);
}
