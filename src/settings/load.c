#include "settings/settings.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATOR_FILE "/etc/cay/cay.conf"
#define USER_FILE     "cay/cay.conf"
#define NAMED_FILE    "CAY_CONFIG" /* the variable */

/* A directory in the environment; NULL when it is not there or not absolute. */
static const char *env_dir(const char *name)
{
	const char *dir = secure_getenv(name);

	return dir && dir[0] == '/' ? dir : NULL;
}

static const char *named_file(void)
{
	const char *file = secure_getenv(NAMED_FILE);

	return file && *file ? file : NULL;
}

static int add_user_file(struct strv *files)
{
	const char *config = env_dir("XDG_CONFIG_HOME"), *home = env_dir("HOME");

	if (config)
		return strv_addf(files, "%s/%s", config, USER_FILE);
	return home ? strv_addf(files, "%s/.config/%s", home, USER_FILE) : 0;
}

int settings_files(struct strv *ret_files)
{
	const char *named = named_file();
	int r = strv_add(ret_files, OPERATOR_FILE);

	if (r == 0)
		r = add_user_file(ret_files);
	/* Read twice, it would add its lists twice. */
	if (r == 0 && named && !strv_has(ret_files, named))
		r = strv_add(ret_files, named);
	return r;
}

/* The fd is what gets checked and read: the name may mean another file a moment later. */
static int check_file(int fd, const char *file, struct cay_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "%s", file);
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, 0, "%s: not a regular file", file);
	if (geteuid() != 0)
		return 0;
	if (st.st_uid != 0) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "%s: not owned by root", file);
		return cay_hint(err, "root follows only root's settings: chown root the file");
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "%s: others than root may write to it", file);
		return cay_hint(err, "chmod go-w the file");
	}
	return 0;
}

static int read_file(int fd, const char *file, struct buf *text, struct cay_error *err)
{
	int r = fd_read_all(fd, text);
	char size[32];

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: larger than %s", file,
				format_size(SETTINGS_MAX_BYTES, size, sizeof(size)));
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "read %s", file);
	if (strlen(buf_str(text)) != text->len)
		return cay_fail(err, CAY_E_INVALID, 0, "%s: not a text file", file);
	return 0;
}

/* *ret_found is false where there is none. */
static int take_file(const char *file, struct buf *text, bool *ret_found, struct cay_error *err)
{
	/* O_NONBLOCK: a pipe in this place is refused below, and not waited for. */
	_cleanup_(fd_closep) int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const char *named = named_file();

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		if (named && strcmp(named, file) == 0)
			return cay_fail(err, CAY_E_INVALID, errno,
					"settings file %s, named by " NAMED_FILE, file);
		*ret_found = false;
		return 0;
	}
	if (fd < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "settings file %s", file);
	*ret_found = true;
	return check_file(fd, file, err) < 0 ? -1 : read_file(fd, file, text, err);
}

int settings_add_part(struct buf *parts, const char *name, const char *text)
{
	int r = buf_append(parts, name, strlen(name) + 1);

	return r < 0 ? r : buf_append(parts, text, strlen(text) + 1);
}

int settings_parse_parts(struct settings *s, const struct buf *parts, struct cay_error *err)
{
	const char *at = parts->data, *end = at + parts->len;

	while (at < end) {
		const char *name = at, *text = memchr(name, '\0', (size_t)(end - name));
		bool file = strcmp(name, SETTINGS_DEFAULT) != 0;

		at = text ? memchr(text + 1, '\0', (size_t)(end - text - 1)) : NULL;
		if (!at)
			return cay_fail(err, CAY_E_INTERNAL, 0, "the settings are cut");
		at++;
		if (settings_parse_as(s, name, file ? NULL : name, text + 1, err) < 0)
			return -1;
	}
	return 0;
}

/* all: it is appended there, too; or NULL. */
static int load_file(struct settings *s, const char *file, struct buf *all, bool *ret_found,
		     struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(SETTINGS_MAX_BYTES);
	int r = 0;

	if (take_file(file, &text, ret_found, err) < 0)
		return -1;
	if (*ret_found && settings_parse(s, file, buf_str(&text), err) < 0)
		return -1;
	if (*ret_found && all)
		r = settings_add_part(all, file, buf_str(&text));
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "keep %s", file) : 0;
}

int settings_load_file(struct settings *s, const char *file, bool *ret_found, struct cay_error *err)
{
	return load_file(s, file, NULL, ret_found, err);
}

int settings_load_parts(struct settings *s, struct buf *parts, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv files = {0};
	int r = settings_files(&files);
	bool found;

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "find the settings files");
	for (size_t i = 0; i < files.len; i++)
		if (load_file(s, files.items[i], parts, &found, err) < 0)
			return -1;
	return 0;
}

int settings_load(struct settings *s, struct cay_error *err)
{
	return settings_load_parts(s, NULL, err);
}
