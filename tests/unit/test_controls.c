/*
 * What each set-up step is for: it is left out, and the island refuses itself, or an
 * attack succeeds that is refused when the step is there. Where neither can be
 * shown, the row says what is lost, or why there is a second line of defence. Needs
 * root; some are shown as an ordinary user, whose one id is init's as well.
 */
#include "base/attr.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"
#include "engine/pipes.h"
#include "policy/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <grp.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define USER          54397u
#define POSSESSOR_ALL 0x3f000000
#define TEXT_MAX      4096
#define END_MS        20000
#define TIED_MS       2000
#define SCOPES_ABI    6 /* Landlock knows signals from here on */

enum proof {
	REFUSED, /* the island refuses itself: text is a part of why */
	ATTACK,  /* line prints text where the step is missing, and nothing like it otherwise */
	LOSS,    /* no attack: a function is lost, and the line prints text no more */
	SECOND,  /* no attack: what it is behind; text says that */
	ORPHAN,  /* the island outlives its launcher */
};

struct control {
	const char *step;
	enum proof proof;
	const char *text;
	const char *line;
	bool as_user;
	const char *also; /* a step that hides it, left out in both cases */
};

#define REFUSES(s, t)                                      \
	{                                                  \
		.step = (s), .proof = REFUSED, .text = (t) \
	}
#define ATTACKED(s, t, l)                                              \
	{                                                              \
		.step = (s), .proof = ATTACK, .text = (t), .line = (l) \
	}
#define LOST(s, t, l)                                                \
	{                                                            \
		.step = (s), .proof = LOSS, .text = (t), .line = (l) \
	}
#define BEHIND(s, t)                                      \
	{                                                 \
		.step = (s), .proof = SECOND, .text = (t) \
	}

static const struct control controls[] = {
	{.step = "launcher", .proof = ORPHAN, .line = "sleep 60", .as_user = true},
	REFUSES("network", "net namespace"),
	ATTACKED("hostname", "", "cat /proc/sys/kernel/hostname"), /* the host's: see shows() */
	REFUSES("cgroup", "the cgroups"),
	REFUSES("cgroup namespace", "cgroup namespace"),
	REFUSES("ids", ""),
	BEHIND("host directories", "what \"mounts\" places was not opened"),
	REFUSES("root", ""),
	BEHIND("mount points", "\"mounts\" fails where there is no place for one"),
	REFUSES("read-only root", "read-only root"),
	LOST("devices", "device", "test -c /dev/null && echo device"),
	REFUSES("proc", ""),
	ATTACKED("proc masks", "symbols", "read -r x </proc/kallsyms && echo symbols"),
	REFUSES("scratch", ""),
	LOST("machine", "sized", "test -e /sys/devices/system/cpu/online && echo sized"),
	LOST("terminals", "terminals", "test -e /dev/pts/ptmx && echo terminals"),
	BEHIND("mounts", "what was asked for is not there, and nothing else is"),
	REFUSES("pivot", ""),
	{.step = "keyring",
	 .proof = ATTACK,
	 .text = "cay-test-key",
	 .line = "cat /proc/keys",
	 .as_user = true,
	 .also = "proc masks"},
	REFUSES("rlimits", "resource limits"),
	LOST("cpus", "one", "test $(nproc) = 1 && echo one"),
	REFUSES("bounding set", "capability sets"),
	BEHIND("securebits", "no set has a capability that root's id could bring back"),
	REFUSES("no new privileges", ""),
	{.step = "shut init", .proof = REFUSED, .text = "init's shut memory", .as_user = true},
	REFUSES("seccomp", "system call filter"),
	BEHIND("command cgroup", "it is below the island's own, which holds the limits"),
	ATTACKED("session", "typed", "echo attack >/dev/tty && echo typed"),
	REFUSES("user", "user"),
	{.step = "capabilities", .proof = REFUSED, .text = "capability sets", .as_user = true},
	BEHIND("terminal", "without it standard input stays the socket it came as"),
	LOST("stdio", "heard", "echo heard"),
	{.step = "landlock",
	 .proof = ATTACK,
	 .text = "reached",
	 .line = "kill -0 1 && echo reached",
	 .as_user = true},
	BEHIND("fds", "the launcher's are closed at the clone, the island's own by exec"),
	LOST("workdir", "/workspace", "pwd"),
};

static uint64_t step_bit(const char *name)
{
	for (unsigned n = 0; n < n_island_steps; n++)
		if (name && strcmp(island_steps[n].name, name) == 0)
			return 1ull << n;
	return 0;
}

static const struct control *control_of(const char *step)
{
	for (size_t n = 0; n < ARRAY_LEN(controls); n++)
		if (strcmp(controls[n].step, step) == 0)
			return &controls[n];
	return NULL;
}

