#include "policy/mounts.h"

#include "base/attr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/*
 * Never on an island, whatever a list allows. Forbidden are the path, all below
 * it, and every directory above it (mounting /etc would bring /etc/shadow along).
 */
static const char *const forbidden[] = {
	"/etc/shadow",
	"/etc/gshadow",
	"/etc/passwd",
	"/etc/sudoers",
	"/etc/sudoers.d",
	"/root",
	"/proc",
	"/sys",
	"/dev",
	"/run/docker.sock",
	"/var/run/docker.sock",
	"/run/containerd",
	"/run/podman",
	"/run/cay",
	"~/.ssh",
	"~/.aws",
	"~/.gnupg",
	"~/.config",
};

void mount_rules_done(struct mount_rules *r)
{
	strv_done(&r->read);
	strv_done(&r->write);
	strv_done(&r->forbid);
	strv_done(&r->operators);
}

/* Appends the parts of path to out, each behind one slash; "." and empty parts are left out. */
static void append_parts(char *out, size_t size, const char *path)
{
	size_t len = strlen(out);

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n > 0 && !(n == 1 && path[0] == '.') && len + n + 1 < size)
			len += (size_t)snprintf(out + len, size - len, "/%.*s", (int)n, path);
		path += n + (path[n] == '/');
	}
}

static int add_joined(struct strv *list, const char *home, const char *rest)
{
	char path[2 * PATH_MAX] = "";

	if (strlen(home) + strlen(rest) + 2 >= sizeof(path))
		return -ENAMETOOLONG;
	append_parts(path, sizeof(path), home);
	append_parts(path, sizeof(path), rest);
	return strv_add(list, path[0] ? path : "/");
}

/* Adds path, '~/x' once for each home. A home that is / belongs to nobody: it opens nothing. */
static int add_path(struct strv *list, const char *path, const struct strv *homes, bool opens)
{
	int r = 0;

	if (path[0] != '~')
		return add_joined(list, "", path);
	for (size_t i = 0; i < homes->len && r == 0; i++)
		if (!opens || homes->items[i][strspn(homes->items[i], "/.")])
			r = add_joined(list, homes->items[i], path + 1);
	return r;
}

static int add_list(struct strv *list, const struct strv *paths, const struct strv *homes,
		    bool opens)
{
	int r = 0;

	for (size_t i = 0; i < paths->len && r == 0; i++)
		r = add_path(list, paths->items[i], homes, opens);
	return r;
}

int mount_rules_make(const struct settings *s, const struct strv *homes, const char *own_dir,
		     struct mount_rules *ret, struct cay_error *err)
{
	struct mount_rules rules = {0};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(forbidden) && r == 0; i++)
		r = add_path(&rules.forbid, forbidden[i], homes, false);
	if (r == 0)
		r = add_list(&rules.forbid, &s->mount_forbid, homes, false);
	if (r == 0)
		r = add_list(&rules.read, &s->mount_read, homes, true);
	if (r == 0)
		r = add_list(&rules.write, &s->mount_write, homes, true);
	for (size_t i = 0; i < s->n_languages && r == 0; i++)
		r = add_list(&rules.operators, &s->languages[i].paths, homes, true);
	if (r == 0 && own_dir)
		r = strv_add(&rules.read, own_dir);
	if (r < 0) {
		mount_rules_done(&rules);
		return cay_fail(err, CAY_E_INTERNAL, -r, "make the mount rules");
	}
	*ret = rules;
	return 0;
}

bool path_is_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

int mount_check_forbidden(const struct mount_rules *r, const char *path, struct cay_error *err)
{
	for (size_t i = 0; i < r->forbid.len; i++) {
		const char *f = r->forbid.items[i];

		if (path_is_within(path, f)) {
			(void)cay_fail(err, CAY_E_POLICY, 0, "mount of %s is forbidden", path);
			return cay_hint(err, "%s and all below it never appear on an island", f);
		}
		if (path_is_within(f, path)) {
			(void)cay_fail(err, CAY_E_POLICY, 0,
				       "mount of %s is forbidden: it holds %s", path, f);
			return cay_hint(err, "mount a directory further down instead");
		}
	}
	return 0;
}

static bool any_holds(const struct strv *dirs, const char *path)
{
	for (size_t i = 0; i < dirs->len; i++)
		if (path_is_within(path, dirs->items[i]))
			return true;
	return false;
}

int mount_check(const struct mount_rules *r, const char *path, enum access access,
		struct cay_error *err)
{
	bool writable = any_holds(&r->write, path);

	if (mount_check_forbidden(r, path, err) < 0)
		return -1;
	if (writable || (access != ACCESS_WRITE && any_holds(&r->read, path)))
		return 0;
	if (access == ACCESS_WRITE && any_holds(&r->read, path)) {
		(void)cay_fail(err, CAY_E_POLICY, 0, "%s may only be mounted read-only", path);
		return cay_hint(err, "to allow writing: [mounts] write = %s in the settings", path);
	}
	(void)cay_fail(err, CAY_E_POLICY, 0, "mount of %s is not allowed", path);
	return cay_hint(err, "to allow it: [mounts] %s = %s in the settings (`cay config path`)",
			access == ACCESS_WRITE ? "write" : "read", path);
}
