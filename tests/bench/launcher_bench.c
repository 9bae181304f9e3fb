/*
 * launcher_bench ROUNDS SECONDS
 *
 * A resident launcher, driven in this process as a daemon would: from the
 * request until the output is read, the island is gone and all of it is taken
 * down, in turns with the same program started bare. Then islands per second,
 * by one launcher and by several at once. Prints JSON; times in microseconds.
 *
 * Each launcher has one thread and waits while an island is set up, so more than
 * one island at a time means more than one launcher.
 */
#include "../launch.h"
#include "bare.h"
#include "series.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"
#include "image/runtime_choose.h"
#include "policy/plan.h"
#include "settings/settings.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_US      1000
#define WARM_UP       3
#define POOL          8
#define LAUNCHERS_MAX 8

enum bench_mode {
	MODE_BARE,
	MODE_FRESH,  /* template, a network namespace made for each */
	MODE_POOLED, /* template, network namespaces made ahead */
	MODE_AHEAD,  /* whole islands made ahead, waiting for a program */
	MODE_ALONE,  /* nothing prepared: what a one-shot launcher does */
	BENCH_MODES
};
static const char *const mode_names[BENCH_MODES] = {"bare", "fresh", "pooled", "ahead", "alone"};

enum program { PROGRAM_TRUE, PROGRAM_PYTHON, PROGRAMS };
static const char *const program_names[PROGRAMS] = {"true", "python"};

/* Where an island's time goes, as the launcher sees it; each counts from the one before. */
enum phase {
	PHASE_START,  /* it was started: set up, checked, exec is next */
	PHASE_OUTPUT, /* both output pipes have ended */
	PHASE_EXITED, /* init said so */
	PHASE_GONE,   /* init itself is dead: its namespaces are taken down */
	PHASE_REAPED, /* launched_reap() returns */
	PHASES
};
static const char *const phase_names[PHASES] = {"start", "output", "exited", "gone", "reaped"};

struct bench {
	struct mount_rules rules; /* empty: no mounts here */
	struct launcher launchers[BENCH_MODES];
	struct plan *plans[PROGRAMS];
	char **argv[PROGRAMS], **env[PROGRAMS]; /* the plans', for the bare ones */
};

_noreturn_ static void die(const char *what, const struct cay_error *err)
{
	(void)fprintf(stderr, "launcher_bench: %s: %s\n", what, err ? err->text : strerror(errno));
	exit(1);
}

static void run_bare(struct bench *b, enum program program)
{
	if (bare_run(b->argv[program], b->env[program]) < 0)
		die("the bare program failed", NULL);
}

static void await_exited(struct launched *i)
{
	struct message m;
	size_t n_fds;

	if (msg_recv(i->control, &m, sizeof(m), NULL, 0, &n_fds) != (ssize_t)sizeof(m) ||
	    m.kind != MESSAGE_EXITED || m.status != 0) {
		errno = EPROTO;
		die("the island's program failed", NULL);
	}
}

static void run_island(struct launcher *l, const struct plan *plan, double ret_at[PHASES])
{
	struct pollfd gone = {.events = POLLIN};
	struct launched island;
	struct pipes pipes;
	struct usage usage;
	struct cay_error err;

	if (pipes_open(&pipes, 0, &err) < 0 ||
	    (l->shelves.n_islands > 0
		     ? launch_live(l, plan, pipes.theirs, &island, &err)
		     : launcher_start(l, plan, pipes.theirs, false, &island, &err)) < 0)
		die("island", &err);
	ret_at[PHASE_START] = now_us();
	pipes_close_theirs(&pipes);
	(void)drain(&pipes);
	ret_at[PHASE_OUTPUT] = now_us();
	await_exited(&island);
	ret_at[PHASE_EXITED] = now_us();
	gone.fd = island.pidfd;
	while (poll(&gone, 1, -1) != 1)
		;
	ret_at[PHASE_GONE] = now_us();
	launched_reap(&island, &usage);
	pipes_done(&pipes);
	ret_at[PHASE_REAPED] = now_us();
}

static void prepare_launcher(struct bench *b, enum bench_mode mode)
{
	struct launcher *l = &b->launchers[mode];
	struct cay_error err;

	launcher_init(l, &b->rules);
	if (mode != MODE_ALONE &&
	    (launcher_make_template(l, &err) < 0 || launcher_keep_cgroups(l, 4, &err) < 0))
		die("template", &err);
	if (mode != MODE_ALONE)
		launcher_tidy_later(l);
}

