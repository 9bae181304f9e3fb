/*
 * warm_bench ROUNDS SOCKET ROW [:: ROW]...
 *
 * A ROW is a way to run a program, and what it is called:
 *   NAME bare PROGRAM [ARG...]   as it is, without an island
 *   NAME launcher CODE           Python by a launcher's process that has zygotes; one row of this
 *   NAME http BODY               POST /v1/runs at the daemon's SOCKET, by one connection
 *
 * Each is done once in each round, in a new order, from the request until the output was read and
 * the end is known. Prints {NAME: {n, min, p25, median, p75, warm}}: microseconds, and how many of
 * the n runs came from a zygote.
 */
#include "bare.h"
#include "http_run.h"
#include "series.h"
#include "service_process.h"

#include <errno.h>

#define ROWS_MAX 16
#define PAUSE_US 2000 /* lets the next islands be made, and the last ones' ends end */
#define WARM_UP  3

extern char **environ;

enum way { WAY_BARE, WAY_LAUNCHER, WAY_HTTP };

struct row {
	enum way way;
	char **words; /* behind the way's */
	char *request;
	struct series times;
	json_int_t warm;
};

static struct service_process service = {.sock = -1};
static int connection = -1;

_noreturn_ static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "warm_bench: %s: %s\n", what, why ? why : strerror(errno));
	exit(1);
}

static bool run_by_launcher(const char *name)
{
	static uint32_t number;
	struct service_request q = {.kind = SERVICE_RUN, .island = ++number};
	struct service_report r = {.kind = REPORT_STOCK};
	struct pipes pipes;
	struct cay_error err;

	if (pipes_open(&pipes, 0, &err) < 0 || service_ask(&service, q, pipes.theirs, 3) < 0)
		die(name, NULL);
	pipes_close_theirs(&pipes);
	(void)drain(&pipes);
	while (r.kind == REPORT_STOCK)
		if (service_hear(&service, &r) < 0)
			die(name, NULL);
	if (r.kind != REPORT_GONE || r.status != 0)
		die(name, r.kind == REPORT_FAILED ? r.error.text : "the program failed");
	pipes_done(&pipes);
	return r.warm;
}

static bool run_by_http(const struct row *row)
{
	static char answer[ANSWER_MAX];
	size_t len = 0;
	bool warm;

	if (fd_write_all(connection, row->request, strlen(row->request)) < 0)
		die(row->times.name, NULL);
	answer[0] = '\0';
	while (!http_is_whole(answer, len)) {
		ssize_t n = read(connection, answer + len, sizeof(answer) - 1 - len);

		if (n <= 0)
			die(row->times.name, n < 0 ? NULL : "no answer");
		len += (size_t)n;
		answer[len] = '\0';
	}
	if (!http_is_ok(answer, &warm))
		die(row->times.name, answer);
	return warm;
}

static void measure(struct row *row, bool counts)
{
	double start = now_us();
	bool warm = false;

	if (row->way == WAY_LAUNCHER)
		warm = run_by_launcher(row->times.name);
	else if (row->way == WAY_HTTP)
		warm = run_by_http(row);
	else if (bare_run(row->words, environ) < 0)
		die(row->times.name, "the program failed");
	if (!counts)
		return;
	series_add(&row->times, now_us() - start);
	row->warm += warm;
}

static void prepare(struct row *row, const char *socket)
{
	struct cay_error err = {0};
	struct spec spec;

	if (row->way == WAY_HTTP) {
		if (connection < 0)
			connection = http_connect(socket);
		row->request = http_request(row->words[0]);
		if (connection < 0 || !row->request)
			die(socket, NULL);
	}
	if (row->way == WAY_LAUNCHER && service.sock >= 0)
		die(row->times.name, "a second launcher");
	if (row->way == WAY_LAUNCHER && (service_python(row->words[0], &spec, &err) < 0 ||
					 service_start(&spec, &service, &err) < 0))
		die(row->times.name, err.text);
}

static enum way way_of(const char *word)
{
	static const char *const names[] = {
		[WAY_BARE] = "bare", [WAY_LAUNCHER] = "launcher", [WAY_HTTP] = "http"};

	for (size_t k = 0; k < ARRAY_LEN(names); k++)
		if (strcmp(names[k], word) == 0)
			return (enum way)k;
	die(word, "neither bare, launcher nor http");
}

/* Splits at "::", in place. */
static size_t take_rows(char **words, struct row *rows, size_t rounds)
{
	size_t n = 0;

	while (*words) {
		if (n == ROWS_MAX || !words[1] || !words[2])
			die(words[0], "a NAME without a way, or too many");
		rows[n] = (struct row){.way = way_of(words[1]), .words = words + 2};
		series_init(&rows[n++].times, words[0], rounds);
		while (*words && strcmp(*words, "::") != 0)
			words++;
		if (*words)
			*words++ = NULL;
	}
	return n;
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 5 ? strtoul(argv[1], NULL, 10) : 0, order[ROWS_MAX], n;
	struct row rows[ROWS_MAX];
	json_t *all = json_object();

	if (rounds == 0 || rounds > 100000) {
		(void)fprintf(stderr,
			      "usage: warm_bench ROUNDS SOCKET NAME WAY WORD... [:: ...]\n");
		return 2;
	}
	n = take_rows(argv + 3, rows, rounds);
	for (size_t k = 0; k < n; k++)
		prepare(&rows[k], argv[2]);
	for (size_t round = 0; round < rounds + WARM_UP; round++) {
		shuffle(order, n);
		for (size_t k = 0; k < n; k++) {
			pause_us(PAUSE_US);
			measure(&rows[order[k]], round >= WARM_UP);
		}
	}
	for (size_t k = 0; k < n; k++) {
		json_t *row = series_json(&rows[k].times);

		(void)json_object_set_new(row, "warm", json_integer(rows[k].warm));
		(void)json_object_set_new(all, rows[k].times.name, row);
		series_done(&rows[k].times);
		free(rows[k].request);
	}
	return print_json(all);
}
