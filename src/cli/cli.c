#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "core/limit.h"
#include "core/result.h"
#include "engine/native/hostdir.h"
#include "settings/homes.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LINE_MAX_BYTES (64u << 10)

static bool wants_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && no[0]) && term && strcmp(term, "dumb") != 0 && isatty(fd) == 1;
}

const char *cli_style(int fd, enum style style)
{
	static const char *const sequences[] = {
		[STYLE_PLAIN] = "\033[0m", [STYLE_STRONG] = "\033[1m", [STYLE_QUIET] = "\033[2m",
		[STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[1;31m", [STYLE_DOUBT] = "\033[33m",
	};

	return wants_colour(fd) ? sequences[style] : "";
}

/* The styles are of the prefix and of the message. One write, so that lines stay whole. */
static void say(enum style prefix, enum style message, const char *fmt, va_list ap)
{
	_cleanup_(buf_done) struct buf text = BUF(LINE_MAX_BYTES), line = BUF(4 * LINE_MAX_BYTES);
	const char *plain = cli_style(STDERR_FILENO, STYLE_PLAIN);

	if (buf_vprintf(&text, fmt, ap) < 0 ||
	    buf_printf(&line, "%scay:%s%s ", cli_style(STDERR_FILENO, prefix), plain,
		       cli_style(STDERR_FILENO, message)) < 0 ||
	    text_append_harmless(&line, text.data, text.len) < 0 ||
	    buf_printf(&line, "%s\n", plain) < 0) {
		static const char silent[] = "cay: there is no memory even to say what is wrong\n";

		(void)fd_write_all(STDERR_FILENO, silent, sizeof(silent) - 1);
		return;
	}
	(void)fd_write_all(STDERR_FILENO, line.data, line.len);
}

void cli_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(STYLE_STRONG, STYLE_PLAIN, fmt, ap);
	va_end(ap);
}

void cli_say_degraded(const struct isolation *i)
{
	for (size_t n = 0; n < n_limit_rows; n++)
		if (i->degraded & limit_bit(&limit_rows[n]))
			cli_say("degraded: the limit %s was not enforced", limit_rows[n].name);
}

void cli_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(STYLE_QUIET, STYLE_QUIET, fmt, ap);
	va_end(ap);
}

int cli_print_json(struct json *j)
{
	_cleanup_(buf_done) struct buf out = BUF(SIZE_MAX / 4);
	int r = json_text(j, &out);

	json_free(j);
	if (r == 0)
		r = fd_write_all(STDOUT_FILENO, out.data, out.len);
	if (r < 0)
		cli_say("write the result: error %d", -r);
	return r < 0 ? EXIT_OURS : 0;
}

int cli_error(const struct cay_error *err, bool json)
{
	if (json)
		(void)cli_print_json(cay_error_json(err, NULL));
	if (err->hint[0])
		cli_say("%s (%s)", err->text, err->hint);
	else
		cli_say("%s", err->text);
	return err->exit_code;
}

int cli_catch_signals(sigset_t *ret_before)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &set, ret_before) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int cli_mount_rules(const struct settings *s, struct mount_rules *ret, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv homes = {0};
	char cwd[PATH_MAX];

	if (homes_read(&homes, err) < 0)
		return -1;
	if (mount_rules_make(s, &homes, getcwd(cwd, sizeof(cwd)) ? cwd : NULL, ret, err) < 0)
		return -1;
	return hostdir_resolve_rules(ret, err);
}
