#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/native/hostdir.h"
#include "settings/homes.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES (64u << 10)

/* Messages carry names that others chose: on a terminal they must not act. */
static void write_line(struct buf *line)
{
	struct text_filter filter = {0};
	_cleanup_(buf_done) struct buf safe = BUF(4 * LINE_MAX_BYTES);

	text_flatten(line->data, line->len);
	if (text_filter_feed(&filter, &safe, line->data, line->len) < 0 ||
	    text_filter_end(&filter, &safe) < 0 || buf_append_str(&safe, "\n") < 0)
		return;
	(void)fd_write_all(STDERR_FILENO, safe.data, safe.len);
}

void cli_say(const char *fmt, ...)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_MAX_BYTES);
	va_list ap;

	va_start(ap, fmt);
	if (buf_append_str(&line, "cay: ") == 0 && buf_vprintf(&line, fmt, ap) == 0)
		write_line(&line);
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
