#include "session/job.h"

#include "base/attr.h"
#include "core/limits.h"
#include "image/runtime.h"
#include "policy/plan.h"

#include <stdlib.h>
#include <string.h>

void job_order_done(struct job_order *o)
{
	request_body_free(o->body);
	script_done(&o->script);
	free(o->plan);
	*o = (struct job_order){.script = SCRIPT_NONE};
}

static int choose_runtime(struct job_order *o, struct cay_error *err)
{
	struct spec *spec = &o->body->spec;

	if (spec->kind == SPEC_ARGV)
		return 0;
	if (!spec->language && spec_set_language(spec, LANGUAGE_DEFAULT, err) < 0)
		return -1;
	o->has_runtime = true;
	return runtime_choose(o->settings, spec->language, spec->version, &o->runtime, err);
}

int job_order_make(struct job_order *o, const struct settings *settings, struct request_body *body,
		   struct cay_error *err)
{
	struct spec *spec = &body->spec;
	const char *script;

	*o = (struct job_order){.body = body,
				.settings = settings,
				.engine = engine_get(spec->engine),
				.script = SCRIPT_NONE};
	if (choose_runtime(o, err) < 0 ||
	    (spec->kind == SPEC_CODE && script_of_code(spec, &o->script, err) < 0))
		return -1;
	/* A file is there already. */
	script = spec->kind == SPEC_FILE ? spec->file : o->script.path[0] ? o->script.path : NULL;
	if (plan_make(spec, settings, o->has_runtime ? &o->runtime : NULL, NULL, script, &o->plan,
		      err) < 0)
		return -1;
	if (o->plan->limits.output_bytes <= LIMIT_SERVED_OUTPUT)
		return 0;
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
		       "limits.output: a result has at most %llu MiB of each stream",
		       LIMIT_SERVED_OUTPUT >> 20);
	return cay_hint(err, "let the program write a file, and fetch that");
}
