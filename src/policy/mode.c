#include "policy/mode.h"

#include "base/attr.h"
#include "policy/network.h"

#include <string.h>

static int denied(struct cay_error *err, const char *what, enum mode allowed)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "%s: the operator's mode is %s", what,
		       mode_name(allowed));
	return cay_hint(err, "[serve] mode in the settings says what is sandboxed: a request can "
			     "ask for more of it, never for less");
}

/* MODE_SELECTIVE: why it is sandboxed, or NULL. */
static const char *is_risky(const struct mode_question *q)
{
	if (q->shell && q->network)
		return "mode selective: a shell with a network";
	return q->trusted ? NULL : "mode selective: not marked as trusted";
}

static int by_name(const struct mode_question *q, enum mode mode, struct mode_answer *ret,
		   struct cay_error *err)
{
	const char *risk = mode == MODE_SELECTIVE ? is_risky(q) : NULL;

	if (mode == MODE_ALL && q->allowed != MODE_ALL) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct is none of mode all");
		return cay_hint(err, "the request asks for both: leave mode or engine out");
	}
	if (mode == MODE_ALL)
		return denied(err, "the engine direct", q->allowed);
	if (risk) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the engine direct: %s", risk);
		return cay_hint(err, "leave engine out, or mark the request as trusted if it is; "
				     "a shell with a network never is");
	}
	/* Whether the key may have it is said by its bounds. */
	*ret = (struct mode_answer){ENGINE_DIRECT, "asked for by name: no sandbox"};
	return 0;
}

int mode_decide(const struct mode_question *q, struct mode_answer *ret, struct cay_error *err)
{
	enum mode mode = q->asked == MODE_UNSAID ? q->allowed : q->asked;
	const char *risk = mode == MODE_SELECTIVE ? is_risky(q) : NULL;

	if (mode < q->allowed)
		return denied(err, mode == MODE_OFF ? "mode off" : "mode selective", q->allowed);
	if (q->engine == ENGINE_DIRECT)
		return by_name(q, mode, ret, err);
	if (q->engine == ENGINE_NATIVE || mode == MODE_ALL)
		*ret = (struct mode_answer){ENGINE_NATIVE, ""};
	else if (risk)
		*ret = (struct mode_answer){ENGINE_NATIVE, risk};
	else if (!q->key_direct)
		*ret = (struct mode_answer){ENGINE_NATIVE, "the key may not have less"};
	else if (mode == MODE_SELECTIVE)
		*ret = (struct mode_answer){ENGINE_DIRECT, "mode selective: marked as trusted"};
	else
		*ret = (struct mode_answer){ENGINE_DIRECT, "mode off: no sandbox"};
	return 0;
}

static bool is_shell(const struct spec *spec)
{
	static const char *const shells[] = {"sh", "bash", "zsh"};

	for (size_t i = 0; spec->language && i < ARRAY_LEN(shells); i++)
		if (strcmp(spec->language->name, shells[i]) == 0)
			return true;
	return false;
}

struct mode_question mode_question(const struct settings *s, const struct bounds *b,
				   const struct spec *spec)
{
	return (struct mode_question){
		.allowed = s->serve_mode,
		.asked = spec->mode,
		.engine = spec->engine,
		.trusted = spec->trusted,
		.shell = is_shell(spec),
		.network = network_is_asked(spec, s),
		.key_direct = !b->has_engines || b->engines & 1u << ENGINE_DIRECT,
	};
}

static int not_outside(struct cay_error *err, const char *field)
{
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s: can't be had without a sandbox", field);
	return cay_hint(err, "leave it out, or ask for mode all");
}

int mode_check_direct(const struct request_body *q, struct cay_error *err)
{
	const struct spec *s = &q->spec;
	const size_t skip = strlen(ISLAND_WORKSPACE "/");

	if (s->needs_sandbox)
		return not_outside(err, s->needs_sandbox);
	if (s->n_mounts > 0)
		return not_outside(err, "mounts");
	if (s->workspace.source)
		return not_outside(err, "workspace");
	if (s->limits.disk_bytes)
		return not_outside(err, "limits.disk");
	/* Anywhere else it would be the host's own file. */
	for (size_t n = 0; n < q->n_files; n++)
		if (strncmp(q->files[n].path, ISLAND_WORKSPACE "/", skip) != 0) {
			(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
				       "files[%zu].path: without a sandbox files go to the "
				       "workspace alone",
				       n);
			return cay_hint(err, "a relative path is one in the workspace");
		}
	return 0;
}

int mode_check_settings(const struct settings *s, struct cay_error *err)
{
	if (s->allow_direct || s->serve_mode == MODE_ALL)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "[serve] mode = %s, but [engine] direct = no",
		       mode_name(s->serve_mode));
	return cay_hint(err, "what is not sandboxed is run by the engine direct: allow it, or "
			     "set mode = all");
}
