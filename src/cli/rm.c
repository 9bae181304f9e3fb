#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"

static const struct option_row rows[] = {
	{'f', "force", NULL, "no error if there is none", .set = option_store_flag},
};

static int remove_one(struct remote *r, const char *id, const void *ctx, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	const bool *force = ctx;

	if (remote_sandbox_ask(r, "DELETE", id, "", NULL, &j, err) == 0)
		return 0;
	return *force && (err->code == CAY_E_NOT_FOUND || err->code == CAY_E_EXPIRED) ? 1 : -1;
}

static int run(int argc, char **argv)
{
	bool force = false;

	return remote_sandbox_verb(&verb_rm, argc, argv, remove_one, &force);
}

const struct verb verb_rm = {
	.name = "rm",
	.summary = "end a sandbox, with all that is in it",
	.usage = "[-f] SANDBOX...",
	.about = "Ends sandboxes: what runs there is killed, and their files are gone.\n",
	.examples = "  cay rm work\n",
	.argument = "SANDBOX",
	.words_repeat = true,
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
