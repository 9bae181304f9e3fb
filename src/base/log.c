#include "base/log.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192

static const char *who = "cay";
static enum log_level lowest = LOG_LEVEL_INFO;
static int terminal = -1;

void log_init(const char *name, enum log_level level)
{
	who = name;
	lowest = level;
	terminal = isatty(STDERR_FILENO);
}

static void stamp(char *text, size_t size)
{
	struct timespec now;
	struct tm t;
	size_t n;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &t);
	n = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &t);
	(void)snprintf(text + n, size - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* What others had a hand in is shown harmlessly. */
static void append_flat(struct buf *line, const char *text)
{
	size_t at = line->len;

	if (buf_append_str(line, text) == 0 && line->data)
		text_flatten(line->data + at, line->len - at);
}

static void line_for_people(struct buf *line, enum log_level level, const char *message, va_list ap)
{
	static const char *const marks[] = {"debug: ", "", "warning: ", "error: "};
	const char *key;

	(void)buf_printf(line, "%s: %s", who, marks[level]);
	append_flat(line, message);
	while ((key = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);

		if (!value)
			continue;
		(void)buf_printf(line, "  %s=", key);
		append_flat(line, value);
	}
	(void)buf_append(line, "\n", 1);
}

static void line_for_machines(struct buf *line, enum log_level level, const char *message,
			      va_list ap)
{
	static const char *const names[] = {"debug", "info", "warning", "error"};
	_cleanup_(json_freep) struct json *o = json_new_object();
	const char *key;
	char now[64];

	stamp(now, sizeof(now));
	json_set_str(o, "time", now);
	json_set_str(o, "level", names[level]);
	json_set_str(o, "process", who);
	json_set_str(o, "message", message);
	while ((key = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);

		if (value)
			json_set_str(o, key, value);
	}
	(void)json_text(o, line);
}

void log_write(enum log_level level, const char *message, ...)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_MAX_BYTES);
	va_list ap;

	if (level < lowest)
		return;
	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	va_start(ap, message);
	if (terminal)
		line_for_people(&line, level, message, ap);
	else
		line_for_machines(&line, level, message, ap);
	va_end(ap);
	(void)fd_write_all(STDERR_FILENO, buf_str(&line), line.len);
}
