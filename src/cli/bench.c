/*
 * cay bench: a quick look at what an island costs on this machine: the same
 * program bare, by cay, and by what else is installed, in turns.
 */
#include "cli/cli.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/bench_peers.h"
#include "cli/run_language.h"
#include "cli/spec_options.h"
#include "image/runtime_choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS     20
#define ROUNDS_MAX 1000

/* Without -n a slow one gets fewer runs: all of it takes seconds, not minutes. */
#define PEER_BUDGET_MS 1500.0
#define RUNS_MIN       3

#define RUN_MS 60000

#define TITLE_MAX 200u

#define DEFAULT_CODE "print(42)" /* in the default language */

struct request {
	struct spec spec; /* first: see spec_options.h */
	const char *code;
	uint64_t rounds; /* 0: not asked for */
	bool json;
};

/* The times of one peer. */
struct series {
	double *ms;
	size_t n;
	double spent_ms;
};

struct bench {
	struct snippet snippet;
	struct spawner spawner;
	struct peer peers[PEERS];
	struct series series[PEERS];
	size_t rounds;
	bool asked; /* for so many rounds, however long they take */
};

static OPTION_SETTER(set_rounds)
{
	if (parse_u64(value, 1, ROUNDS_MAX, &((struct request *)ctx)->rounds) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "--rounds can't be '%.64s': 1 to %d", value,
				ROUNDS_MAX);
	return 0;
}

static const struct option_row rows[] = {
	{'l', "language", "NAME[@VERSION]", "python (default); else by FILE",
	 .set = spec_option_language},
	{'c', "code", "CODE", "the code to run (" DEFAULT_CODE ")",
	 OPTION_STORE(struct request, code)},
	{'n', "rounds", "ROUNDS", "runs of each (20; fewer of slow ones)", .set = set_rounds},
	{0, "json", NULL, "as one JSON object", OPTION_STORE(struct request, json)},
};

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const struct series *s)
{
	size_t half = s->n / 2;

	return s->n % 2 ? s->ms[half] : (s->ms[half - 1] + s->ms[half]) / 2;
}

static bool takes_part(const struct bench *b, size_t i)
{
	return !b->peers[i].why_not[0];
}

static bool has_had_enough(const struct bench *b, const struct series *s)
{
	return !b->asked && s->n >= RUNS_MIN && s->spent_ms > PEER_BUDGET_MS;
}

static int time_one(struct bench *b, size_t i, struct cay_error *err)
{
	struct series *s = &b->series[i];
	struct spawned done;

	if (!takes_part(b, i) || has_had_enough(b, s))
		return 0;
	if (peer_run(&b->spawner, &b->peers[i], RUN_MS, NULL, &done, err) < 0)
		return -1;
	if (b->spawner.cancelled)
		return 0;
	if (done.stopped || done.status != 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "%s failed in between", b->peers[i].name);
	s->ms[s->n++] = done.ms;
	s->spent_ms += done.ms;
	return 0;
}

/* In turns, and another one first in each round: what slows the machine down slows all. */
static int time_all(struct bench *b, struct cay_error *err)
{
	for (size_t round = 0; round < b->rounds; round++)
		for (size_t k = 0; k < PEERS && !b->spawner.cancelled; k++)
			if (time_one(b, (round + k) % PEERS, err) < 0)
				return -1;
	for (size_t i = 0; i < PEERS; i++)
		qsort(b->series[i].ms, b->series[i].n, sizeof(double), by_size);
	return 0;
}

/* Without these two there is nothing to compare. */
static int check_found(const struct bench *b, struct cay_error *err)
{
	if (!takes_part(b, PEER_BARE)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "the program fails by itself: %s",
			       b->peers[PEER_BARE].why_not);
		return cay_hint(err, "it must need neither arguments nor input, and exit with 0");
	}
	if (!takes_part(b, PEER_CAY)) {
		(void)cay_fail(err, CAY_E_ENGINE, 0, "the program fails on an island: %s",
			       b->peers[PEER_CAY].why_not);
		return cay_hint(err, "cay run shows how; cay doctor shows what is missing here");
	}
	return 0;
}

