/*
 * Each allocation of a run fails once: every time there is an error that says so,
 * or the run is as it always is; never a crash, a leak (with ASan), or anything left
 * behind. Needs root.
 *
 * malloc() and its like are wrapped at link time (tests/meson.build), in our own code
 * and through json_set_alloc_funcs() in jansson; the C library's own are left alone.
 */
#include "../launch.h"

#include "base/attr.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"
#include "policy/plan.h"
#include "spec/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_FAILED 125

/* Each child of a sanitized test looks for leaks when it ends, which takes its time. */
#ifdef __SANITIZE_ADDRESS__
#define STEP 9u
#else
#define STEP 1u
#endif

#define OUTPUT_MAX (64u << 10)

#define GOT "/tmp/cay-test-no-memory"

static unsigned fail_at; /* 0: none fails */

/* Shared by all processes of a run, so that one allocation fails, not one of each. */
static struct {
	unsigned allocations;
	bool failed;
} * seen;

static bool is_the_one(void)
{
	if (fail_at == 0 || __atomic_add_fetch(&seen->allocations, 1, __ATOMIC_RELAXED) != fail_at)
		return false;
	seen->failed = true;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

void *__wrap_malloc(size_t size)
{
	return is_the_one() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_the_one() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return is_the_one() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return is_the_one() ? NULL : __real_strdup(s);
}

/* What a child does, and what it prints if all is well. */
struct work {
	const char *name;
	int (*run)(void);
	const char *prints;
};

static int run_verb(char **argv)
{
	int argc = 0, code;

	while (argv[argc])
		argc++;
	code = verb_find(argv[0])->run(argc, argv);
	return fflush(stdout) == 0 ? code : EXIT_FAILED;
}

#define VERB(name, ...)                                    \
	static int name(void)                              \
	{                                                  \
		static char *argv[] = {__VA_ARGS__, NULL}; \
		return run_verb(argv);                     \
	}

VERB(run_command, "run", "--", "/bin/echo", "42")
VERB(run_code, "run", "--json", "-e", "A=B", "-l", "bash", "-c", "echo 42")
VERB(run_files, "run", "--put", "/etc/group:n", "--get", "n:" GOT, "--", "echo", "42")
VERB(run_mounts, "run", "-v", "data:/data", "--timeout", "9", "-m", "64m", "--", "/bin/echo", "42")
VERB(run_dry, "run", "--dry-run", "-c", "print(42)")
VERB(show_config, "config", "show")
VERB(show_runtimes, "runtimes")

/* The resident launcher, with everything made ahead. */
static int run_resident(void)
{
	struct spec spec = {.kind = SPEC_ARGV};
	struct mount_rules no_rules = {0};
	struct settings settings;
	struct pipes pipes = PIPES_NONE;
	struct plan *plan = NULL;
	struct launched island;
	struct launcher l;
	struct usage usage;
	struct cay_error err;
	char text[16] = "";
	int r;

	settings_init(&settings);
	r = strv_add(&spec.args, "/bin/echo") < 0 || strv_add(&spec.args, "42") < 0
		    ? cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "add")
		    : plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err);
	launcher_init(&l, &no_rules);
	if (r == 0 &&
	    (launcher_keep_cgroups(&l, 1, &err) < 0 || launcher_make_template(&l, &err) < 0 ||
	     launcher_make_ahead(&l, plan, 2, &err) < 0 || pipes_open(&pipes, 0, &err) < 0 ||
	     launch_live(&l, plan, pipes.theirs, &island, &err) < 0))
		r = -1;
	else if (r == 0) {
		pipes_close_theirs(&pipes);
		(void)fd_set_nonblock(pipes.ours[1], 0);
		(void)!read(pipes.ours[1], text, sizeof(text) - 1);
		launched_reap(&island, &usage);
		(void)printf("%s", text);
	}
	if (r < 0)
		(void)fprintf(stderr, "cay: %s\n", err.text);
	pipes_done(&pipes);
	launcher_done(&l);
	free(plan);
	spec_done(&spec);
	settings_done(&settings);
	return r < 0 ? EXIT_FAILED : 0;
}

