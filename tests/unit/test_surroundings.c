#include "engine/native/surroundings.h"

#include "base/attr.h"
#include "base/fd.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* A machine as files: what is not written into root is not there. */
static char root[PATH_MAX];

static int setup(void **state _unused_)
{
	(void)snprintf(root, sizeof(root), "/tmp/cay-test-around-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int forget(const char *path, const struct stat *st _unused_, int kind _unused_,
		  struct FTW *f _unused_)
{
	return remove(path);
}

static int teardown(void **state _unused_)
{
	return nftw(root, forget, 8, FTW_DEPTH | FTW_PHYS);
}

static void has(const char *file, const char *text)
{
	char path[PATH_MAX * 2];

	(void)snprintf(path, sizeof(path), "%s/%s", root, file);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0755);
		*slash = '/';
	}
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static struct surroundings look(void)
{
	struct surroundings s;

	surroundings_read(&s, root);
	s.privileged = false; /* whoever runs the test */
	return s;
}

static void advises(const struct surroundings *s, enum lacking what, const char *words)
{
	char text[512];

	surroundings_advise(s, what, text, sizeof(text));
	if (!strstr(text, words))
		fail_msg("'%s' is not in: %s", words, text);
}

static void flags_are(const struct surroundings *s, bool limited, const char *expected)
{
	struct buf b = BUF(512);

	assert_int_equal(surroundings_flags(s, limited, &b), 0);
	assert_string_equal(buf_str(&b), expected);
	buf_done(&b);
}

static void test_nothing_around(void **state _unused_)
{
	struct surroundings s = look();

	assert_false(s.filtered || s.proc_covered || s.cgroups_read_only);
	assert_string_equal(s.profile, "");
	advises(&s, LACKING_NAMESPACES, "Linux 5.14");
	advises(&s, LACKING_CGROUPS, "Delegate=yes");
	advises(&s, LACKING_FILTER, "CONFIG_SECCOMP_FILTER");
	flags_are(&s, false, "");
}

#define APPARMOR_SYSCTL "proc/sys/kernel/apparmor_restrict_unprivileged_userns"

static void test_ubuntu(void **state _unused_)
{
	struct surroundings s;

	has(APPARMOR_SYSCTL, "0\n");
	s = look();
	assert_false(s.namespaces_bound);
	has(APPARMOR_SYSCTL, "1\n");
	has("sys/module/apparmor/parameters/enabled", "Y\n");
	has("proc/self/attr/current", "unconfined\n");
	s = look();
	assert_true(s.namespaces_bound);
	advises(&s, LACKING_NAMESPACES, "/etc/apparmor.d/cay");
	has("proc/self/attr/current", "cay (unconfined)\n"); /* as our own profile makes it */
	assert_string_equal(look().profile, "");
	advises(&s, LACKING_NAMESPACES, "apparmor_parser -r");
	advises(&s, LACKING_PROC, "apparmor_parser -r"); /* granted, but without rights */
	s.privileged = true;                             /* root is not restricted */
	advises(&s, LACKING_NAMESPACES, "Linux 5.14");
}

static void test_switches(void **state _unused_)
{
	struct surroundings s;

	has("proc/sys/kernel/unprivileged_userns_clone", "0\n");
	s = look();
	advises(&s, LACKING_NAMESPACES, "kernel.unprivileged_userns_clone is 0");
	has("proc/sys/user/max_user_namespaces", "0\n");
	s = look();
	advises(&s, LACKING_NAMESPACES, "user.max_user_namespaces is 0");
}

static const char docker_mounts[] =
	"179 178 0:52 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
	"182 178 0:55 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n"
	"183 182 0:56 /docker/1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
	"184 179 0:52 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw\n";

static void test_docker(void **state _unused_)
{
	struct surroundings s;

	has("proc/self/mountinfo", docker_mounts);
	has("proc/self/status", "Name:\tcay\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n");
	has("sys/module/apparmor/parameters/enabled", "Y\n");
	has("proc/self/attr/current", "docker-default (enforce)\n");
	s = look();
	assert_true(s.filtered && s.proc_covered && s.cgroups_read_only);
	assert_string_equal(s.profile, "docker-default");
	advises(&s, LACKING_NAMESPACES, "seccomp=unconfined");
	advises(&s, LACKING_PROC, "systempaths=unconfined");
	advises(&s, LACKING_CGROUPS, "run as root of the container");
	flags_are(&s, false,
		  "--security-opt seccomp=unconfined --security-opt systempaths=unconfined "
		  "--security-opt apparmor=unconfined "
		  "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw");
	s.filtered = false;
	advises(&s, LACKING_NAMESPACES, "apparmor=unconfined");
	s.privileged = true;
	advises(&s, LACKING_CGROUPS, "--cgroupns=host");
	advises(&s, LACKING_MOUNTS, "--cap-add SYS_ADMIN");
	s.admin = true;
	advises(&s, LACKING_MOUNTS, "this file system");
}

/* A hybrid machine: the directory of all hierarchies is read-only, they are not. */
static void test_machine(void **state _unused_)
{
	struct surroundings s;

	has("proc/self/mountinfo",
	    "30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
	    "31 30 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
	    "35 22 0:31 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw\n");
	has("proc/self/status", "Name:\tcay\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n");
	s = look();
	assert_true(s.admin);
	flags_are(&s, false, ""); /* an ordinary user without a cgroup is no container's matter */
	assert_false(s.filtered || s.proc_covered || s.cgroups_read_only);
}

static void test_other_security_module(void **state _unused_)
{
	struct surroundings s;

	has("proc/self/attr/current", "unconfined_u:unconfined_r:unconfined_t:s0\n");
	s = look();
	assert_string_equal(s.profile, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nothing_around), TEST(test_ubuntu),  TEST(test_switches),
		TEST(test_docker),         TEST(test_machine), TEST(test_other_security_module),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
