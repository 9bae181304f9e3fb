#include "cli/changes.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "cli/cli.h"
#include "policy/mounts.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRINT_BYTES_MAX (64u << 20)

static const char *const change_names[AGENT_CHANGES] = {
	[AGENT_CREATED] = "added",
	[AGENT_MODIFIED] = "changed",
	[AGENT_DELETED] = "deleted",
};

static const char *const type_names[AGENT_TYPES] = {
	[AGENT_FILE] = "file", [AGENT_DIR] = "directory", [AGENT_LINK] = "symlink"};

void changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->len; i++) {
		free(c->items[i].path);
		free(c->items[i].target);
	}
	free(c->items);
	*c = (struct changes){0};
}

static bool name_ok(const char *name, size_t len)
{
	if (len == 0 || len > NAME_MAX || (len == 1 && name[0] == '.') ||
	    (len == 2 && name[0] == '.' && name[1] == '.'))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			return false;
	return true;
}

static bool path_ok(const char *path)
{
	if (strlen(path) >= PATH_MAX)
		return false;
	for (;;) {
		size_t len = strcspn(path, "/");

		if (!name_ok(path, len))
			return false;
		if (path[len] == '\0')
			return true;
		path += len + 1;
	}
}

int changes_add(struct changes *c, const struct change *item, struct cay_error *err)
{
	struct change *grown;

	if (!path_ok(item->path) || !type_names[item->type] || !change_names[item->change]) {
		c->left_out++;
		return 0;
	}
	if (c->len >= CHANGES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "more than %d changes", CHANGES_MAX);
	if (c->len % 256 == 0) {
		grown = reallocarray(c->items, c->len + 256, sizeof(*grown));
		if (!grown)
			return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the changes");
		c->items = grown;
	}
	grown = &c->items[c->len];
	*grown = *item;
	grown->mode &= 0777;
	grown->path = strdup(item->path);
	grown->target = strdup(item->target);
	if (grown->path && grown->target) {
		c->len++;
		return 0;
	}
	free(grown->path);
	free(grown->target);
	return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "keep the changes");
}

/* The index of a name; 0: it is none. */
static unsigned find(const char *const *names, unsigned n, const char *name)
{
	for (unsigned i = 1; name && i < n; i++)
		if (names[i] && strcmp(names[i], name) == 0)
			return i;
	return 0;
}

static int read_one(struct changes *c, const struct json *j, struct cay_error *err)
{
	const char *path = json_str(json_get(j, "path")), *mode = json_str(json_get(j, "mode"));
	const char *target = json_str(json_get(j, "target"));
	struct change item = {
		.path = (char *)(uintptr_t)path,
		.target = (char *)(uintptr_t)(target ? target : ""),
		.change = find(change_names, AGENT_CHANGES, json_str(json_get(j, "change"))),
		.type = find(type_names, AGENT_TYPES, json_str(json_get(j, "type"))),
		.size = (uint64_t)json_int(json_get(j, "size")),
	};

	/* One that is not UTF-8 is not what it looks like. */
	if (!path || json_get(j, "path_base64") || json_get(j, "target_base64")) {
		c->left_out++;
		return 0;
	}
	if (mode && strlen(mode) <= 5 && strspn(mode, "01234567") == strlen(mode))
		item.mode = (unsigned)strtoul(mode, NULL, 8);
	return changes_add(c, &item, err);
}

int changes_read(struct changes *c, const struct json *answer, struct cay_error *err)
{
	const struct json *list = json_get(answer, "changes");

	if (json_kind(list) != JSON_KIND_ARRAY)
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer has no changes");
	for (size_t i = 0; i < json_len(list); i++)
		if (read_one(c, json_at(list, i), err) < 0)
			return -1;
	return 0;
}

static int print_one(struct buf *out, const struct change *item)
{
	_cleanup_(buf_done) struct buf text = BUF(2 * PATH_MAX + 8), line = BUF(8 * PATH_MAX);
	char size[32] = "-";
	int r = buf_append_str(&text, item->path);

	if (r == 0 && item->type == AGENT_DIR)
		r = buf_append_str(&text, "/");
	if (r == 0 && item->type == AGENT_LINK)
		r = buf_printf(&text, " -> %s", item->target);
	if (r == 0)
		r = text_append_harmless(&line, text.data, text.len);
	if (item->type == AGENT_FILE && item->change != AGENT_DELETED)
		(void)format_size(item->size, size, sizeof(size));
	return r < 0 ? r
		     : buf_printf(out, "%-7s  %10s  %s\n", change_names[item->change], size,
				  buf_str(&line));
}

int changes_print(const struct changes *c, int fd, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf out = BUF(PRINT_BYTES_MAX);
	int r = 0;

	for (size_t i = 0; i < c->len && r == 0; i++)
		r = print_one(&out, &c->items[i]);
	if (r == 0)
		r = fd_write_all(fd, out.data, out.len);
	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "print the changes");
	return 0;
}

void changes_say_left_out(const struct changes *c)
{
	if (c->left_out > 0)
		cli_say("%zu left out: only files, directories and symlinks with plain names "
			"can be brought back",
			c->left_out);
}

/* As the workspace names it: "./a/", "/workspace/a" and "a" are the same. */
static const char *below(const char *path, size_t *ret_len)
{
	if (path_is_within(path, ISLAND_WORKSPACE))
		path += strlen(ISLAND_WORKSPACE);
	path += strspn(path, "/");
	while (strncmp(path, "./", 2) == 0)
		path += 2 + strspn(path + 2, "/");
	if (strcmp(path, ".") == 0)
		path++;
	*ret_len = strlen(path);
	while (*ret_len > 0 && path[*ret_len - 1] == '/')
		--*ret_len;
	return path;
}

static bool is_at(const char *path, const char *top, size_t len)
{
	return len == 0 ||
	       (strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

static bool choose_path(struct changes *c, const char *path)
{
	bool any = false;
	size_t len;

	path = below(path, &len);
	for (size_t i = 0; i < c->len; i++) {
		struct change *item = &c->items[i];
		size_t own = strlen(item->path);
		bool parent = item->type == AGENT_DIR && item->change == AGENT_CREATED &&
			      own < len && path[own] == '/' && memcmp(path, item->path, own) == 0;

		if (is_at(item->path, path, len))
			any = item->chosen = true;
		item->chosen |= parent;
	}
	return any;
}

int changes_choose(struct changes *c, const char *const *paths, size_t n, struct cay_error *err)
{
	for (size_t i = 0; i < n && paths[i]; i++)
		if (!choose_path(c, paths[i]))
			return cay_fail(err, CAY_E_NOT_FOUND, 0,
					"%.256s: nothing was changed there", paths[i]);
	for (size_t i = 0; (n == 0 || !paths[0]) && i < c->len; i++)
		c->items[i].chosen = true;
	return 0;
}
