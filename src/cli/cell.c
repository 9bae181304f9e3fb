#include "cli/cell.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/remote_request.h"
#include "cli/remote_sandbox.h"

#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX 1024
#define PROMPT_MAX     (64u << 10)
#define ANSWER_MAX     (1u << 20)

void cell_desk_init(struct cell_desk *d, const char *sandbox, const char *context)
{
	*d = (struct cell_desk){.sandbox = sandbox, .context = context};
	lines_init(&d->lines);
	screen_init(&d->screen, &d->lines.pending);
}

void cell_desk_done(struct cell_desk *d)
{
	lines_done(&d->lines);
}

int cell_path(struct buf *path, const char *context, const char *rest, struct cay_error *err)
{
	/* A name that is none would be another place. */
	if (!context[0] || context[0] == '.')
		return cay_fail(err, CAY_E_INVALID, 0, "a context can't be called '%.64s'",
				context);
	if (buf_append_str(path, "/contexts/") < 0 || text_append_encoded(path, context) < 0 ||
	    buf_append_str(path, rest) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the context's name");
	return 0;
}

/* By another connection; what has become of the cell meanwhile is told by the first one. */
static int tell(const struct cell_desk *d, const char *rest, const struct json *body,
		struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *other = NULL;
	_cleanup_(json_freep) struct json *answer = NULL;
	_cleanup_(buf_done) struct buf path = BUF(PATH_BYTES_MAX);

	if (cell_path(&path, d->context, rest, err) < 0 || remote_open(&other, err) < 0)
		return -1;
	if (remote_sandbox_ask(other, "POST", d->sandbox, buf_str(&path), body, &answer, err) == 0)
		return 0;
	return err->code == CAY_E_CONFLICT || err->code == CAY_E_NOT_FOUND ? 0 : -1;
}

int cell_interrupt(const struct cell_desk *d, struct cay_error *err)
{
	return tell(d, "/interrupt", NULL, err);
}

/* The prompt is the program's: what is no text in it does nothing. */
static int print_prompt(const struct json *asked, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(PROMPT_MAX), harmless = BUF(4 * PROMPT_MAX);
	const char *prompt = json_str(json_get(asked, "prompt"));

	if (!prompt || !prompt[0])
		return 0;
	if (buf_append(&text, prompt, size_min(strlen(prompt), PROMPT_MAX - 1)) < 0 ||
	    text_append_harmless(&harmless, text.data, text.len) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the prompt");
	(void)fd_write_all(STDOUT_FILENO, harmless.data, harmless.len);
	return 0;
}

int cell_answer(void *ctx, const struct json *asked, struct cay_error *err)
{
	struct cell_desk *d = ctx;
	_cleanup_(buf_done) struct buf line = BUF(ANSWER_MAX);
	_cleanup_(json_freep) struct json *body = json_new_object();
	bool hidden = json_bool(json_get(asked, "password"));
	int came;

	if (print_prompt(asked, err) < 0)
		return -1;
	came = lines_next(&d->lines, d->remote, hidden, &line, err);
	if (hidden)
		(void)fd_write_all(STDOUT_FILENO, "\n", 1);
	if (came != LINE_CAME)
		return came == LINE_NONE ? cell_interrupt(d, err) : came < 0 ? -1 : 0;
	line.len--;
	line.data[line.len] = '\0';
	if (remote_request_str(body, "text", line.data, "what was typed", err) < 0)
		return -1;
	return tell(d, "/input", body, err);
}
