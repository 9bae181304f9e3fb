/*
 * density_bench ISLANDS
 *
 * Many islands alive at once, made by one resident launcher: what the next one
 * costs when there are 10, 100 and so on, what memory each takes, and how long it
 * takes until all of them are gone. Prints JSON; times in microseconds.
 */
#include "series.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/launcher.h"
#include "policy/plan.h"
#include "settings/settings.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The last ones made before each number is reached say what one costs there. */
#define LAST 10

struct density {
	struct mount_rules rules; /* empty: no mounts here */
	struct launcher launcher;
	struct plan *plan;
	struct launched *islands;
	size_t n;
	int null[3];
};

_noreturn_ static void die(const char *what, const struct cay_error *err)
{
	(void)fprintf(stderr, "density_bench: %s: %s\n", what, err ? err->text : strerror(errno));
	exit(1);
}

/* Each island has about ten fds here. */
static void raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		die("fds", NULL);
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		die("fds", NULL);
}

static uint64_t available_kib(void)
{
	char text[4096];
	unsigned long long kib = 0;
	const char *line;

	if (fd_read_text_at(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) < 0)
		die("/proc/meminfo", NULL);
	line = strstr(text, "MemAvailable:");
	if (!line || sscanf(line, "MemAvailable: %llu", &kib) != 1)
		die("/proc/meminfo", NULL);
	return kib;
}

static void prepare(struct density *d, size_t max)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct settings settings;
	struct cay_error err;

	settings_init(&settings);
	if (strv_add(&spec.args, "/bin/sleep") < 0 || strv_add(&spec.args, "600") < 0)
		abort();
	if (plan_make(&spec, &settings, NULL, NULL, NULL, &d->plan, &err) < 0)
		die("plan", &err);
	d->plan->limits.timeout_ms = 600000;
	spec_done(&spec);
	settings_done(&settings);
	launcher_init(&d->launcher, &d->rules);
	if (launcher_make_template(&d->launcher, &err) < 0)
		die("template", &err);
	launcher_tidy_later(&d->launcher);
	d->islands = calloc(max, sizeof(*d->islands));
	for (int k = 0; k < 3; k++)
		d->null[k] = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (!d->islands || d->null[2] < 0)
		die("prepare", NULL);
}

static double make_one(struct density *d)
{
	double start = now_us();
	struct cay_error err;

	if (launcher_start(&d->launcher, d->plan, d->null, false, &d->islands[d->n], &err) < 0)
		die("island", &err);
	d->n++;
	return now_us() - start;
}

/* Makes islands until there are n; says what the last ones cost. */
static void grow(struct density *d, size_t n, json_t *all)
{
	struct series last;
	char name[24];

	series_init(&last, "last", LAST);
	while (d->n < n) {
		double us = make_one(d);

		if (d->n + LAST > n)
			series_add(&last, us);
	}
	(void)snprintf(name, sizeof(name), "%zu", n);
	(void)json_object_set_new(all, name, series_json(&last));
	series_done(&last);
}

/* All at once, as a service that stops: killed first, then taken down one by one. */
static double end_all(struct density *d)
{
	double start = now_us();

	for (size_t k = 0; k < d->n; k++)
		launched_kill(&d->islands[k]);
	for (size_t k = 0; k < d->n; k++) {
		struct usage usage;

		launched_reap(&d->islands[k], &usage);
	}
	launcher_tidy(&d->launcher);
	return now_us() - start;
}

int main(int argc, char **argv)
{
	size_t max = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	json_t *all = json_object(), *cost = json_object();
	struct density d = {0};
	uint64_t before;

	if (max < 10 || max > 5000) {
		(void)fprintf(stderr, "usage: density_bench ISLANDS (10 to 5000)\n");
		return 2;
	}
	raise_fd_limit();
	prepare(&d, max);
	before = available_kib();
	for (size_t n = 10; n <= max; n *= 10)
		grow(&d, n, cost);
	if (d.n < max)
		grow(&d, max, cost);
	(void)json_object_set_new(all, "islands", json_integer((json_int_t)d.n));
	(void)json_object_set_new(all, "cost_at", cost);
	(void)json_object_set_new(
		all, "kib_each",
		json_real(((double)before - (double)available_kib()) / (double)d.n));
	(void)json_object_set_new(all, "end_us", json_real(end_all(&d)));
	launcher_done(&d.launcher);
	free(d.islands);
	free(d.plan);
	return print_json(all);
}
