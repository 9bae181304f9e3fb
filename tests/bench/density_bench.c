/*
 * density_bench ISLANDS [live]
 *
 * Many islands alive at once, each with a program that sleeps, or live ones, which wait for their
 * first command: what the next one costs when there are 10, 100 and so on, what
 * memory each takes, and how long it takes until all of them are gone. They are made by one
 * resident launcher, or by as many as the limit of open files makes it. Prints JSON; times in
 * microseconds.
 */
#include "../launch.h"
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The last ones made before each number is reached say what one costs there. */
#define LAST 10

#define FDS_EACH  11 /* that an island has here: most with cgroup v1 */
#define FDS_OTHER 64
#define CREWS_MAX 16

struct density {
	struct mount_rules rules; /* empty: no mounts here */
	struct launcher launcher;
	struct plan *plan;
	struct launched *islands;
	size_t n;
	int null[3];
};

/* A process that has a launcher: '+' makes an island, '-' ends all, each answered by what it took.
 */
struct crew {
	pid_t pid;
	int sock;
};

static bool live;

_noreturn_ static void die(const char *what, const struct cay_error *err)
{
	(void)fprintf(stderr, "density_bench: %s: %s\n", what, err ? err->text : strerror(errno));
	exit(1);
}

/* How many islands one process can have. */
static size_t raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		die("fds", NULL);
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur <= FDS_OTHER + FDS_EACH)
		die("fds", NULL);
	return (r.rlim_cur - FDS_OTHER) / FDS_EACH;
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
	struct launched *island = &d->islands[d->n];
	double start = now_us();
	struct cay_error err;

	if ((live ? launch_ordered(&d->launcher, d->plan, ORDER_CHECK, d->null, island, &err)
		  : launcher_start(&d->launcher, d->plan, d->null, false, island, &err)) < 0)
		die("island", &err);
	d->n++;
	return now_us() - start;
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

/* Until nobody asks any more. */
_noreturn_ static void serve(int sock, size_t max)
{
	struct density d = {0};
	char what;

	prepare(&d, max);
	while (read(sock, &what, 1) == 1) {
		double us = what == '+' ? make_one(&d) : end_all(&d);

		if (fd_write_all(sock, &us, sizeof(us)) < 0)
			die("answer", NULL);
	}
	launcher_done(&d.launcher);
	_exit(0);
}

static void start_crew(struct crew *c, size_t max)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("crew", NULL);
	c->pid = fork();
	if (c->pid < 0)
		die("crew", NULL);
	if (c->pid == 0) {
		(void)close(pair[0]);
		serve(pair[1], max);
	}
	(void)close(pair[1]);
	c->sock = pair[0];
}

static double ask(const struct crew *c, char what)
{
	double us = 0;

	if (fd_write_all(c->sock, &what, 1) < 0 || fd_read_exact(c->sock, &us, sizeof(us)) < 0)
		die("a crew has failed", NULL);
	return us;
}

/* Makes islands until there are n; says what the last ones cost. */
static void grow(struct crew *crews, size_t each, size_t *made, size_t n, json_t *all)
{
	struct series last;
	char name[24];

	series_init(&last, "last", LAST);
	for (; *made < n; (*made)++) {
		double us = ask(&crews[*made / each], '+');

		if (*made + LAST >= n)
			series_add(&last, us);
	}
	(void)snprintf(name, sizeof(name), "%zu", n);
	(void)json_object_set_new(all, name, series_json(&last));
	series_done(&last);
}

/* Of all crews at once. */
static double end_crews(struct crew *crews, size_t n)
{
	double start = now_us(), us;

	for (size_t k = 0; k < n; k++)
		if (fd_write_all(crews[k].sock, "-", 1) < 0)
			die("a crew has failed", NULL);
	for (size_t k = 0; k < n; k++)
		if (fd_read_exact(crews[k].sock, &us, sizeof(us)) < 0)
			die("a crew has failed", NULL);
	us = now_us() - start;
	for (size_t k = 0; k < n; k++)
		(void)close(crews[k].sock);
	/* The last first: it has the sockets of those before it. */
	while (n-- > 0)
		(void)waitpid(crews[n].pid, NULL, 0);
	return us;
}

int main(int argc, char **argv)
{
	size_t max = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, each, made = 0, n_crews = 0;
	json_t *all = json_object(), *cost = json_object();
	struct crew crews[CREWS_MAX];
	uint64_t before;

	live = argc == 3 && strcmp(argv[2], "live") == 0;
	each = raise_fd_limit();
	if (argc > 3 || (argc == 3 && !live) || max < 10 || max > 10000 || max > CREWS_MAX * each) {
		(void)fprintf(stderr, "usage: density_bench ISLANDS (10 to 10000) [live]\n");
		return 2;
	}
	while (n_crews * each < max)
		start_crew(&crews[n_crews++], each);
	before = available_kib();
	for (size_t n = 10; n <= max; n *= 10)
		grow(crews, each, &made, n, cost);
	if (made < max)
		grow(crews, each, &made, max, cost);
	(void)json_object_set_new(all, "islands", json_integer((json_int_t)made));
	(void)json_object_set_new(all, "launchers", json_integer((json_int_t)n_crews));
	(void)json_object_set_new(all, "cost_at", cost);
	(void)json_object_set_new(
		all, "kib_each",
		json_real(((double)before - (double)available_kib()) / (double)made));
	(void)json_object_set_new(all, "end_us", json_real(end_crews(crews, n_crews)));
	return print_json(all);
}