/* What the daemon is asked. */
static int read_request(void)
{
	static const char text[] =
		"{\"code\":\"x\",\"language\":\"js\",\"version\":\"20\",\"args\":[\"a\"],"
		"\"stdin_base64\":\"AAEC\",\"env\":{\"A\":\"b\"},\"get\":[\"*\"],"
		"\"files\":[{\"path\":\"f\",\"text\":\"t\"},{\"path\":\"g\",\"data\":\"AA==\"}],"
		"\"mounts\":[{\"source\":\"/a\",\"target\":\"/b\"}],\"labels\":{\"l\":\"m\"},"
		"\"workspace\":{\"source\":\"/w\"},\"limits\":{\"cpus\":0.5},\"workdir\":\"d\"}";
	struct request_body q;
	struct cay_error err;
	int r = request_parse(&q, REQUEST_RUN, text, sizeof(text) - 1, &err);

	if (r < 0)
		(void)fprintf(stderr, "cay: %s\n", err.text);
	else
		(void)printf("%zu files\n", q.n_files);
	request_body_done(&q);
	return r < 0 || fflush(stdout) != 0 ? EXIT_FAILED : 0;
}

static const struct work works[] = {
	{"a command", run_command, "42"},
	{"code, as JSON", run_code, "42"},
	{"files", run_files, "42"},
	{"mounts", run_mounts, "42"},
	{"dry run", run_dry, "print(42)"},
	{"config", show_config, "memory"},
	{"runtimes", show_runtimes, "python"},
	{"a resident launcher", run_resident, "42"},
	{"a request", read_request, "2 files"},
};

/* In a child, its output to the pipe; never returns. */
_noreturn_ static void work_in_child(const struct work *w, unsigned n, int output)
{
	int null = open("/dev/null", O_RDONLY);

	if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
		_exit(1);
	json_set_alloc_funcs(__wrap_malloc, free);
	fail_at = n;
	exit(w->run());
}

static void read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len + 1 < size && (n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
}

static void assert_nothing_left(pid_t pid)
{
	static const char *const trees[] = {"unified/", "memory/", "pids/", "cpu/", ""};
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(trees); i++)
		for (int serial = 1; serial <= 3; serial++) {
			(void)snprintf(path, sizeof(path), "/sys/fs/cgroup/%scay-%d-%d", trees[i],
				       (int)pid, serial);
			assert_int_not_equal(access(path, F_OK), 0);
		}
}

/* Whether there was an nth allocation to fail. */
static bool work_fails_at(const struct work *w, unsigned n)
{
	static char text[OUTPUT_MAX];
	int ends[2], status;
	pid_t pid;

	seen->allocations = 0;
	seen->failed = false;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		work_in_child(w, n, ends[1]);
	assert_true(pid > 0);
	(void)close(ends[1]);
	read_all(ends[0], text, sizeof(text));
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && strstr(text, w->prints)) {
		assert_nothing_left(pid);
		return seen->failed;
	}
	if (!seen->failed || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_FAILED ||
	    !strstr(text, "cay: "))
		fail_msg("%s, allocation %u: status %x, %s", w->name, n, (unsigned)status, text);
	assert_nothing_left(pid);
	return true;
}

static void each_allocation_fails(void **state _unused_)
{
	for (size_t i = 0; i < ARRAY_LEN(works); i++) {
		const char *soak = getenv("CAY_SOAK");
		unsigned n = 1, step = soak ? 1 : STEP;

		assert_false(work_fails_at(&works[i], 0)); /* it works at all */
		while (work_fails_at(&works[i], n))
			n += step;
		(void)unlink(GOT);
		print_message("%s: %u allocations\n", works[i].name, n - 1);
		assert_true(n > 1);
	}
}

/* A directory that may be mounted, wherever the source lies: in /root, say. */
static int enter_place(void **state _unused_)
{
	static char place[] = "/tmp/cay-test-no-memory-XXXXXX";

	return mkdtemp(place) && chdir(place) == 0 ? mkdir("data", 0755) : -1;
}

static int leave_place(void **state _unused_)
{
	char place[PATH_MAX];

	return getcwd(place, sizeof(place)) && rmdir("data") == 0 ? rmdir(place) : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_no_memory needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, enter_place, leave_place);
}
