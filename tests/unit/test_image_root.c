/*
 * Islands of images: a store of the test's own, with a static shell as the only program. Needs
 * root.
 */
#include "clear.h"
#include "island_run.h"

#include "policy/plan.h"
#include "spec/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define BUSYBOX "/bin/busybox"
#define ID      "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define APP     999u /* the image's own user */

static struct mount_rules rules;
static char store[] = "/tmp/image-root-XXXXXX";
static int roots = -1, tree = -1;
static bool use_template; /* as the daemon's launcher has one */

/* Owners as the store has them. */
static void own(const char *path, unsigned uid)
{
	assert_int_equal(fchownat(tree, path, IMAGE_IDS_FIRST + uid, IMAGE_IDS_FIRST + uid,
				  AT_SYMLINK_NOFOLLOW),
			 0);
}

static void make_dir(const char *path, mode_t mode, unsigned uid)
{
	assert_int_equal(mkdirat(tree, path, 0755), 0);
	assert_int_equal(fchmodat(tree, path, mode, 0), 0);
	own(path, uid);
}

static void make_file(const char *path, const char *text, mode_t mode, unsigned uid)
{
	int fd = openat(tree, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	own(path, uid); /* before the mode: it takes set-id bits away */
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void copy_program(const char *to, mode_t mode)
{
	int in = open(BUSYBOX, O_RDONLY | O_CLOEXEC);
	int out = openat(tree, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	struct stat st;

	assert_true(in >= 0 && out >= 0 && fstat(in, &st) == 0);
	assert_int_equal(copy_file_range(in, NULL, out, NULL, (size_t)st.st_size, 0), st.st_size);
	own(to, 0);
	assert_int_equal(fchmod(out, mode), 0);
	(void)close(in);
	(void)close(out);
}

static int make_store(void **state _unused_)
{
	static const char *const dirs[] = {"bin",  "dev", "etc", "home", "opt",
					   "proc", "run", "sys", "tmp",  "workspace"};
	char path[PATH_MAX];

	assert_non_null(mkdtemp(store));
	(void)snprintf(path, sizeof(path), "%s/roots", store);
	assert_int_equal(mkdir(path, 0700), 0);
	roots = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(roots >= 0);
	assert_int_equal(mkdirat(roots, ID, 0755), 0);
	tree = openat(roots, ID, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree >= 0);
	own(".", 0);
	for (size_t n = 0; n < ARRAY_LEN(dirs); n++)
		make_dir(dirs[n], 0755, 0);
	make_dir("home/app", 0700, APP);
	make_file("home/app/secret", "mine\n", 0600, APP);
	make_file("etc/theirs", "root's\n", 0600, 0);
	make_file("etc/all", "all's\n", 0644, 0);
	copy_program("bin/busybox", 0755);
	copy_program("bin/busybox-set-uid", 04755);
	assert_int_equal(symlinkat("busybox", tree, "bin/sh"), 0);
	assert_int_equal(symlinkat("/tmp", tree, "opt/away"), 0);
	return 0;
}

static int remove_store(void **state _unused_)
{
	(void)close(tree);
	(void)close(roots);
	return chdir(store) < 0 || clear() < 0 ? -1 : rmdir(store);
}

struct request {
	const char *script;
	uint32_t image_uid;
	bool as_root, writable;
	const char *mount; /* SRC:DEST */
};

static struct plan *make_plan(const struct request *q)
{
	struct spec spec = {.kind = SPEC_ARGV, .as_root = q->as_root, .writable = q->writable};
	struct image image = {.uid = q->image_uid, .gid = q->image_uid};
	struct settings settings;
	struct cay_error err;
	struct plan *plan = NULL;

	settings_init(&settings);
	(void)snprintf(image.id, sizeof(image.id), "%s", ID);
	assert_int_equal(strv_add(&spec.args, "/bin/sh"), 0);
	assert_int_equal(strv_add(&spec.args, "-c"), 0);
	assert_int_equal(strv_add(&spec.args, q->script), 0);
	if (q->mount)
		assert_int_equal(spec_add_mount(&spec, q->mount, &err), 0);
	assert_int_equal(plan_make(&spec, &settings, NULL, &image, NULL, &plan, &err), 0);
	assert_int_equal(plan_check(plan, plan->size, &err), 0);
	spec_done(&spec);
	settings_done(&settings);
	return plan;
}

/* The exit code; out has what it wrote. */
static int run_request(const struct request *q, char *out, size_t size)
{
	struct plan *plan = make_plan(q);
	struct isolation iso;
	struct launcher l;
	struct cay_error err;
	int r;

	launcher_init(&l, &rules);
	l.image_store = store;
	if (use_template)
		assert_int_equal(launcher_make_template(&l, &err), 0);
	r = run(&l, plan, &iso, out, size, &err);
	launcher_done(&l);
	free(plan);
	if (r >= 0)
		assert_true(iso.read_only_root == !q->writable);
	return r;
}

static void assert_says(const struct request *q, const char *expected)
{
	char out[4096];

	assert_int_equal(run_request(q, out, sizeof(out)), 0);
	assert_string_equal(out, expected);
}

static void root_is_the_image(void **state _unused_)
{
	assert_says(
		&(struct request){.script = "busybox id -u; busybox ls /; busybox cat /etc/all"},
		"1000\nbin\ndev\netc\nhome\nopt\nproc\nrun\nsys\ntmp\nworkspace\nall's\n");
}

static void root_is_read_only(void **state _unused_)
{
	assert_says(&(struct request){.script =
					      "for d in / /etc /dev /home /proc/sys /sys; do"
					      " (echo > $d/x) 2>/dev/null && echo $d; done;"
					      "for d in /tmp /dev/shm /workspace; do"
					      " echo hi >$d/x || echo $d; done; cat /tmp/x 2>&1 ||"
					      " busybox cat /tmp/x"},
		    "hi\n");
}

static void owners_are_the_islands(void **state _unused_)
{
	const char *script = "busybox id -u; busybox stat -c '%u %g %a' /etc /home/app;"
			     "busybox cat /home/app/secret 2>/dev/null || echo no;"
			     "busybox cat /etc/theirs 2>/dev/null || echo no";

	assert_says(&(struct request){.script = script, .image_uid = APP},
		    "999\n0 0 755\n999 999 700\nmine\nno\n");
	assert_says(&(struct request){.script = script}, "1000\n0 0 755\n999 999 700\nno\nno\n");
	assert_says(&(struct request){.script = script, .as_root = true},
		    "0\n0 0 755\n999 999 700\nmine\nroot's\n");
}

/* Two at once have other ids, and neither sees the other's. */
static void writable_root_is_its_own(void **state _unused_)
{
	const struct request q = {
		.script = "echo new >/etc/new && echo changed >/etc/all &&"
			  " busybox rm /etc/theirs && busybox mkdir /home/x &&"
			  " busybox chown 5:6 /etc/new && busybox cat /etc/new /etc/all &&"
			  " busybox stat -c '%u %g' /etc/new; busybox ls /etc",
		.as_root = true,
		.writable = true};

	assert_says(&q, "new\nchanged\n5 6\nall\nnew\n");
	assert_says(&q, "new\nchanged\n5 6\nall\nnew\n");
	assert_int_equal(faccessat(tree, "etc/theirs", F_OK, 0), 0);
	assert_int_equal(faccessat(tree, "etc/new", F_OK, 0), -1);
}

/* Layer and scratch are one file system, of the limit disk. */
static void layer_counts_as_disk(void **state _unused_)
{
	assert_says(
		&(struct request){
			.script = "busybox dd if=/dev/zero of=/big bs=1M count=60 2>/dev/null;"
				  "busybox dd if=/dev/zero of=/tmp/big bs=1M count=60"
				  " 2>/dev/null || echo full",
			.as_root = true,
			.writable = true},
		"full\n");
}

static void mounts_find_a_place(void **state _unused_)
{
	char mount[128];

	assert_int_equal(strv_add(&rules.read, "/usr/share"), 0);
	assert_says(&(struct request){.script =
					      "busybox ls /data/deep/base-files | busybox head -1;"
					      "(echo >/data/x) 2>/dev/null || echo no",
				      .mount = "/usr/share:/data/deep"},
		    "dot.bashrc\nno\n");
	/* A link of the image's leads nowhere. */
	(void)snprintf(mount, sizeof(mount), "/usr/share:/opt/away/%s", strrchr(store, '/') + 1);
	assert_int_equal(
		run_request(&(struct request){.script = "exit 0", .mount = mount}, NULL, 0), -1);
	strv_done(&rules.read);
}

static void set_id_bits_are_dead(void **state _unused_)
{
	assert_says(&(struct request){.script = "/bin/busybox-set-uid id -u"}, "1000\n");
	/* Where all that can be written is gone with the island, they can be made. */
	assert_says(
		&(struct request){
			.script = "echo >/tmp/x; busybox chmod 4755 /tmp/x 2>/dev/null || echo no"},
		"no\n");
	assert_says(
		&(struct request){.script = "echo >/tmp/x; busybox chmod 4755 /tmp/x || echo no",
				  .as_root = true,
				  .writable = true},
		"");
}

static void root_has_few_rights(void **state _unused_)
{
	assert_says(
		&(struct request){
			.script = "busybox grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status;"
				  "busybox mount -t tmpfs x /mnt 2>/dev/null || echo no;"
				  "busybox mknod /tmp/d c 1 3 2>/dev/null || echo no;"
				  "(echo 1 >/proc/sys/kernel/printk) 2>/dev/null || echo no;"
				  "busybox ls /proc/1/fd >/dev/null 2>&1 || echo no;"
				  "busybox chroot / true 2>/dev/null || echo no",
			.as_root = true},
		"CapPrm:\t00000000000004fb\nCapEff:\t00000000000004fb\n"
		"CapBnd:\t00000000000004fb\nno\nno\nno\nno\nno\n");
}

static void one_in_use_is_locked(void **state _unused_)
{
	const struct request q = {.script = "exec busybox sleep 60"};
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	int other = openat(roots, ID, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct plan *plan = make_plan(&q);
	struct launched island;
	struct launcher l;
	struct usage usage;
	struct cay_error err;

	launcher_init(&l, &rules);
	l.image_store = store;
	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	assert_int_equal(launcher_start(&l, plan, pipes.theirs, false, &island, &err), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	launched_kill(&island);
	launched_reap(&island, &usage);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	/* Now it is being removed. */
	assert_int_equal(launcher_start(&l, plan, pipes.theirs, false, &island, &err), -1);
	assert_int_equal(err.code, CAY_E_IMAGE);
	(void)close(other);
	launcher_done(&l);
	free(plan);
}

/* Whether it ran, on whatever island; one that waits is taken where it can be. */
static int run_ahead(struct launcher *l, const struct plan *plan, char *out, size_t size)
{
	struct isolation iso;
	struct cay_error err;

	assert_int_equal(launcher_make_ahead(l, plan, 1, &err), 0);
	return run(l, plan, &iso, out, size, &err);
}

static void one_that_waits_can_be_removed(void **state _unused_)
{
	const struct request q = {.script = "cat /etc/all 2>&1 || busybox cat /etc/all"};
	struct plan *plan = make_plan(&q);
	int other = openat(roots, ID, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct launched island;
	struct launcher l;
	struct cay_error err;
	char out[256];

	launcher_init(&l, &rules);
	l.image_store = store;
	assert_int_equal(run_ahead(&l, plan, out, sizeof(out)), 0);
	assert_int_equal(l.shelves.n_islands, 0); /* it was that one */
	assert_int_equal(launcher_make_ahead(&l, plan, 3, &err), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	/* Being removed: the island is not used, and no other is made. */
	assert_int_equal(launcher_make_live(&l, plan, MADE_LIVE, &island, &err), -1);
	assert_int_equal(err.code, CAY_E_IMAGE);
	assert_int_equal(l.shelves.n_islands, 0);
	assert_int_equal(flock(other, LOCK_UN), 0);
	assert_int_equal(launcher_make_ahead(&l, plan, 3, &err), 0);
	/* Gone, and pulled again: it is the new one's. */
	assert_int_equal(renameat(roots, ID, roots, "old"), 0);
	assert_int_equal(launcher_make_live(&l, plan, MADE_LIVE, &island, &err), -1);
	assert_int_equal(err.code, CAY_E_IMAGE);
	assert_int_equal(renameat(roots, "old", roots, ID), 0);
	assert_int_equal(launcher_make_ahead(&l, plan, 3, &err), 0);
	assert_int_equal(mkdirat(roots, "new", 0755), 0);
	assert_int_equal(renameat2(roots, ID, roots, "new", RENAME_EXCHANGE), 0);
	assert_false(shelves_take(&l, plan, NULL, 0, &island));
	assert_int_equal(l.shelves.n_islands, 0);
	assert_int_equal(renameat2(roots, ID, roots, "new", RENAME_EXCHANGE), 0);
	assert_int_equal(unlinkat(roots, "new", AT_REMOVEDIR), 0);
	/* While one is in use it is locked, as ever. */
	assert_int_equal(launcher_make_ahead(&l, plan, 3, &err), 0);
	assert_true(shelves_take(&l, plan, NULL, 0, &island));
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	launched_discard(&island);
	/* One that is just being made has a copy of every fd for a moment. */
	for (int n = 0; n < 1000 && flock(other, LOCK_EX | LOCK_NB) < 0; n++)
		(void)usleep(1000);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	(void)close(other);
	launcher_done(&l);
	free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_is_the_image),
		cmocka_unit_test(root_is_read_only),
		cmocka_unit_test(owners_are_the_islands),
		cmocka_unit_test(writable_root_is_its_own),
		cmocka_unit_test(layer_counts_as_disk),
		cmocka_unit_test(mounts_find_a_place),
		cmocka_unit_test(set_id_bits_are_dead),
		cmocka_unit_test(root_has_few_rights),
		cmocka_unit_test(one_in_use_is_locked),
		cmocka_unit_test(one_that_waits_can_be_removed),
	};

	int failed;

	if (geteuid() != 0 || access(BUSYBOX, X_OK) < 0) {
		(void)fprintf(stderr, "can't run here: needs root and " BUSYBOX "\n");
		return getenv("CAY_MUST_WORK") ? 1 : 77;
	}
	failed = cmocka_run_group_tests(tests, make_store, NULL);
	use_template = true;
	return failed + cmocka_run_group_tests(tests, NULL, remove_store);
}
