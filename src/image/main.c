/*
 * cay-image: writes to the image store; `cay image` and `cay run` start it. A program of its own,
 * because what it needs (libarchive, OpenSSL, curl) comes as shared libraries, and cay is static.
 *
 *   cay-image [--progress json] [--platform P] [--all] VERB ARG…
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "image/call.h"
#include "image/images.h"
#include "image/store.h"

#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 65536
#define FDS_MAX        4096

static const struct verb {
	const char *name, *args;
	int min, max;
	image_verb *run;
} verbs[] = {
	{"import", "NAME PATH", 2, 2, import_main},
	{"load", "FILE [NAME]", 1, 2, load_main},
	{"prune", "[--all]", 0, 0, prune_main},
	{"pull", "[--platform OS/ARCH[/VARIANT]] IMAGE", 1, 1, pull_main},
	{"rm", "IMAGE...", 1, IMAGES_MAX, rm_main},
};

void call_event(const struct json *j)
{
	_cleanup_(buf_done) struct buf text = BUF(LINE_MAX_BYTES);

	if (json_text(j, &text) == 0)
		(void)fd_write_all(STDOUT_FILENO, text.data, text.len);
}

void call_say(const struct image_call *call, const char *event, const char *id, const char *name,
	      uint64_t bytes)
{
	_cleanup_(json_freep) struct json *j = NULL;
	char size[32];

	if (!call->json) {
		printf("%s%s%.12s%s%s: %s\n", event, *id ? " " : "", id, *name ? " " : "", name,
		       format_size(bytes, size, sizeof(size)));
		(void)fflush(stdout);
		return;
	}
	j = json_new_object();
	json_set_str(j, "event", event);
	json_set_str(j, "id", id);
	json_set_str(j, "name", name);
	json_set_int(j, "bytes", (int64_t)bytes);
	call_event(j);
}

/* Images and registries have a hand in what it says, and a child that was taken over. */
static void write_line(struct cay_error *err)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_MAX_BYTES);
	bool hint = err->hint[0];

	if (buf_append_str(&line, "cay: ") == 0 &&
	    text_append_harmless(&line, err->text, strlen(err->text)) == 0 &&
	    buf_append_str(&line, hint ? " (" : "") == 0 &&
	    text_append_harmless(&line, err->hint, strlen(err->hint)) == 0 &&
	    buf_append_str(&line, hint ? ")\n" : "\n") == 0)
		(void)fd_write_all(STDERR_FILENO, line.data, line.len);
}

static void flatten(struct cay_error *err)
{
	text_flatten(err->text, strlen(err->text));
	text_flatten(err->hint, strlen(err->hint));
}

void call_warn(const struct image_call *call, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	flatten(err);
	if (!call->json) {
		write_line(err);
		return;
	}
	j = json_new_object();
	json_set_str(j, "event", "warning");
	json_set_str(j, "message", err->text);
	call_event(j);
}

static int complain(const struct image_call *call, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;

	flatten(err);
	if (call->json) {
		j = cay_error_json(err, NULL);
		call_event(j);
	}
	write_line(err);
	return err->exit_code;
}

static int parse(struct image_call *call, int argc, char **argv, const struct verb **ret,
		 struct cay_error *err)
{
	static const struct option options[] = {
		{"progress", required_argument, NULL, 'j'},
		{"platform", required_argument, NULL, 'p'},
		{"all", no_argument, NULL, 'a'},
		{0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'j' && strcmp(optarg, "json") == 0)
			call->json = true;
		else if (c == 'p')
			call->platform = optarg;
		else if (c == 'a')
			call->all = true;
		else
			return cay_fail(err, CAY_E_INVALID, 0, "unknown option %s",
					argv[optind - 1]);
	}
	for (size_t i = 0; optind < argc && i < ARRAY_LEN(verbs); i++)
		if (strcmp(argv[optind], verbs[i].name) == 0)
			*ret = &verbs[i];
	if (!*ret)
		return cay_fail(err, CAY_E_INVALID, 0, "cay-image is started by `cay image`");
	call->args = argv + optind + 1;
	call->n_args = argc - optind - 1;
	if (call->n_args < (*ret)->min || call->n_args > (*ret)->max)
		return cay_fail(err, CAY_E_INVALID, 0, "usage: cay image %s %s", (*ret)->name,
				(*ret)->args);
	return 0;
}

/* A merge has the layers open, and two for each directory that it is deep in. */
static void raise_fds(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FDS_MAX)
		return;
	limit.rlim_cur = limit.rlim_max < FDS_MAX ? limit.rlim_max : FDS_MAX;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(struct image_call *call, const struct verb *verb, struct cay_error *err)
{
	char dir[PATH_MAX];
	int r;

	if (settings_load(&call->settings, err) < 0)
		return -1;
	r = images_dir(&call->settings, dir);
	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, -r, "find the image store");
	if (store_open(dir, call->settings.images_budget, &call->store, err) < 0)
		return -1;
	return verb->run(call, err);
}

int main(int argc, char **argv)
{
	struct image_call call = {0};
	const struct verb *verb = NULL;
	struct cay_error err;
	int code = 0;

	/* Names in archives are UTF-8. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)signal(SIGPIPE, SIG_IGN);
	(void)umask(022);
	raise_fds();
	settings_init(&call.settings);
	if (parse(&call, argc, argv, &verb, &err) < 0 || run(&call, verb, &err) < 0)
		code = complain(&call, &err);
	store_free(call.store);
	settings_done(&call.settings);
	return code;
}
