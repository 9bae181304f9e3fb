/*
 * cay run: argv -> spec -> plan -> engine -> output and exit code.
 */
#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/image_program.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/run.h"
#include "cli/run_changes.h"
#include "cli/run_dry.h"
#include "cli/run_files.h"
#include "cli/run_language.h"
#include "cli/run_remote.h"
#include "cli/run_watch.h"
#include "cli/spec_options.h"
#include "core/result.h"
#include "engine/container/survey.h"
#include "engine/engine.h"
#include "image/choose.h"
#include "image/choose_container.h"
#include "image/images.h"
#include "policy/mode.h"
#include "policy/plan.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static OPTION_SETTER(set_limit)
{
	struct run_options *q = ctx;

	q->output_limited |= strcmp(row->name, "output-limit") == 0;
	return spec_option_limit(ctx, row, value, err);
}

static OPTION_SETTER(set_put)
{
	return transfers_add(&((struct run_options *)ctx)->spec.put, "--put", value, err);
}

static OPTION_SETTER(set_get)
{
	return transfers_add(&((struct run_options *)ctx)->spec.get, "--get", value, err);
}

static OPTION_SETTER(set_mode)
{
	return spec_set_mode(&((struct run_options *)ctx)->spec, value, err);
}

static OPTION_SETTER(set_engine)
{
	return spec_set_engine(&((struct run_options *)ctx)->spec, value, err);
}

static OPTION_SETTER(set_wait)
{
	((struct run_options *)ctx)->wait = value;
	return spec_option_wait(ctx, row, value, err);
}

static const struct option_row rows[] = {
	{'l', "language", "NAME[@VERSION]", "python (default), node@22, go, c++ ...",
	 .set = spec_option_language},
	{'c', "code", "CODE", "the code; as FILE, - reads standard input",
	 OPTION_STORE(struct run_options, code)},
	{'e', "env", "K=V", "a variable; K alone passes the caller's own", .set = spec_option_env},
	{0, "env-file", "FILE", "variables, one K=V a line", .set = spec_option_env_file},
	{0, "stdin", "FILE", "the program's standard input", .set = spec_option_stdin},
	{'m', "memory", "SIZE", "memory limit (512m)", .set = set_limit},
	{0, "cpus", "N", "CPU cores (1.0)", .set = set_limit},
	{0, "pids-limit", "N", "processes and threads (50)", .set = set_limit},
	{0, "disk", "SIZE", "size of /tmp and /workspace together (100m)", .set = set_limit},
	{0, "timeout", "TIME", "wall time (60): seconds, or 500ms, 5m, 1h", .set = set_limit},
	{0, "cpu-time", "TIME", "CPU time of all processes (not limited)", .set = set_limit},
	{0, "output-limit", "SIZE", "of each stream (1m with --json, else none)", .set = set_limit},
	{0, "network", "none|allowlist|full", "none (default); full is all that is public",
	 .set = spec_option_network},
	{0, "allow-domain", "DOMAIN", "may be reached: NAME, *.NAME, with :PORT",
	 .set = spec_option_allow_domain},
	{0, "block-domain", "DOMAIN", "may not be, whatever is allowed",
	 .set = spec_option_block_domain},
	{'v', "volume", "SRC:DEST[:ro|rw]", "a host directory, read-only unless rw",
	 .set = spec_option_volume},
	{0, "workspace", "SRC[:ACCESS]", "at /workspace: ro (default), rw or overlay",
	 .set = spec_option_workspace},
	{0, "diff", NULL, "of an overlay: show what was changed",
	 OPTION_STORE(struct run_options, diff)},
	{0, "apply", NULL, "of an overlay: bring its changes back",
	 OPTION_STORE(struct run_options, apply)},
	{'w', "workdir", "PATH", "working directory (/workspace)", .set = spec_option_workdir},
	{0, "put", "SRC[:DEST]", "a file or directory in, before", .set = set_put},
	{0, "get", "GLOB[:DEST]", "files out of the workspace, after", .set = set_get},
	{0, "image", "IMAGE", "what the island is made of (host)", .set = spec_option_image},
	{0, "engine", "ENGINE", "auto, native, docker, podman or direct", .set = set_engine},
	{0, "mode", "all|selective|off", "how much is sandboxed (all)", .set = set_mode},
	{0, "trusted", NULL, "need not be sandboxed in mode selective",
	 OPTION_STORE(struct spec, trusted)},
	{0, "tier", "TIER", "what the settings have for that tier", .set = spec_option_tier},
	{0, "writable", NULL, "an image's files can be changed, for once",
	 OPTION_STORE(struct spec, writable)},
	{0, "user", "root", "root on the island, nobody outside", .set = spec_option_user},
	{0, "sandbox", "ID", "in a live sandbox, by its id or name",
	 OPTION_STORE(struct run_options, sandbox)},
	{0, "wait", "TIME", "for room in a busy daemon", .set = set_wait},
	{0, "scope", "SCOPE", "in that of session:ID, agent:ID, shared",
	 OPTION_STORE(struct run_options, scope)},
	{0, "json", NULL, "the result as JSON on standard output",
	 OPTION_STORE(struct run_options, json)},
	{0, "allow-degraded", NULL, "run even where a limit can't be enforced",
	 OPTION_STORE(struct spec, allow_degraded)},
	{0, "cold", NULL, "by an interpreter that is started for it",
	 OPTION_STORE(struct spec, cold)},
	{0, "watch", NULL, "run FILE again after each save",
	 OPTION_STORE(struct run_options, watch)},
	{0, "dry-run", NULL, "show what would be done, and run nothing",
	 OPTION_STORE(struct run_options, dry_run)},
};

