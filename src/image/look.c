#include "image/look.h"

#include "base/attr.h"
#include "base/parse.h"
#include "image/confine.h"
#include "image/cursor.h"
#include "image/record.h"
#include "image/runtime.h"
#include "policy/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACCOUNTS_MAX (4u << 20)
#define DIRS_MAX     32

static const char *const usual_dirs[] = {"/usr/local/bin",  "/usr/bin",  "/bin",
					 "/usr/local/sbin", "/usr/sbin", "/sbin"};

/* Where an island has something else than the image. */
static const char *const covered[] = {"/proc/", "/sys/", "/dev/", "/tmp/", "/workspace/"};

static bool is_covered(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(covered); i++)
		if (strncmp(path, covered[i], strlen(covered[i])) == 0)
			return true;
	return false;
}

/*
 * Each directory on the way, from the top. Calls fn with its path until that is not 0, which is
 * returned.
 */
static int each_parent(const char *dir, int (*fn)(const char *path, void *ctx), void *ctx)
{
	char path[PATH_MAX];
	int r = 0;

	(void)snprintf(path, sizeof(path), "%s", dir);
	for (char *end = path; r == 0 && end[0] && end[1];) {
		char kept;

		end = strchrnul(end + 1, '/');
		kept = *end;
		*end = '\0';
		r = fn(path, ctx);
		*end = kept;
	}
	return r;
}

