#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote_output.h"
#include "cli/remote_sandbox.h"

#include <signal.h>

static const struct option_row rows[] = {
	{'f', "follow", NULL, "what comes from now on, too, until Ctrl-C",
	 .set = option_store_flag},
};

static int print(struct remote_output *o, const char *id, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *logs;
	int r = remote_sandbox_ask(o->remote, "GET", id, "/logs", NULL, &j, err);

	logs = json_get(j, "logs");
	for (size_t i = 0; i < json_len(logs) && r == 0; i++) {
		const struct json *entry = json_at(logs, i);
		int which = remote_output_stream(json_str(json_get(entry, "stream")));

		if (which >= 0)
			r = remote_output_pass(o, (enum stream)which, entry, err);
	}
	return r;
}

static int on_event(void *ctx, const char *name, const struct json *data, struct cay_error *err)
{
	int which = remote_output_stream(name);

	return which < 0 ? 0 : remote_output_pass(ctx, (enum stream)which, data, err);
}

static int follow(struct remote_output *o, const char *id, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf path = {0};
	struct remote_ask ask = {.method = "GET", .events = true, .patient = true};

	if (remote_sandbox_path(&path, id, "/logs?follow=1", err) < 0)
		return -1;
	ask.path = buf_str(&path);
	return remote_events(o->remote, &ask, true, on_event, o, err);
}

static int show(const char *id, bool on, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	struct remote_output o;
	int s;

	if (remote_open(&r, err) < 0)
		return -1;
	remote_output_init(&o, r, 0);
	s = on ? follow(&o, id, err) : print(&o, id, err);
	/* The usual end of it: nothing to explain. */
	if (s < 0 && on && remote_signal(r))
		s = 128 + remote_signal(r);
	else if (s >= 0)
		s = o.unread ? 128 + SIGPIPE : 0;
	remote_output_finish(&o);
	if (output_failed(&o.out))
		s = EXIT_OURS;
	remote_output_done(&o);
	return s;
}

static int run(int argc, char **argv)
{
	const char *id = NULL;
	struct cay_error err;
	bool on = false;
	int r = verb_parse(&verb_logs, argc, argv, &on, &id, 1, &err);

	if (r == 1)
		return 0;
	if (r == 0 && !id)
		r = remote_sandbox_which(&err);
	if (r == 0)
		r = show(id, on, &err);
	return r < 0 ? cli_error(&err, false) : r;
}

const struct verb verb_logs = {
	.name = "logs",
	.summary = "what the commands of a sandbox printed",
	.usage = "[-f] SANDBOX",
	.about =
		"Prints the last of what commands in the sandbox printed, those in the background\n"
		"too: each to the stream that it was printed to.\n",
	.examples = "  cay logs work\n"
		    "  cay logs -f work\n",
	.argument = "SANDBOX",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