/* "-": all of standard input is the code. */
static int read_code_from_stdin(struct run_options *q, struct cay_error *err)
{
	struct buf code = BUF(CODE_MAX_BYTES);
	int r = fd_read_all(STDIN_FILENO, &code);

	if (r < 0) {
		buf_done(&code);
		return cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INVALID, -r,
				"read the code from standard input");
	}
	q->code_from_stdin = true;
	q->spec.kind = SPEC_CODE;
	q->spec.code_len = code.len;
	q->spec.code = buf_take(&code);
	return q->spec.code ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the code");
}

static int check_watch(const struct run_options *q, const char *word, bool dashes,
		       struct cay_error *err)
{
	if (!q->watch || (!q->code && !dashes && word && strcmp(word, "-") != 0))
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "--watch needs a FILE to watch");
	return cay_hint(err, "cay run --watch FILE [ARG...]");
}

/* What follows the options: FILE, -, or after -- a command. */
static int take_words(struct run_options *q, int argc, char **argv, int at, bool dashes,
		      struct cay_error *err)
{
	struct spec *s = &q->spec;
	int r = 0;

	if (check_watch(q, at < argc ? argv[at] : NULL, dashes, err) < 0)
		return -1;
	if (q->code) {
		s->kind = SPEC_CODE;
		s->code_len = strlen(q->code);
		s->code = strdup(q->code);
		r = s->code ? 0 : -ENOMEM;
	} else if (at >= argc) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "nothing to run");
		return cay_hint(
			err,
			"cay run FILE, cay run -c CODE, or cay run -- CMD; see cay run --help");
	} else if (dashes) {
		s->kind = SPEC_ARGV;
	} else if (strcmp(argv[at], "-") == 0) {
		at++;
		if (read_code_from_stdin(q, err) < 0)
			return -1;
	} else {
		s->kind = SPEC_FILE;
		s->file = strdup(argv[at++]);
		r = s->file ? 0 : -ENOMEM;
	}
	for (; at < argc && r == 0; at++)
		r = strv_add(&s->args, argv[at]);
	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, -r, "read the arguments");
	return 0;
}