static void refill(struct bench *b, enum bench_mode mode, enum program program)
{
	struct cay_error err;

	if (mode != MODE_BARE)
		launcher_tidy(&b->launchers[mode]);
	if (mode == MODE_POOLED && launcher_fill_networks(&b->launchers[mode], POOL, &err) < 0)
		die("pool", &err);
	if (mode == MODE_AHEAD &&
	    launcher_make_ahead(&b->launchers[mode], b->plans[program], POOL, &err) < 0)
		die("ahead", &err);
}

/* A plan's list as an argv. Never freed: there are two of each. */
static char **list_of(const struct plan *p, struct plan_list l)
{
	char **list = calloc(l.len + 1, sizeof(char *));
	const char *s = plan_first(p, l);

	if (!list)
		abort();
	for (uint32_t n = 0; n < l.len; n++, s = plan_next(s))
		list[n] = strdup(s);
	return list;
}

/* The defaults, not this machine's settings: a runtime from elsewhere would not fit the template.
 */
static void make_plans(struct bench *b)
{
	struct spec specs[PROGRAMS] = {
		[PROGRAM_TRUE] = {.kind = SPEC_ARGV},
		[PROGRAM_PYTHON] = {.kind = SPEC_CODE, .language = language_find("python")},
	};
	struct settings settings;
	struct runtime python;
	struct cay_error err;

	settings_init(&settings);
	specs[PROGRAM_PYTHON].code = strdup("print(42)");
	specs[PROGRAM_PYTHON].code_len = strlen("print(42)");
	if (strv_add(&specs[PROGRAM_TRUE].args, "/bin/true") < 0 || !specs[PROGRAM_PYTHON].code)
		abort();
	if (runtime_choose(&settings, specs[PROGRAM_PYTHON].language, NULL, NULL, &python, &err) <
	    0)
		die("python", &err);
	for (int k = 0; k < PROGRAMS; k++) {
		if (plan_make(&specs[k], &settings, k == PROGRAM_PYTHON ? &python : NULL, NULL,
			      NULL, &b->plans[k], &err) < 0)
			die("plan", &err);
		b->argv[k] = list_of(b->plans[k], b->plans[k]->argv);
		b->env[k] = list_of(b->plans[k], b->plans[k]->env);
		spec_done(&specs[k]);
	}
	settings_done(&settings);
}

struct measured {
	struct series total, phases[PHASES];
};

static void measure_one(struct bench *b, enum bench_mode mode, enum program program,
			struct measured *m)
{
	double at[PHASES], start, before;

	refill(b, mode, program);
	pause_us(PAUSE_US);
	before = start = now_us();
	if (mode == MODE_BARE) {
		run_bare(b, program);
		series_add(&m->total, now_us() - start);
		return;
	}
	run_island(&b->launchers[mode], b->plans[program], at);
	series_add(&m->total, at[PHASE_REAPED] - start);
	for (int k = 0; k < PHASES; k++) {
		series_add(&m->phases[k], at[k] - before);
		before = at[k];
	}
}

static json_t *measured_json(struct measured *m, bool island)
{
	json_t *j = series_json(&m->total), *phases = json_object();

	for (int k = 0; island && k < PHASES; k++)
		(void)json_object_set_new(phases, phase_names[k], series_json(&m->phases[k]));
	if (island)
		(void)json_object_set(j, "phases", phases);
	json_decref(phases);
	return j;
}

static json_t *measure_program(struct bench *b, enum program program, size_t rounds)
{
	struct measured measured[BENCH_MODES];
	json_t *all = json_object();
	size_t order[BENCH_MODES];

	for (int mode = 0; mode < BENCH_MODES; mode++) {
		series_init(&measured[mode].total, mode_names[mode], rounds + WARM_UP);
		for (int k = 0; k < PHASES; k++)
			series_init(&measured[mode].phases[k], phase_names[k], rounds + WARM_UP);
	}
	for (size_t round = 0; round < rounds + WARM_UP; round++) {
		shuffle(order, BENCH_MODES);
		for (int k = 0; k < BENCH_MODES; k++) {
			struct measured *m = &measured[order[k]];

			measure_one(b, (enum bench_mode)order[k], program, m);
			if (round < WARM_UP) {
				m->total.len = 0;
				for (int phase = 0; phase < PHASES; phase++)
					m->phases[phase].len = 0;
			}
			pause_us(PAUSE_US);
		}
	}
	for (int mode = 0; mode < BENCH_MODES; mode++) {
		(void)json_object_set_new(all, mode_names[mode],
					  measured_json(&measured[mode], mode != MODE_BARE));
		series_done(&measured[mode].total);
		for (int k = 0; k < PHASES; k++)
			series_done(&measured[mode].phases[k]);
	}
	return all;
}

