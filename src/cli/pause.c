#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/remote_sandbox.h"

static int pause_one(struct remote *r, const char *id, const void *ctx _unused_,
		     struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	return remote_sandbox_ask(r, "POST", id, "/pause", NULL, &j, err);
}

static int run(int argc, char **argv)
{
	return remote_sandbox_verb(&verb_pause, argc, argv, pause_one, NULL);
}

const struct verb verb_pause = {
	.name = "pause",
	.summary = "stop a sandbox's processes, for now",
	.usage = "SANDBOX...",
	.about = "Stops all that runs in a sandbox where it is, until it is resumed: it uses no\n"
		 "CPU and stays in memory.\n",
	.examples = "  cay pause work\n",
	.argument = "SANDBOX",
	.words_repeat = true,
	.run = run,
};