static struct plan *make_plan(const char *line)
{
	struct spec spec = {.kind = SPEC_ARGV, .allow_degraded = true};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	if (strv_add(&spec.args, "/bin/sh") < 0 || strv_add(&spec.args, "-c") < 0 ||
	    strv_add(&spec.args, line) < 0 ||
	    plan_make(&spec, &settings, NULL, NULL, NULL, &plan, &err) < 0)
		abort();
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

/* What a careless caller has: a key, a terminal. */
static void be_careless(bool as_user)
{
	long key;

	if (as_user && (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 ||
			setresuid(USER, USER, USER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0))
		abort();
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "cay-test", 0, 0, 0) < 0)
		return; /* a kernel without keys */
	key = syscall(SYS_add_key, "user", "cay-test-key", "x", 1, KEY_SPEC_SESSION_KEYRING);
	/* Of its user's keys one sees others, too; this one is for who has the keyring. */
	if (key < 0 || syscall(SYS_keyctl, KEYCTL_SETPERM, key, POSSESSOR_ALL) < 0)
		abort();
}

/* In the child: runs the line without the steps; what it prints, or the refusal, goes to out. */
static void run_line(const struct control *c, uint64_t skip, int out)
{
	struct mount_rules no_rules = {0};
	struct pipes pipes = PIPES_NONE;
	struct plan *plan = make_plan(c->line ? c->line : ":");
	struct launched island;
	struct launcher l;
	struct usage usage;
	struct cay_error err;
	struct pollfd end = {.events = POLLIN};
	char text[TEXT_MAX];
	ssize_t n;

	be_careless(c->as_user);
	launcher_init(&l, &no_rules);
	l.skip_steps = skip;
	if (pipes_open(&pipes, 0, &err) < 0 ||
	    launcher_start(&l, plan, pipes.theirs, false, &island, &err) < 0) {
		(void)dprintf(out, "refused: %s", err.text);
		return;
	}
	pipes_close_theirs(&pipes);
	if (c->proof == ORPHAN) {
		(void)dprintf(out, "%d", (int)island.pid);
		(void)raise(SIGKILL);
	}
	(void)fd_set_nonblock(pipes.ours[1], 0);
	while ((n = read(pipes.ours[1], text, sizeof(text))) > 0)
		(void)fd_write_all(out, text, (size_t)n);
	end.fd = island.pidfd;
	(void)poll(&end, 1, END_MS);
	launched_kill(&island);
	launched_reap(&island, &usage);
	launcher_done(&l);
}

/* On a terminal of its own, which is the child's controlling one. */
static void without(const struct control *c, uint64_t skip, char *ret)
{
	int ends[2], master, len = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = forkpty(&master, NULL, NULL, NULL);
	if (pid == 0) {
		(void)close(ends[0]);
		run_line(c, skip, ends[1]);
		_exit(0);
	}
	assert_true(pid > 0);
	(void)close(ends[1]);
	while (len < TEXT_MAX - 1 &&
	       (n = read(ends[0], ret + len, (size_t)(TEXT_MAX - 1 - len))) > 0)
		len += (int)n;
	ret[len] = '\0';
	(void)close(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(master);
}

/* Whether the process lives on; it is ended in any case. */
static bool outlives(pid_t pid)
{
	_cleanup_(fd_closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};

	if (fd < 0 || poll(&end, 1, TIED_MS) != 0)
		return false;
	(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	return true;
}

static bool shows(const struct control *c, const char *text)
{
	char name[256] = "";

	if (c->proof == ORPHAN)
		return outlives((pid_t)strtol(text, NULL, 10));
	if (strcmp(c->step, "hostname") == 0) {
		(void)gethostname(name, sizeof(name) - 1);
		return strncmp(text, name, strlen(name)) == 0;
	}
	return strstr(text, c->text) != NULL;
}

static void check(const struct control *c)
{
	uint64_t also = step_bit(c->also);
	char with[TEXT_MAX], missing[TEXT_MAX];

	if (c->proof == SECOND) {
		print_message("%s: not shown: %s\n", c->step, c->text);
		return;
	}
	if (strcmp(c->step, "landlock") == 0 && landlock_abi() < SCOPES_ABI) {
		print_message("%s: this kernel's has no scopes\n", c->step);
		return;
	}
	if (strcmp(c->step, "cpus") == 0 && sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		print_message("%s: this machine has only one\n", c->step);
		return;
	}
	without(c, also, with);
	without(c, also | step_bit(c->step), missing);
	print_message("%s: %.60s\n", c->step, missing);
	if (strncmp(with, "refused", 7) == 0)
		fail_msg("with all steps: %s", with);
	if (c->proof == REFUSED &&
	    (strncmp(missing, "refused: ", 9) != 0 || !strstr(missing, c->text)))
		fail_msg("without '%s': %s", c->step, missing);
	if (c->proof == LOSS && (!shows(c, with) || shows(c, missing)))
		fail_msg("'%s': '%s', and without it '%s'", c->step, with, missing);
	if ((c->proof == ATTACK || c->proof == ORPHAN) && (shows(c, with) || !shows(c, missing)))
		fail_msg("'%s': '%s', and without it '%s'", c->step, with, missing);
}

static void each_step_is_for_something(void **state _unused_)
{
	for (unsigned n = 0; n < n_island_steps; n++) {
		const struct control *c = control_of(island_steps[n].name);

		if (!c)
			fail_msg("nobody said what the step '%s' is for", island_steps[n].name);
		else
			check(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_step_is_for_something)};

	if (geteuid() != 0) {
		(void)fprintf(stderr, "test_controls needs root: islands with a range of ids\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
