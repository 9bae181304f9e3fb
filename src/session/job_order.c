#include "session/job.h"

#include "base/attr.h"
#include "core/limits.h"
#include "image/choose.h"
#include "image/choose_container.h"
#include "policy/plan.h"
#include "spec/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void job_order_done(struct job_order *o)
{
	request_body_free(o->body);
	script_done(&o->script);
	free(o->plan);
	free(o->image);
	*o = (struct job_order){.script = SCRIPT_NONE};
}

/* On a live island the image is given, else *ret is chosen. */
static int choose(struct job_order *o, const struct image *image, struct image_choice *ret,
		  struct cay_error *err)
{
	struct spec *spec = &o->body->spec;
	int r;

	o->has_runtime = spec->kind != SPEC_ARGV;
	if (o->has_runtime && !spec->language && spec_set_language(spec, LANGUAGE_DEFAULT, err) < 0)
		return -1;
	if (spec_engine_is_container(spec->engine)) {
		r = container_choose(o->settings, spec, ret->name, &o->runtime, err);
	} else if (!spec->island) {
		r = image_choose(o->settings, spec, ret, &o->runtime, err);
	} else {
		(void)snprintf(ret->name, sizeof(ret->name), "%s",
			       spec->image ? spec->image : IMAGE_HOST);
		r = o->has_runtime ? image_choose_runtime(o->settings, spec, image, ret->name,
							  &o->runtime, err)
				   : 0;
	}
	if (r < 0)
		return -1;
	o->image = strdup(ret->name);
	spec->container_image = spec_engine_is_container(spec->engine) ? o->image : NULL;
	return o->image ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "prepare the run");
}

/* What is executed is the driver, and what it is to run is what was asked for. */
static int drive(struct spec *spec, struct cay_error *err)
{
	const char *driver = driver_text(spec->language);
	char *text = driver ? strdup(driver) : NULL;

	if (!text)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "prepare the run");
	spec->cell = spec->code;
	spec->cell_len = spec->code_len;
	spec->code = text;
	spec->code_len = strlen(text);
	return 0;
}

int job_order_make(struct job_order *o, const struct settings *settings, struct request_body *body,
		   const struct image *image, struct cay_error *err)
{
	_cleanup_(image_choice_done) struct image_choice choice = {0};
	struct spec *spec = &body->spec;
	const char *script;

	*o = (struct job_order){.body = body,
				.settings = settings,
				.engine = engine_get(spec->engine),
				.script = SCRIPT_NONE};
	if (choose(o, image, &choice, err) < 0 ||
	    ((body->context || body->rich) && drive(spec, err) < 0) ||
	    (spec->kind == SPEC_CODE && script_of_code(spec, &o->script, err) < 0))
		return -1;
	/* A file is there already. */
	script = spec->kind == SPEC_FILE ? spec->file : o->script.path[0] ? o->script.path : NULL;
	if (plan_make(spec, settings, o->has_runtime ? &o->runtime : NULL,
		      spec->island ? image : choice.image, script, &o->plan, err) < 0)
		return -1;
	if (o->plan->limits.output_bytes <= LIMIT_SERVED_OUTPUT)
		return 0;
	(void)cay_fail(err, CAY_E_TOO_LARGE, 0,
		       "limits.output: a result has at most %llu MiB of each stream",
		       LIMIT_SERVED_OUTPUT >> 20);
	return cay_hint(err, "let the program write a file, and fetch that");
}