static int make_dir(const char *path, void *ctx)
{
	size_t *had = ctx;

	if (mkdirat(AT_FDCWD, path, 0755) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (*had == SIZE_MAX)
		*had = strlen(path) - 1;
	return 0;
}

/*
 * *ret_had: directories whose paths are longer are new. A workdir that no layer has is made, as
 * Docker does it; what can't be made can't be entered either, see check_workdir().
 */
static int enter(int root, const char *workdir, size_t *ret_had, struct cay_error *err)
{
	int r = 0;

	*ret_had = SIZE_MAX;
	if (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0)
		r = -errno;
	if (r == 0 && workdir && !is_covered(workdir))
		(void)each_parent(workdir, make_dir, ret_had);
	if (r == 0)
		r = confine_to_reading(root);
	return r < 0 ? cay_fail(err, CAY_E_ENGINE, -r, "look into the image") : 0;
}

/* Of a sane size; NULL: none. */
static FILE *open_accounts(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	FILE *f;

	if (fd < 0)
		return NULL;
	f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= ACCOUNTS_MAX
		    ? fdopen(fd, "r")
		    : NULL;
	if (!f)
		(void)close(fd);
	return f;
}

/* By name, or where that is NULL by id. A number may be a name. */
static bool find_user(const char *name, uint32_t uid, struct image *image)
{
	FILE *f = open_accounts("/etc/passwd");
	struct passwd *pw;
	bool found = false;

	while (f && !found && (pw = fgetpwent(f))) {
		if (name ? strcmp(pw->pw_name, name) != 0 : pw->pw_uid != uid)
			continue;
		found = true;
		image->uid = pw->pw_uid;
		image->gid = pw->pw_gid;
		free(image->home);
		image->home = NULL;
		if (pw->pw_dir && pw->pw_dir[0] == '/')
			(void)cursor_absolute(pw->pw_dir, &image->home);
	}
	if (f)
		(void)fclose(f);
	return found;
}

static bool find_group(const char *name, uint32_t *ret)
{
	FILE *f = open_accounts("/etc/group");
	struct group *gr;
	bool found = false;

	while (f && !found && (gr = fgetgrent(f))) {
		found = strcmp(gr->gr_name, name) == 0;
		*ret = found ? gr->gr_gid : *ret;
	}
	if (f)
		(void)fclose(f);
	return found;
}

/* As Docker reads it: USER[:GROUP], each a name or a number. */
static int find_ids(struct image *image, struct cay_error *err)
{
	char user[256];
	char *group;
	uint64_t n;

	(void)snprintf(user, sizeof(user), "%s", image->user ? image->user : "0");
	group = strchr(user, ':');
	if (group)
		*group++ = '\0';
	if (find_user(user[0] ? user : "root", 0, image)) {
		;
	} else if (parse_u64(user[0] ? user : "0", 0, IMAGE_ID_MAX, &n) == 0) {
		image->uid = (uint32_t)n;
		image->gid = 0;
		(void)find_user(NULL, image->uid, image);
	} else {
		return cay_fail(err, CAY_E_INVALID, 0,
				"the image's user '%.64s' is not in its /etc/passwd", user);
	}
	if (group && *group && !find_group(group, &image->gid)) {
		if (parse_u64(group, 0, IMAGE_ID_MAX, &n) < 0)
			return cay_fail(err, CAY_E_INVALID, 0,
					"the image's group '%.64s' is not in its /etc/group",
					group);
		image->gid = (uint32_t)n;
	}
	if (image->uid > IMAGE_ID_MAX || image->gid > IMAGE_ID_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "the image's user has an id above %u",
				IMAGE_ID_MAX);
	return 0;
}

struct entering {
	const struct image *image;
	size_t had;
};

static int give_dir(const char *path, void *ctx)
{
	const struct entering *e = ctx;

	if (strlen(path) <= e->had)
		return 0;
	return fchownat(AT_FDCWD, path, e->image->uid, e->image->gid, AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

/* By whom programs will be. */
static int check_dir(const char *path, void *ctx)
{
	const struct image *image = ((const struct entering *)ctx)->image;
	uint32_t uid = image->uid ? image->uid : ISLAND_UID;
	uint32_t gid = image->uid ? image->gid : ISLAND_GID;
	struct stat st;
	mode_t bit;

	if (stat(path, &st) < 0)
		return -errno;
	/* With one id they are the owner of all there is. */
	bit = image->one_id || st.st_uid == uid ? S_IXUSR : st.st_gid == gid ? S_IXGRP : S_IXOTH;
	return S_ISDIR(st.st_mode) && st.st_mode & bit ? 0 : -EACCES;
}

/*
 * One that programs could not enter is none: a run that asked for no directory would fail for it.
 * By its own path and by the one it leads to.
 */
static void check_workdir(struct image *image, size_t had)
{
	struct entering e = {.image = image, .had = had};
	char real[PATH_MAX];
	bool ok;

	if (!image->workdir)
		return;
	if (!image->one_id)
		(void)each_parent(image->workdir, give_dir, &e);
	ok = each_parent(image->workdir, check_dir, &e) == 0 && chdir(image->workdir) == 0 &&
	     getcwd(real, sizeof(real)) && each_parent(real, check_dir, &e) == 0 &&
	     !is_covered(image->workdir) && !is_covered(real);
	if (chdir("/") < 0 || !ok) {
		free(image->workdir);
		image->workdir = NULL;
	}
}

/* Where its programs are: its own PATH first. path is cut up. */
static void list_dirs(char *path, const char *dirs[DIRS_MAX + 1])
{
	size_t n = 0;
	char *save = NULL;

	for (char *dir = path ? strtok_r(path, ":", &save) : NULL;
	     dir && n < DIRS_MAX - ARRAY_LEN(usual_dirs); dir = strtok_r(NULL, ":", &save))
		if (dir[0] == '/')
			dirs[n++] = dir;
	for (size_t i = 0; i < ARRAY_LEN(usual_dirs); i++)
		dirs[n++] = usual_dirs[i];
	dirs[n] = NULL;
}

static int keep(struct image *image, const struct runtime *rt)
{
	struct image_runtime *to = &image->runtimes[image->n_runtimes];

	(void)snprintf(to->language, sizeof(to->language), "%s", rt->language->name);
	memcpy(to->version, rt->version, sizeof(to->version));
	to->program = strdup(rt->program);
	to->tool = rt->tool[0] ? strdup(rt->tool) : NULL;
	if (!to->program || (rt->tool[0] && !to->tool))
		return -ENOMEM;
	image->n_runtimes++;
	return 0;
}

static int find_runtimes(struct image *image, struct cay_error *err)
{
	const char *path = strv_get_env(&image->env, "PATH"), *dirs[DIRS_MAX + 1];
	char *copy = path ? strdup(path) : NULL;
	/* The operator's are the host's. */
	_cleanup_(settings_done) struct settings none;
	int r = path && !copy ? -ENOMEM : 0;

	settings_init(&none);
	list_dirs(copy, dirs);
	image->runtimes = calloc(IMAGE_RUNTIMES_MAX, sizeof(*image->runtimes));
	r = image->runtimes ? r : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n_languages; i++) {
		const struct runtime_places places = {
			.host_dirs = dirs, .host_root = "/usr", .whole = true};
		struct runtimes found = {0};
		struct cay_error odd; /* too many of one language: it has none that counts */

		if (runtimes_find_in(&places, &none, &languages[i], &found, &odd) < 0)
			continue;
		for (size_t n = 0; r == 0 && n < found.len; n++)
			if (!found.items[n].lacks && image->n_runtimes < IMAGE_RUNTIMES_MAX)
				r = keep(image, &found.items[n]);
		runtimes_done(&found);
	}
	free(copy);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "find the image's interpreters") : 0;
}

int look_into(int root_fd, struct image *image, struct cay_error *err)
{
	size_t had;

	if (enter(root_fd, image->workdir, &had, err) < 0 || find_ids(image, err) < 0)
		return -1;
	check_workdir(image, had);
	return find_runtimes(image, err);
}