/* Whatever fd 0, 1 or 2 a caller closed, our own files must not take its place. */
static void fill_stdio(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

/* The fd that the program's input comes from; -1 for none. *ret_opened is ours to close. */
static int open_stdin(const struct run_options *q, const struct run_files *files, int *ret_opened,
		      int *ret_fd, struct cay_error *err)
{
	struct stat st;

	*ret_opened = -1;
	if (q->spec.stdin_file) {
		if (run_files_open(files, q->spec.stdin_file, 0, "--stdin", ret_opened, err) < 0)
			return -1;
		*ret_fd = *ret_opened;
		return 0;
	}
	*ret_fd = STDIN_FILENO;
	/* /dev/null needs no pump: the island has one of its own. */
	if (q->code_from_stdin ||
	    (fstat(STDIN_FILENO, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
		*ret_fd = -1;
	return 0;
}

/* From here on the spec's engine is what policy comes to. */
static int decide(struct run_options *q, const struct settings *s, struct decision *ret,
		  struct cay_error *err)
{
	const struct mode_caller who = {.own = true};
	const struct mode_question question = mode_question(s, &who, &q->spec, NULL);
	struct mode_answer a;

	q->direct = question.engine == ENGINE_DIRECT;
	if (mode_check_settings(s, err) < 0 || mode_decide(&question, &a, err) < 0)
		return -1;
	if (a.engine == ENGINE_DIRECT && !s->allow_direct) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "the direct engine is switched off");
		return cay_hint(err, "[engine] direct = yes in the settings allows it");
	}
	if (a.engine == ENGINE_DIRECT && q->spec.needs_sandbox) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s: can't be had without a sandbox",
			       q->spec.needs_sandbox);
		return cay_hint(err, "leave it out, or %s",
				question.engine == ENGINE_DIRECT ? "--engine direct"
								 : "ask for --mode all");
	}
	q->spec.engine = a.engine;
	*ret = mode_decision(&a, s, &q->spec, NULL);
	return 0;
}

/* The program's own file is put on the island where it can't be an argument. */
static int decide_script(struct run_options *q, struct run_files *f, struct cay_error *err)
{
	struct spec *s = &q->spec;

	if (s->kind == SPEC_FILE)
		return run_files_script(f, s, err);
	return s->kind == SPEC_CODE ? script_of_code(s, &f->script, err) : 0;
}

static void describe(const struct run_options *q, const struct decision *decision,
		     const struct runtime *rt, const char *image, const struct plan *p,
		     struct result *ret)
{
	bool container = p->engine != 0;

	(void)snprintf(ret->id, sizeof(ret->id), "%s", p->id);
	if (ret->image && !container) {
		free(ret->image);
		ret->image = strdup(image);
	}
	ret->decision = *decision;
	ret->engine_reason = strdup(q->auto_reason[0] ? q->auto_reason
				    : container       ? "asked for by name"
						      : decision_reason(decision));
	if (rt) {
		ret->language = strdup(rt->language->name);
		ret->version = rt->version[0] ? strdup(rt->version) : NULL;
	}
}

/* Cancelled by --watch itself, which says why. */
static bool is_outdated(const struct run_options *q, const struct result *res)
{
	return q->watch && res->status == STATUS_CANCELLED && res->signal == WATCH_CANCEL;
}

static int report(const struct run_options *q, struct output *o, struct result *res)
{
	int code = result_exit_code(res);

	/* Who cancels does not wait for a reader. */
	if (res->status != STATUS_CANCELLED)
		output_finish(o);
	if (output_failed(o))
		code = EXIT_OURS;
	if (q->json) {
		if (res->compile.begun && !res->compile.ended)
			output_compiled(o);
		res->compile.output = o->compiler;
		o->compiler = (struct capture){0};
		for (int s = 0; s < STREAMS; s++) {
			res->output[s] = o->kept[s];
			o->kept[s] = (struct capture){0};
		}
		if (cli_print_json(result_json(res)) != 0)
			code = EXIT_OURS;
	}
	if (res->status != STATUS_OK && !is_outdated(q, res))
		cli_say("%s", res->message);
	cli_say_degraded(&res->isolation);
	return code;
}

/* One line, for who looks, again and again. */
static void show_pull(void *ctx _unused_, const char *words)
{
	if (isatty(STDERR_FILENO) == 1)
		(void)fprintf(stderr, "\r\033[K%s%.100s", *words ? "cay: pulling " : "", words);
}