static int print_json(const struct bench *b)
{
	const struct runtime *rt = b->snippet.runtime;
	double bare = median(&b->series[PEER_BARE]);
	struct json *o = json_new_object(), *list = json_new_array();

	json_set_str(o, "language", rt->language->name);
	json_set_str(o, "version", rt->version[0] ? rt->version : NULL);
	json_set_str(o, "code", b->snippet.spec->code);
	json_set_str(o, "file", b->snippet.file[0] ? b->snippet.file : NULL);
	for (size_t i = 0; i < PEERS; i++) {
		const struct series *s = &b->series[i];
		struct json *row = json_new_object();

		json_set_str(row, "name", b->peers[i].name);
		json_set_str(row, "absent", takes_part(b, i) ? NULL : b->peers[i].why_not);
		if (takes_part(b, i)) {
			json_set_str(row, "what", b->peers[i].what);
			json_set_int(row, "runs", (int64_t)s->n);
			json_set_real(row, "min_ms", s->ms[0]);
			json_set_real(row, "median_ms", median(s));
			json_set_real(row, "over_bare_ms", median(s) - bare);
			json_set_real(row, "times_bare", median(s) / bare);
		}
		json_add(list, row);
	}
	json_set(o, "rows", list);
	return cli_print_json(o);
}

static void print_row(const struct bench *b, size_t i)
{
	double bare = median(&b->series[PEER_BARE]), own = median(&b->series[i]);
	char over[32] = "", times[32] = "";

	if (i != PEER_BARE) {
		(void)snprintf(over, sizeof(over), "%+.1f ms", own - bare);
		(void)snprintf(times, sizeof(times), "%.2f", own / bare);
	}
	(void)printf("%-10s  %7.1f ms  %10s  %10s  %4zu\n", b->peers[i].name, own, over, times,
		     b->series[i].n);
}

/* What is timed, in a line. */
static void print_title(const struct snippet *s)
{
	const struct runtime *rt = s->runtime;
	const char *text = s->spec->code ? s->spec->code : s->file;
	size_t len = strcspn(text, "\n");

	(void)printf("%s%s%s, %s%.*s%s: a new process each time, from start to end\n\n",
		     rt->language->name, rt->version[0] ? " " : "", rt->version,
		     s->spec->code ? "-c " : "", (int)size_min(len, TITLE_MAX), text,
		     text[size_min(len, TITLE_MAX)] ? "..." : "");
}

static void print_table(const struct bench *b)
{
	print_title(&b->snippet);
	(void)printf("%s%-10s  %10s  %10s  %10s  %4s%s\n", cli_style(STDOUT_FILENO, STYLE_STRONG),
		     "", "median", "over bare", "times bare", "runs",
		     cli_style(STDOUT_FILENO, STYLE_PLAIN));
	for (size_t i = 0; i < PEERS; i++)
		if (takes_part(b, i))
			print_row(b, i);
	(void)printf("\n");
	for (size_t i = 0; i < PEERS; i++)
		(void)printf("%-10s  %s%s\n", b->peers[i].name, takes_part(b, i) ? "" : "absent: ",
			     takes_part(b, i) ? b->peers[i].what : b->peers[i].why_not);
	(void)printf("\nThe runs took turns. Only figures of one table can be compared.\n");
}

/* 0, 128 + n of a signal, or -1. */
static int measure(struct bench *b, struct cay_error *err)
{
	for (size_t i = 0; i < PEERS; i++) {
		b->series[i].ms = calloc(b->rounds, sizeof(double));
		if (!b->series[i].ms)
			return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the times");
	}
	if (isatty(STDERR_FILENO))
		cli_note("timing the program bare, by cay and by others: a few seconds");
	if (peers_find(&b->spawner, &b->snippet, b->peers, err) < 0)
		return -1;
	if (!b->spawner.cancelled && (check_found(b, err) < 0 || time_all(b, err) < 0))
		return -1;
	if (!b->spawner.cancelled)
		return 0;
	cli_say("cancelled by %s", strsignal(b->spawner.cancelled));
	return 128 + b->spawner.cancelled;
}

