#include "policy/script.h"

#include "policy/command.h"

#include <stdio.h>
#include <string.h>

/* Longer code goes into a file: the kernel takes 128 KiB in one argument, and a plan that. */
#define CODE_ARGUMENT_MAX (100u << 10)

void script_done(struct script *s)
{
	buf_done(&s->text);
}

void script_path(const struct spec *spec, const char *name, char path[PATH_MAX])
{
	(void)snprintf(path, PATH_MAX, "%s/%s", spec->workspace.source ? "/tmp" : ISLAND_WORKSPACE,
		       name);
}

/*
 * "main-run_….c" where others may be at it: beside the program's files all the same, for
 * what it includes. Java's own rules for names leave only a directory of its own.
 */
static void own_path(const struct spec *spec, const char *name, char path[PATH_MAX])
{
	char build[BUILD_SIZE], own[NAME_MAX + 1];
	const char *dot = strrchr(name, '.');
	size_t stem = dot ? (size_t)(dot - name) : strlen(name);

	if (spec->language->entry) {
		command_build_dir(spec, build);
		(void)snprintf(path, PATH_MAX, "%s/%s", build, name);
		return;
	}
	(void)snprintf(own, sizeof(own), "%.*s-%s%s", (int)stem, name, spec->own, name + stem);
	script_path(spec, own, path);
}

static bool can_be_argument(const struct spec *s)
{
	const char *open = s->language->code_open;

	return s->language->code_option && !s->file_name && s->code_len <= CODE_ARGUMENT_MAX &&
	       !memchr(s->code, '\0', s->code_len) &&
	       !(open && s->code_len >= 2 && strncmp(s->code, open, 2) == 0);
}

int script_entry(struct spec *spec, const char *code, size_t len, char name[NAME_MAX + 1],
		 struct cay_error *err)
{
	const struct language *l = spec->language;
	const char *dot;

	spec->entry = l->entry(code, len);
	if (!spec->entry)
		return cay_fail(err, CAY_E_INVALID, 0, "the %s source needs %s", l->name,
				l->entry_needs);
	dot = strrchr(spec->entry, '.');
	(void)snprintf(name, NAME_MAX + 1, "%.240s%s", dot ? dot + 1 : spec->entry,
		       l->extensions[0]);
	return 0;
}

int script_of_code(struct spec *spec, struct script *ret, struct cay_error *err)
{
	/* A script says itself where code of its language begins. */
	const char *open = spec->file_name ? NULL : spec->language->code_open;
	char name[NAME_MAX + 1];

	if (can_be_argument(spec))
		return 0;
	(void)snprintf(name, sizeof(name), "%s", spec->language->file_name);
	if (spec->language->entry && script_entry(spec, spec->code, spec->code_len, name, err) < 0)
		return -1;
	ret->passing = spec->own[0] && !spec->file_name;
	if (ret->passing)
		own_path(spec, name, ret->path);
	else
		script_path(spec, spec->file_name ? spec->file_name : name, ret->path);
	ret->data = spec->code;
	ret->len = spec->code_len;
	if (!open || (ret->len >= 2 && strncmp(ret->data, open, 2) == 0))
		return 0;
	if (buf_append_str(&ret->text, open) < 0 || buf_append(&ret->text, ret->data, ret->len) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "the code is too long");
	ret->data = buf_str(&ret->text);
	ret->len = ret->text.len;
	return 0;
}