static int carry_out(struct run_options *q, const struct settings *settings,
		     const struct decision *decision, const struct runtime *rt,
		     const struct image_choice *on, struct run_files *files, struct cay_error *err)
{
	_cleanup_(mount_rules_done) struct mount_rules rules = {0};
	_cleanup_(result_done) struct result res = {0};
	_cleanup_(fd_closep) int opened = -1, cancel = -1;
	struct plan *plan = NULL;
	const struct engine *engine = engine_get(q->spec.engine);
	struct run run;
	struct output out;
	int r;

	if (plan_make(&q->spec, settings, rt, on->image, run_files_path(files), &plan, err) < 0)
		return -1;
	/* Rules cost a look at passwd: only where something is mounted. */
	r = plan->n_mounts > 0 ? cli_mount_rules(settings, &rules, err) : 0;
	if (r == 0 && q->dry_run) {
		r = run_dry(plan, &rules, rt, on->name, engine, decision, q->json, err);
		free(plan);
		return r;
	}
	run = (struct run){
		.plan = plan, .rules = &rules, .settings = settings, .pulling = show_pull};
	if (r == 0)
		r = open_stdin(q, files, &opened, &run.stdin_fd, err);
	if (r == 0) {
		run.cancel_fd = cancel = cli_catch_signals(NULL);
		if (cancel < 0)
			r = cay_fail(err, CAY_E_INTERNAL, errno, "catch signals");
	}
	if (r < 0) {
		free(plan);
		return -1;
	}
	output_init(&out, q->json, q->json || q->output_limited ? plan->limits.output_bytes : 0);
	run.sink = output_sink(&out);
	run_files_attach(files, &run, &res);
	r = engine_run(engine, &run, &res, err);
	describe(q, decision, rt, on->name, plan, &res);
	if (r == 0 && !engine->sandboxed && !q->direct)
		cli_say("ran without a sandbox (%s)", decision->why);
	if (r == 0)
		r = report(q, &out, &res);
	output_done(&out);
	free(plan);
	return r;
}

/*
 * What of the caller's environment is about the caller's place: the time zone,
 * and the kind of terminal where there is one. What -e says comes later, and wins.
 */