static int compare(const struct request *q, const struct settings *settings,
		   const struct runtime *rt, struct cay_error *err)
{
	struct bench *b = calloc(1, sizeof(*b));
	int r = 0;

	if (!b)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "compare");
	b->snippet = (struct snippet){.spec = &q->spec, .settings = settings, .runtime = rt};
	b->rounds = q->rounds ? q->rounds : ROUNDS;
	b->asked = q->rounds > 0;
	if (q->spec.file && !realpath(q->spec.file, b->snippet.file))
		r = cay_fail(err, CAY_E_NOT_FOUND, errno, "the script %s", q->spec.file);
	b->spawner.signals = cli_catch_signals(&b->spawner.before);
	if (r == 0)
		r = measure(b, err);
	if (r == 0 && q->json)
		r = print_json(b);
	else if (r == 0)
		print_table(b);
	fd_closep(&b->spawner.signals);
	peers_done(b->peers);
	for (size_t i = 0; i < PEERS; i++)
		free(b->series[i].ms);
	free(b);
	return r;
}

static int take_snippet(struct request *q, const char *file, struct cay_error *err)
{
	struct spec *s = &q->spec;

	if (file && q->code)
		return cay_fail(err, CAY_E_INVALID, 0, "-c CODE or FILE, not both");
	if (!file && !q->code && s->language && strcmp(s->language->name, LANGUAGE_DEFAULT) != 0) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "what code of %s?", s->language->name);
		return cay_hint(err, "cay bench -l %s -c CODE, or FILE", s->language->name);
	}
	s->kind = file ? SPEC_FILE : SPEC_CODE;
	if (file)
		s->file = strdup(file);
	else
		s->code = strdup(q->code ? q->code : DEFAULT_CODE);
	if (!s->file && !s->code)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the code");
	s->code_len = s->code ? strlen(s->code) : 0;
	if (run_language_choose(s, err) < 0)
		return -1;
	if (s->language->compile[0])
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"%s is compiled first: there is no bare run to compare with",
				s->language->name);
	if (s->code && !s->language->code_option) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "%s takes no code as an argument",
			       s->language->name);
		return cay_hint(err, "put it into a file: cay bench FILE");
	}
	return 0;
}

static int bench(struct request *q, const char *file, struct cay_error *err)
{
	_cleanup_(settings_done) struct settings settings = {0};
	struct runtime rt;

	settings_init(&settings);
	if (take_snippet(q, file, err) < 0 || settings_load(&settings, err) < 0 ||
	    runtime_choose(&settings, q->spec.language, q->spec.version, NULL, &rt, err) < 0)
		return -1;
	return compare(q, &settings, &rt, err);
}

static int run_bench(int argc, char **argv)
{
	struct request *q = calloc(1, sizeof(*q));
	struct cay_error err;
	const char *file;
	int r;

	if (!q)
		return EXIT_OURS;
	r = verb_parse(&verb_bench, argc, argv, q, &file, 1, &err);
	if (r == 0)
		r = bench(q, file, &err);
	else if (r == 1)
		r = 0;
	if (r < 0)
		r = cli_error(&err, q->json);
	spec_done(&q->spec);
	free(q);
	return r;
}

const struct verb verb_bench = {
	.name = "bench",
	.summary = "what an island costs here, beside bubblewrap and containers",
	.usage = "[options] [-c CODE | FILE]",
	.about = "Runs the same program bare, by `cay run`, and by bubblewrap, podman and docker\n"
		 "where they are there and ready, in turns, and prints the median times. Nothing\n"
		 "is pulled and no daemon is started; what is absent is named, with the reason.\n"
		 "Bare means without a sandbox: only for code that you would run yourself.\n",
	.examples = "  cay bench\n"
		    "  cay bench -n 100 -c 'import json'\n"
		    "  cay bench --json script.py\n",
	.notes =
		"A container is a new one each time, without a network, of a local image that has\n"
		"the language; its own version of it is what runs there.\n",
	.argument = "FILE",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_bench,
};
