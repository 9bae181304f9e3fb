/*
 * terminal_text.h: what is said about a terminal, in a query and in text messages.
 */
#pragma once

#include "core/error.h"

#include <stddef.h>

struct json;
struct request;
struct request_body;
struct service_report;

struct terminal_query {
	unsigned columns, rows; /* 0: not given */
	const char *term, *command;
	const char *terminal; /* NULL: a new one */
};

/* Borrows from the request. CAY_E_INVALID. */
int terminal_query_read(const struct request *q, struct terminal_query *ret, struct cay_error *err);

/* The program on a new terminal, as a request for a command. The caller frees *ret. */
int terminal_body_make(const struct terminal_query *q, struct request_body **ret,
		       struct cay_error *err);

enum terminal_word { WORD_RESIZE, WORD_SIGNAL };

struct terminal_message {
	enum terminal_word word;
	unsigned columns, rows;
	int signal;
};

/* What a client says. 0 or -1. */
int terminal_message_read(const char *text, size_t len, struct terminal_message *ret);

/* {"exit":…}; NULL for a report: it was killed. The caller frees it. */
struct json *terminal_exit_json(const struct service_report *r);
