#include "engine/native/hostdir.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must_work.h"

/*
 * Theory: each test runs in a forked child with a mount namespace of its own,
 * on a tmpfs at `base`, which is all that the rules allow; base/secret is what
 * they forbid. In the child cmocka's assertions can't be used: MUST() says which
 * line failed, and the parent sees the exit code.
 */
static char base[] = "/tmp/cay-test-hostdir-XXXXXX";

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c)) {                                                                        \
			(void)dprintf(2, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #c, errno); \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static struct mount_rules rules;

/* base/name; four of them can be in use at a time. */
static const char *at(const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	(void)snprintf(path, PATH_MAX, "%s/%s", base, name);
	return path;
}

static void make_dir(const char *name)
{
	MUST(mkdir(at(name), 0755) == 0);
}

static void bind_mount(const char *from, const char *to)
{
	MUST(syscall(SYS_mount, at(from), at(to), NULL, MS_BIND | MS_REC, NULL) == 0);
}

static void mount_tmpfs(const char *path)
{
	MUST(syscall(SYS_mount, "tmpfs", path, "tmpfs", 0, NULL) == 0);
}

static void prepare(void)
{
	MUST(unshare(CLONE_NEWNS) == 0 && sys_make_mounts_private() == 0);
	mount_tmpfs(base);
	make_dir("ok");
	make_dir("ok/sub");
	make_dir("secret");
	make_dir("secret/sub");
	MUST(strv_add(&rules.read, base) == 0 && strv_add(&rules.forbid, at("secret")) == 0);
	MUST(strv_add(&rules.forbid, "/proc") == 0);
}

static void in_namespace(void (*fn)(void))
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		CANT_RUN("needs root");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prepare();
		fn();
		mount_rules_done(&rules);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int open_as(const char *source, enum access access, enum mount_kind kind, struct hostdir *h,
		   struct cay_error *err)
{
	const struct plan_mount m = {.access = (uint8_t)access, .kind = (uint8_t)kind};

	*h = HOSTDIR_NONE;
	*err = (struct cay_error){0};
	return hostdir_open(&rules, source, &m, h, err);
}

static void opens(const char *source, const char *path)
{
	struct cay_error err;
	struct hostdir h;
	struct stat st;

	if (open_as(source, ACCESS_READ, MOUNT_REQUESTED, &h, &err) < 0) {
		(void)dprintf(2, "%s: %s\n", source, err.text);
		_exit(1);
	}
	MUST(strcmp(h.path, path) == 0);
	MUST(stat(path, &st) == 0 && st.st_dev == h.dev && st.st_ino == h.ino);
	MUST(h.directory && h.fd >= 0 && h.tree == -1);
	MUST(fcntl(h.fd, F_GETFD) & FD_CLOEXEC);
	hostdir_done(&h);
	MUST(h.fd == -1);
}

static void refuses_as(const char *source, enum access access, enum mount_kind kind,
		       enum cay_code code, const char *words)
{
	struct cay_error err;
	struct hostdir h;

	if (open_as(source, access, kind, &h, &err) == 0 || err.code != code ||
	    !strstr(err.text, words)) {
		(void)dprintf(2, "%s: '%s', %s\n", source, words,
			      h.fd >= 0 ? "was opened" : err.text);
		_exit(1);
	}
	MUST(h.fd == -1 && h.tree == -1);
}

static void refuses(const char *source, const char *words)
{
	refuses_as(source, ACCESS_READ, MOUNT_REQUESTED, CAY_E_POLICY, words);
}

static void plain(void)
{
	opens(at("ok"), at("ok"));
	opens(at("ok/sub"), at("ok/sub"));
	opens(at("ok/../ok/./sub/"), at("ok/sub"));
	MUST(chdir(at("ok")) == 0);
	opens("sub", at("ok/sub"));
	opens(".", at("ok"));
	MUST(chdir("/") == 0);
	refuses(at("secret"), "is forbidden");
	refuses(at("secret/sub"), "is forbidden");
	refuses(at("ok/../secret"), "is forbidden");
	refuses(base, "it holds");
	refuses("/usr", "is not allowed");
	refuses_as(at("ok"), ACCESS_WRITE, MOUNT_REQUESTED, CAY_E_POLICY,
		   "only be mounted read-only");
	refuses_as(at("none"), ACCESS_READ, MOUNT_REQUESTED, CAY_E_NOT_FOUND, "none");
}

static void judges_plain_directories(void **state)
{
	(void)state;
	in_namespace(plain);
}

static void file_sources(void)
{
	MUST(fd_create_file_at(AT_FDCWD, at("ok/f"), "x", 1, 0644) == 0);
	MUST(fd_create_file_at(AT_FDCWD, at("secret/f"), "x", 1, 0644) == 0);
	refuses_as(at("ok/f"), ACCESS_READ, MOUNT_REQUESTED, CAY_E_INVALID, "is no directory");
	refuses(at("secret/f"),
		"is forbidden"); /* whether it is a directory is nobody's business */
	MUST(mkfifo(at("ok/fifo"), 0644) == 0);
	refuses_as(at("ok/fifo"), ACCESS_READ, MOUNT_REQUESTED, CAY_E_INVALID, "is no directory");
}

static void files_are_no_directories(void **state)
{
	(void)state;
	in_namespace(file_sources);
}

static void links(void)
{
	MUST(symlink("ok", at("link")) == 0);
	MUST(symlink("secret", at("ok/../to_secret")) == 0);
	MUST(symlink("../secret/sub", at("ok/inner")) == 0);
	MUST(symlink("/usr", at("to_usr")) == 0);
	MUST(symlink("loop", at("loop")) == 0);
	opens(at("link"), at("ok"));
	opens(at("link/sub"), at("ok/sub"));
	refuses(at("to_secret"), "secret is forbidden");
	refuses(at("to_secret/sub"), "secret/sub is forbidden");
	refuses(at("ok/inner"), "secret/sub is forbidden");
	refuses(at("to_usr"), "mount of /usr is not allowed");
	refuses(at("loop"), "loop");
}

static void links_are_resolved_first(void **state)
{
	(void)state;
	in_namespace(links);
}

static void magic(void)
{
	char path[PATH_MAX];
	int fd = open(at("ok"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	MUST(fd >= 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	refuses(path, "magic link");
	(void)snprintf(path, sizeof(path), "/proc/self/root%s", at("ok"));
	refuses(path, "magic link");
	refuses("/proc/self/root", "magic link");
	MUST(chdir(at("ok")) == 0);
	refuses("/proc/self/cwd", "magic link");
	refuses("/proc/self/cwd/sub", "magic link");
	/* Nor by way of a link that is none. */
	MUST(symlink("/proc/self/root", at("door")) == 0);
	(void)snprintf(path, sizeof(path), "%s%s", at("door"), at("ok"));
	refuses(path, "magic link");
	refuses("/proc/self", "/proc");
}

static void magic_links_are_refused(void **state)
{
	(void)state;
	in_namespace(magic);
}

static void alias(void)
{
	make_dir("alias");
	make_dir("p");
	make_dir("p/secret2");
	make_dir("p/fine");
	make_dir("alias2");
	MUST(strv_add(&rules.forbid, at("p/secret2")) == 0);
	opens(at("alias"), at("alias")); /* before: it is the mount that makes the difference */
	bind_mount("secret", "alias");
	refuses(at("alias"), "secret is forbidden");
	refuses(at("alias/sub"), "secret/sub is forbidden");
	/* A directory above it under another name. */
	bind_mount("p", "alias2");
	refuses(at("alias2"), "it holds");
	refuses(at("alias2/secret2"), "p/secret2 is forbidden");
	opens(at("alias2/fine"), at("alias2/fine"));
}

static void aliases_of_forbidden_ones(void **state)
{
	(void)state;
	in_namespace(alias);
}

/* The space, tab, newline and backslash that mountinfo writes as octal numbers. */
static void odd_names(void)
{
	static const char *const names[] = {"a b", "a\tb", "a\nb", "a\\b", "a\\040b", " a", "a#b"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char below[64];

		make_dir(names[i]);
		opens(at(names[i]), at(names[i]));
		bind_mount("secret", names[i]);
		refuses(at(names[i]), "is forbidden");
		(void)snprintf(below, sizeof(below), "%s/sub", names[i]);
		refuses(at(below), "is forbidden");
	}
	/* And where the forbidden one has such a name. */
	make_dir("my keys");
	make_dir("alias");
	MUST(strv_add(&rules.forbid, at("my keys")) == 0);
	bind_mount("my keys", "alias");
	refuses(at("alias"), "my keys is forbidden");
}

static void names_with_escapes(void **state)
{
	(void)state;
	in_namespace(odd_names);
}

static void below(void)
{
	make_dir("ok/sub/deep");
	make_dir("other");
	make_dir("ok/other");
	bind_mount("other", "ok/other");
	opens(at("ok"), at("ok")); /* a mount below is none of our business, unless... */
	bind_mount("secret/sub", "ok/sub/deep");
	refuses(at("ok"), "is mounted below");
	refuses(at("ok/sub"), "is mounted below");
	refuses(at("ok/sub/deep"), "secret/sub is forbidden");
	opens(at("ok/other"), at("ok/other"));
}

static void forbidden_ones_mounted_below(void **state)
{
	(void)state;
	in_namespace(below);
}

/* The forbidden name is itself a mount of something that lies elsewhere. */
static void elsewhere(void)
{
	make_dir("store");
	make_dir("store/inner");
	make_dir("store/inner/x");
	make_dir("store/fine");
	bind_mount("store/inner", "secret");
	refuses(at("store/inner"), "secret is forbidden");
	refuses(at("store/inner/x"), "secret/x is forbidden");
	refuses(at("store"), "secret is forbidden");
	opens(at("store/fine"), at("store/fine"));
}

static void forbidden_names_that_are_mounts(void **state)
{
	(void)state;
	in_namespace(elsewhere);
}

/*
 * The mount a directory lies on is known by its fd. Its path does not say: here
 * a mount at x/y is covered by a later one at x, and still is the longest mount
 * point that fits.
 */
static void covered(void)
{
	make_dir("x");
	make_dir("x/y");
	make_dir("p");
	make_dir("p/y");
	MUST(strv_add(&rules.forbid, at("p/y")) == 0);
	mount_tmpfs(at("x/y"));
	bind_mount("p", "x");
	refuses(at("x/y"), "p/y is forbidden");
}

static void covered_mounts(void **state)
{
	(void)state;
	in_namespace(covered);
}

static void other_names(void)
{
	struct cay_error err;

	make_dir("real");
	make_dir("real/sub");
	make_dir("home");
	MUST(symlink("../real", at("home/.ssh")) == 0);
	MUST(strv_add(&rules.forbid, at("home/.ssh")) == 0);
	MUST(strv_add(&rules.forbid, at("link/none/x")) == 0);
	MUST(symlink("ok", at("link")) == 0);
	MUST(hostdir_resolve_rules(&rules, &err) == 0);
	refuses(at("real"), "real is forbidden");
	refuses(at("real/sub"), "real/sub is forbidden");
	refuses(at("home"), "it holds");
	refuses(at("ok"), "it holds"); /* link/none/x, which may come to be */
	opens(at("ok/sub"), at("ok/sub"));
	/* A link's name allows nothing: who controls the link could widen the list. */
	strv_done(&rules.read);
	MUST(symlink("/usr/share", at("share")) == 0);
	MUST(strv_add(&rules.read, at("share")) == 0);
	refuses("/usr/share", "is not allowed");
	MUST(hostdir_resolve_rules(&rules, &err) == 0);
	refuses(at("share"), "is not allowed");
	refuses("/usr/lib", "is not allowed");
}

static void rules_are_resolved(void **state)
{
	(void)state;
	in_namespace(other_names);
}

static int tree_of(const char *name, void (*meanwhile)(void), struct cay_error *err)
{
	struct hostdir h;
	int tree = -1, r;

	MUST(open_as(at(name), ACCESS_READ, MOUNT_REQUESTED, &h, err) == 0);
	if (meanwhile)
		meanwhile();
	r = hostdir_tree(&h, ACCESS_READ, &tree, err);
	hostdir_done(&h);
	MUST((r == 0) == (tree >= 0));
	return tree;
}

static void replace_by_directory(void)
{
	MUST(rename(at("ok"), at("old")) == 0);
	make_dir("ok");
}

static void replace_by_link(void)
{
	MUST(rename(at("ok"), at("old2")) == 0);
	MUST(symlink("old2", at("ok")) == 0);
}

static void replace_by_mount(void)
{
	bind_mount("secret", "ok");
}

static void replaced(void)
{
	struct cay_error err;
	int tree = tree_of("ok", NULL, &err);
	struct stat st;

	MUST(tree >= 0);
	MUST(fcntl(tree, F_GETFD) & FD_CLOEXEC);
	MUST(fstatat(tree, "sub", &st, 0) == 0);
	MUST(mkdirat(tree, "new", 0755) < 0 && errno == EROFS);
	fd_closep(&tree);
	MUST(tree_of("ok", replace_by_directory, &err) < 0);
	MUST(err.code == CAY_E_POLICY && strstr(err.text, "was replaced"));
	/* The same directory by a link, too: what was judged was no link. */
	MUST(tree_of("ok", replace_by_link, &err) < 0);
	MUST(err.code == CAY_E_POLICY);
	MUST(unlink(at("ok")) == 0);
	make_dir("ok");
	MUST(tree_of("ok", replace_by_mount, &err) < 0);
	MUST(err.code == CAY_E_POLICY && strstr(err.text, "was replaced"));
}

static void replaced_directories_are_refused(void **state)
{
	(void)state;
	in_namespace(replaced);
}

static void operators(void)
{
	make_dir("opt");
	MUST(strv_add(&rules.operators, at("opt")) == 0);
	MUST(strv_add(&rules.operators, at("none")) == 0);
	MUST(symlink("opt", at("opt_link")) == 0);
	refuses_as(at("ok"), ACCESS_READ, MOUNT_OPERATOR, CAY_E_POLICY, "no runtime's directory");
	refuses_as(at("secret"), ACCESS_READ, MOUNT_OPERATOR, CAY_E_POLICY,
		   "no runtime's directory");
	for (int i = 0; i < 2; i++) {
		struct cay_error err;
		struct hostdir h;

		MUST(open_as(at(i ? "opt" : "opt_link"), ACCESS_READ, MOUNT_OPERATOR, &h, &err) ==
		     0);
		MUST(strcmp(h.path, at("opt")) == 0);
		hostdir_done(&h);
	}
}

static void operators_directories(void **state)
{
	(void)state;
	in_namespace(operators);
}

/* A copy whose owner is another, and read-only all the way down. */
static void idmapped(void)
{
	const uid_t uid = 200000, gid = 300000;
	struct cay_error err;
	struct hostdir h;
	struct stat st;
	int fd;

	make_dir("ok/mnt");
	mount_tmpfs(at("ok/mnt"));
	MUST(chown(at("ok"), 1234, 2345) == 0 && chown(at("ok/sub"), 1234, 2345) == 0);
	MUST(strv_add(&rules.write, at("ok")) == 0);
	MUST(open_as(at("ok"), ACCESS_READ, MOUNT_REQUESTED, &h, &err) == 0);
	MUST(hostdir_idmap(&h, ACCESS_READ, true, uid, gid, &err) == 0);
	MUST(fstatat(h.tree, "sub", &st, 0) == 0 && st.st_uid == uid && st.st_gid == gid);
	MUST(mkdirat(h.tree, "x", 0755) < 0 && errno == EROFS);
	MUST(mkdirat(h.tree, "mnt/x", 0755) < 0 && errno == EROFS);
	hostdir_done(&h);
	MUST(h.tree == -1);
	/* Writable: what that user makes belongs to the directory's owner. */
	MUST(open_as(at("ok"), ACCESS_WRITE, MOUNT_REQUESTED, &h, &err) == 0);
	MUST(hostdir_idmap(&h, ACCESS_WRITE, true, uid, gid, &err) == 0);
	MUST(sys_setresgid((gid_t)-1, gid, (gid_t)-1) == 0 &&
	     sys_setresuid((uid_t)-1, uid, (uid_t)-1) == 0);
	fd = openat(h.tree, "made", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	MUST(fd >= 0);
	(void)close(fd);
	MUST(sys_setresuid((uid_t)-1, 0, (uid_t)-1) == 0 &&
	     sys_setresgid((gid_t)-1, 0, (gid_t)-1) == 0);
	MUST(stat(at("ok/made"), &st) == 0 && st.st_uid == 1234 && st.st_gid == 2345);
	hostdir_done(&h);
}

static void copies_are_idmapped(void **state)
{
	(void)state;
	in_namespace(idmapped);
}

static int make_base(void **state)
{
	(void)state;
	return mkdtemp(base) && chmod(base, 0755) == 0 ? 0 : -1;
}

static int remove_base(void **state)
{
	(void)state;
	return rmdir(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(judges_plain_directories),
		cmocka_unit_test(files_are_no_directories),
		cmocka_unit_test(links_are_resolved_first),
		cmocka_unit_test(magic_links_are_refused),
		cmocka_unit_test(aliases_of_forbidden_ones),
		cmocka_unit_test(names_with_escapes),
		cmocka_unit_test(forbidden_ones_mounted_below),
		cmocka_unit_test(forbidden_names_that_are_mounts),
		cmocka_unit_test(covered_mounts),
		cmocka_unit_test(rules_are_resolved),
		cmocka_unit_test(replaced_directories_are_refused),
		cmocka_unit_test(operators_directories),
		cmocka_unit_test(copies_are_idmapped),
	};

	return cmocka_run_group_tests(tests, make_base, remove_base);
}