/* One after the other until the time is over; filling the pool counts, too. */
static uint64_t count_until(struct bench *b, enum bench_mode mode, enum program program,
			    double end_us)
{
	double at[PHASES];
	uint64_t n = 0;

	for (; now_us() < end_us; n++) {
		refill(b, mode, program);
		if (mode == MODE_BARE)
			run_bare(b, program);
		else
			run_island(&b->launchers[mode], b->plans[program], at);
	}
	return n;
}

/* Each process has a launcher of its own: that of a parent would kill by the parent's death. */
static double throughput(struct bench *b, enum bench_mode mode, enum program program, int launchers,
			 double seconds)
{
	double start = now_us() + 30e3; /* time to make the launchers: they begin together */
	double end = start + seconds * 1e6;
	uint64_t total = 0;
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		die("pipe", NULL);
	for (int k = 0; k < launchers; k++) {
		pid_t pid = fork();

		if (pid == 0) {
			uint64_t n;

			if (mode != MODE_BARE)
				prepare_launcher(b, mode);
			if (now_us() < start)
				pause_us((long)(start - now_us()));
			n = count_until(b, mode, program, end);
			if (mode != MODE_BARE)
				launcher_done(&b->launchers[mode]);
			_exit(fd_write_all(pair[1], &n, sizeof(n)) < 0);
		}
		if (pid < 0)
			die("fork", NULL);
	}
	(void)close(pair[1]);
	for (int k = 0; k < launchers; k++) {
		uint64_t n;

		if (fd_read_exact(pair[0], &n, sizeof(n)) < 0)
			die("a launcher of several failed", NULL);
		total += n;
	}
	(void)close(pair[0]);
	while (wait(NULL) > 0)
		;
	return (double)total / seconds;
}

static json_t *measure_throughput(struct bench *b, double seconds)
{
	static const enum bench_mode modes[] = {MODE_BARE, MODE_FRESH, MODE_POOLED, MODE_AHEAD};
	json_t *all = json_object();

	for (int program = 0; program < PROGRAMS; program++)
		for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
			json_t *row = json_object();
			char name[32], at_once[8];

			for (int n = 1; n <= LAUNCHERS_MAX; n *= 2) {
				(void)snprintf(at_once, sizeof(at_once), "%d", n);
				(void)json_object_set_new(
					row, at_once,
					json_real(throughput(b, modes[k], (enum program)program, n,
							     seconds)));
			}
			(void)snprintf(name, sizeof(name), "%s %s", program_names[program],
				       mode_names[modes[k]]);
			(void)json_object_set_new(all, name, row);
		}
	return all;
}

int main(int argc, char **argv)
{
	size_t rounds = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	double seconds = argc == 3 ? strtod(argv[2], NULL) : 0;
	struct bench b = {0};
	json_t *all = json_object();

	if (rounds == 0 || rounds > 100000 || seconds < 0 || seconds > 60) {
		(void)fprintf(stderr, "usage: launcher_bench ROUNDS SECONDS\n");
		return 2;
	}
	make_plans(&b);
	if (seconds > 0) /* first, so that the children do not inherit our launchers */
		(void)json_object_set_new(all, "per_second", measure_throughput(&b, seconds));
	for (int mode = MODE_FRESH; mode < BENCH_MODES; mode++)
		prepare_launcher(&b, (enum bench_mode)mode);
	for (int program = 0; program < PROGRAMS; program++)
		(void)json_object_set_new(
			all, program_names[program],
			measure_program(&b, (enum program)program,
					program == PROGRAM_PYTHON ? rounds / 3 + 1 : rounds));
	for (int mode = MODE_FRESH; mode < BENCH_MODES; mode++)
		launcher_done(&b.launchers[mode]);
	for (int k = 0; k < PROGRAMS; k++)
		free(b.plans[k]);
	return print_json(all);
}
