#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/changes.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"

#include <unistd.h>

struct diff {
	bool json;
};

static const struct option_row rows[] = {
	{0, "json", NULL, "as one JSON object", OPTION_STORE(struct diff, json)},
};

static int diff(const struct diff *d, const char *id, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *answer = NULL;
	_cleanup_(changes_done) struct changes changes = {0};

	if (remote_open(&r, err) < 0 ||
	    remote_sandbox_ask(r, "GET", id, "/workspace/diff", NULL, &answer, err) < 0)
		return -1;
	if (d->json)
		return cli_print_json(take_ptr(&answer));
	if (changes_read(&changes, answer, err) < 0 ||
	    changes_print(&changes, STDOUT_FILENO, err) < 0)
		return -1;
	changes_say_left_out(&changes);
	if (json_bool(json_get(answer, "truncated")))
		cli_say("there are more changes than can be listed");
	return 0;
}

static int run(int argc, char **argv)
{
	struct diff d = {0};
	const char *words[1];
	struct cay_error err;
	int r = verb_parse(&verb_diff, argc, argv, &d, words, 1, &err);

	if (r == 1)
		return 0;
	if (r == 0 && !words[0])
		r = remote_sandbox_which(&err);
	if (r == 0)
		r = diff(&d, words[0], &err);
	return r < 0 ? cli_error(&err, d.json) : r;
}

const struct verb verb_diff = {
	.name = "diff",
	.summary = "show what a sandbox changed in its overlay",
	.usage = "[--json] SANDBOX",
	.about = "Lists what was added, changed and deleted in a workspace that is an overlay\n"
		 "(--workspace SRC:overlay). The host directory itself is as it was.\n",
	.examples = "  cay diff work\n",
	.notes = "cay apply brings changes back. Times are no change.\n",
	.argument = "SANDBOX",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
