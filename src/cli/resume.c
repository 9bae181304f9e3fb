#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/remote_sandbox.h"

static int resume_one(struct remote *r, const char *id, const void *ctx _unused_,
		      struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	return remote_sandbox_ask(r, "POST", id, "/resume", NULL, &j, err);
}

static int run(int argc, char **argv)
{
	return remote_sandbox_verb(&verb_resume, argc, argv, resume_one, NULL);
}

const struct verb verb_resume = {
	.name = "resume",
	.summary = "let a paused sandbox go on",
	.usage = "SANDBOX...",
	.about = "Lets all that was stopped in a sandbox go on.\n",
	.examples = "  cay resume work\n",
	.argument = "SANDBOX",
	.words_repeat = true,
	.run = run,
};
