#include "image/look.h"

#include "base/attr.h"
#include "base/parse.h"
#include "image/confine.h"
#include "image/record.h"
#include "image/runtime.h"

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

static int enter(int root, struct cay_error *err)
{
	int r = confine_to_reading(root);

	if (r == 0 && (fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0))
		r = -errno;
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
		image->home = pw->pw_dir && pw->pw_dir[0] == '/' && !strstr(pw->pw_dir, "..")
				      ? strdup(pw->pw_dir)
				      : NULL;
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
	if (enter(root_fd, err) < 0 || find_ids(image, err) < 0)
		return -1;
	return find_runtimes(image, err);
}
