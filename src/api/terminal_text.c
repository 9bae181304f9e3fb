#include "api/terminal_text.h"

#include "api/pty.h"
#include "api/request.h"
#include "base/attr.h"
#include "base/json.h"
#include "base/parse.h"
#include "core/id.h"
#include "engine/service.h"
#include "spec/request.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MESSAGE_MAX 4096
#define TERM_MAX    64

/*
 * Not "exec bash || exec sh": a shell that is no terminal's ends when exec fails. The
 * variable is the island's own PATH.
 */
#define SHELL_LINE "if command -v bash >/dev/null 2>&1; then exec bash -il; fi; exec sh -i"

static int read_side(const char *name, const char *text, unsigned *ret, struct cay_error *err)
{
	uint64_t v;

	if (!text)
		return 0;
	if (parse_u64(text, 1, PTY_SIDE_MAX, &v) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: expected a number from 1 to %d", name,
				PTY_SIDE_MAX);
	*ret = (unsigned)v;
	return 0;
}

static bool term_ok(const char *s)
{
	size_t len =
		strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.+");

	return len > 0 && len <= TERM_MAX && s[len] == '\0';
}

static int check_names(const struct request *q, struct cay_error *err)
{
	static const char *const names[] = {"cols", "rows", "term", "command", "terminal"};

	for (size_t i = 0; i < q->n_query; i++) {
		size_t n = 0;

		while (n < ARRAY_LEN(names) && strcmp(q->query[i].name, names[n]) != 0)
			n++;
		if (n == ARRAY_LEN(names))
			return cay_fail(err, CAY_E_INVALID, 0, "%.64s: no such parameter",
					q->query[i].name);
	}
	return 0;
}

int terminal_query_read(const struct request *q, struct terminal_query *ret, struct cay_error *err)
{
	*ret = (struct terminal_query){.term = request_query(q, "term"),
				       .command = request_query(q, "command"),
				       .terminal = request_query(q, "terminal")};
	if (check_names(q, err) < 0 ||
	    read_side("cols", request_query(q, "cols"), &ret->columns, err) < 0 ||
	    read_side("rows", request_query(q, "rows"), &ret->rows, err) < 0)
		return -1;
	if (!ret->columns != !ret->rows)
		return cay_fail(err, CAY_E_INVALID, 0, "cols and rows go together");
	if (ret->term && !term_ok(ret->term))
		return cay_fail(err, CAY_E_INVALID, 0, "term: can't be a terminal's name");
	if (ret->command && !ret->command[0])
		return cay_fail(err, CAY_E_INVALID, 0, "command: is empty");
	if (ret->terminal && (ret->term || ret->command))
		return cay_fail(err, CAY_E_INVALID, 0,
				"terminal: one that is there has its program already");
	return 0;
}

int terminal_body_make(const struct terminal_query *q, struct request_body **ret,
		       struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *argv = json_new_array(), *env = json_new_object();
	struct request_body *body = calloc(1, sizeof(*body));

	json_add_str(argv, "/bin/sh");
	json_add_str(argv, "-c");
	json_add_str(argv, q->command ? q->command : SHELL_LINE);
	json_set_str(env, "TERM", q->term ? q->term : "xterm-256color");
	json_set(j, "argv", argv);
	json_set(j, "env", env);
	if (!body)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "make a terminal");
	if (request_read(body, REQUEST_COMMAND, j, err) < 0) {
		request_body_free(body);
		return -1;
	}
	*ret = body;
	return 0;
}

static int side(const struct json *v, unsigned *ret)
{
	if (json_int(v) < 1 || json_int(v) > PTY_SIDE_MAX)
		return -1;
	*ret = (unsigned)json_int(v);
	return 0;
}

static int read_resize(const struct json *v, struct terminal_message *ret)
{
	ret->word = WORD_RESIZE;
	if (json_len(v) != 2 || side(json_at(v, 0), &ret->columns) < 0)
		return -1;
	return side(json_at(v, 1), &ret->rows);
}

static int read_signal(const struct json *v, struct terminal_message *ret)
{
	static const struct {
		const char *name;
		int signal;
	} signals[] = {{"INT", SIGINT},   {"QUIT", SIGQUIT}, {"TSTP", SIGTSTP}, {"HUP", SIGHUP},
		       {"TERM", SIGTERM}, {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
	const char *name = json_str(v);

	ret->word = WORD_SIGNAL;
	for (size_t i = 0; name && i < ARRAY_LEN(signals); i++)
		if (strcmp(name, signals[i].name) == 0) {
			ret->signal = signals[i].signal;
			return 0;
		}
	return -1;
}

int terminal_message_read(const char *text, size_t len, struct terminal_message *ret)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;

	*ret = (struct terminal_message){0};
	if (json_parse(text, len, MESSAGE_MAX, &j, &fault) < 0 ||
	    json_kind(j) != JSON_KIND_OBJECT || json_len(j) != 1)
		return -1;
	if (json_get(j, "resize"))
		return read_resize(json_get(j, "resize"), ret);
	return json_get(j, "signal") ? read_signal(json_get(j, "signal"), ret) : -1;
}

struct json *terminal_exit_json(const struct service_report *r)
{
	struct json *outer = json_new_object(), *e = json_new_object();
	int status = r && r->kind == REPORT_EXITED && r->status >= 0 ? r->status : SIGKILL;

	json_set_null(e, "exit_code");
	json_set_null(e, "signal");
	if (WIFEXITED(status))
		json_set_int(e, "exit_code", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		json_set_int(e, "signal", WTERMSIG(status));
	json_set(outer, "exit", e);
	return outer;
}