static int pass_place(struct spec *s, struct cay_error *err)
{
	const char *tz = getenv("TZ"), *term = getenv("TERM");
	bool terminal = isatty(STDIN_FILENO) == 1 || isatty(STDOUT_FILENO) == 1;

	if (tz && !strv_get_env(&s->env, "TZ") && strv_set_env(&s->env, "TZ", tz) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
	if (term && terminal && !strv_get_env(&s->env, "TERM") &&
	    strv_set_env(&s->env, "TERM", term) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
	return 0;
}

/* One that is not in the store is pulled, unless the operator does not want that. */
static int choose(struct run_options *q, const struct settings *s, struct image_choice *ret,
		  struct runtime *rt, struct cay_error *err)
{
	if (spec_engine_is_container(q->spec.engine)) {
		if (container_choose(s, &q->spec, ret->name, rt, err) < 0)
			return -1;
		q->spec.container_image = ret->name;
		return 0;
	}
	if (image_choose(s, &q->spec, ret, rt, err) == 0)
		return 0;
	if (err->code != CAY_E_IMAGE || !q->spec.image || s->images_pull == PULL_NEVER ||
	    image_id_prefix(ret->name))
		return -1;
	if (image_program_pull(ret->name, q->json, err) < 0)
		return -1;
	return image_choose(s, &q->spec, ret, rt, err);
}

/* By the spec's engine, which may be ENGINE_AUTO: then it is what policy comes to. */
static int attempt(struct run_options *q, const struct settings *settings, struct cay_error *err)
{
	_cleanup_(run_files_done) struct run_files files = {0};
	_cleanup_(run_changes_done) struct run_changes changes = RUN_CHANGES_NONE;
	_cleanup_(image_choice_done) struct image_choice on = {0};
	struct decision decision;
	struct runtime rt;
	bool has_runtime = q->spec.kind != SPEC_ARGV;

	if (decide(q, settings, &decision, err) < 0 || choose(q, settings, &on, &rt, err) < 0)
		return -1;
	if (run_files_init(&files, &q->spec, settings, q->json, err) < 0 ||
	    run_changes_init(&changes, q, settings, err) < 0)
		return -1;
	files.changes = changes.asked ? &changes : NULL;
	if (decide_script(q, &files, err) < 0)
		return -1;
	return carry_out(q, settings, &decision, has_runtime ? &rt : NULL, &on, &files, err);
}

/*
 * Where the native engine can't enforce all that was asked for, nothing has begun, and who named
 * none gets one that may: Podman, else Docker, where they are. r: how it went by the native one.
 */
static int attempt_others(struct run_options *q, const struct settings *settings, int r,
			  struct cay_error *err)
{
	static const enum spec_engine others[] = {ENGINE_PODMAN, ENGINE_DOCKER};
	struct cay_error first = *err;

	for (size_t i = 0; i < ARRAY_LEN(others) && r < 0 && err->code == CAY_E_NOT_ENFORCEABLE;
	     i++) {
		if (!survey_is_there(others[i], settings))
			continue;
		q->spec.engine = others[i];
		(void)snprintf(q->auto_reason, sizeof(q->auto_reason), "auto: not native, as %s",
			       first.text);
		r = attempt(q, settings, err);
	}
	if (r < 0 && err->code == CAY_E_NOT_ENFORCEABLE)
		*err = first;
	return r;
}

static int run_request(struct run_options *q, struct cay_error *err)
{
	_cleanup_(settings_done) struct settings settings = {0};
	bool automatic = q->spec.engine == ENGINE_AUTO;
	int code = 0, r;

	settings_init(&settings);
	q->auto_reason[0] = '\0';
	if (run_language_choose(&q->spec, err) < 0 || pass_place(&q->spec, err) < 0)
		return -1;
	r = run_remote(q, &code, err);
	if (r <= 0)
		return r < 0 ? -1 : code;
	if (settings_load(&settings, err) < 0)
		return -1;
	r = attempt(q, &settings, err);
	if (r < 0 && automatic && err->code == CAY_E_NOT_ENFORCEABLE)
		r = attempt_others(q, &settings, r, err);
	if (automatic)
		q->spec.engine = ENGINE_AUTO; /* for the next one of --watch */
	return r;
}

/* A whole run, its error told; returns the exit code. */
static int run_once(void *ctx)
{
	struct run_options *q = ctx;
	struct cay_error err;
	int r = run_request(q, &err);

	return r < 0 ? cli_error(&err, q->json) : r;
}

static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static int run_run(int argc, char **argv)
{
	struct run_options *q = calloc(1, sizeof(*q));
	struct cay_error err;
	bool dashes;
	int rest, r;

	if (!q) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
		return cli_error(&err, false);
	}
	fill_stdio();
	r = options_parse(rows, ARRAY_LEN(rows), argc, argv, q, &rest, &dashes, &err);
	if (r == 1) {
		verb_print_help(&verb_run);
		r = 0;
	} else {
		if (r == 0)
			r = take_words(q, argc, argv, rest, dashes, &err);
		if (r == 0)
			r = q->watch ? run_watch(&q->spec, run_once, q, &err) : run_once(q);
		/* Where an option was wrong, those behind it were not read. */
		if (r < 0)
			r = cli_error(&err, q->json || asks_for_json(argc, argv));
	}
	spec_done(&q->spec);
	free(q);
	return r;
}

const struct verb verb_run = {
	.name = "run",
	.summary = "run code, a script or a command on an island",
	.usage = "[options] FILE [ARG...] | -c CODE [ARG...] | - | -- CMD [ARG...]",
	.about = "Runs code on an island of its own, within limits; nothing is left behind.\n",
	.examples = "  cay run -c 'print(42)'\n"
		    "  cay run --image node:22-slim --put data.csv --get 'out/*.png' plot.js\n",
	.notes = "Exit code: the program's; 124 time, 137 memory, 128+n signal n, 125 cay failed\n",
	.argument = "FILE",
	.words_end_options = true,
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_run,
};
