#include "spec/shebang.h"

#include "base/attr.h"
#include "spec/language.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What is left of the line. */
struct rest {
	const char *at, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool next_word(struct rest *r, char word[SHEBANG_MAX])
{
	size_t len = 0;

	while (r->at < r->end && is_blank(*r->at))
		r->at++;
	for (; r->at < r->end && !is_blank(*r->at); r->at++)
		word[len++] = *r->at;
	word[len] = '\0';
	return len > 0;
}

/* "-Snode" and "--split-string=node" hold the command's first word; NULL for other options. */
static const char *split_string(const char *option)
{
	static const char long_name[] = "--split-string=";
	const char *s;

	if (strncmp(option, long_name, sizeof(long_name) - 1) == 0)
		return option + sizeof(long_name) - 1;
	s = option[1] == '-' ? NULL : strchr(option, 'S');
	return s && s[1] ? s + 1 : NULL;
}

static bool takes_value(const char *option)
{
	static const char *const names[] = {"-u", "--unset", "-C", "--chdir"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(option, names[i]) == 0)
			return true;
	return false;
}

/* The word that env executes: behind its options and assignments. */
static bool next_after_env(struct rest *r, char word[SHEBANG_MAX])
{
	while (next_word(r, word)) {
		const char *command = word[0] == '-' ? split_string(word) : NULL;

		if (command) {
			memmove(word, command, strlen(command) + 1);
			return true;
		}
		if (takes_value(word))
			(void)next_word(r, word);
		else if (word[0] != '-' && !strchr(word, '='))
			return true;
	}
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The NAME of `cay run … -l NAME`. */
static enum shebang read_cay(struct rest *r, char ret_name[SHEBANG_NAME_SIZE])
{
	static const char long_name[] = "--language";
	char word[SHEBANG_MAX];
	const char *name = NULL;

	while (!name && next_word(r, word)) {
		if (strcmp(word, "-l") == 0 || strcmp(word, long_name) == 0)
			name = next_word(r, word) ? word : NULL;
		else if (strncmp(word, "-l", 2) == 0)
			name = word + 2;
		else if (strncmp(word, long_name, sizeof(long_name) - 1) == 0 &&
			 word[sizeof(long_name) - 1] == '=')
			name = word + sizeof(long_name);
	}
	if (!name)
		return SHEBANG_NONE;
	(void)snprintf(ret_name, SHEBANG_NAME_SIZE, "%s", name);
	return SHEBANG_KNOWN;
}

/* "python3", or a language's name and a version: "python3.11". */
static enum shebang read_interpreter(const char *program, char ret_name[SHEBANG_NAME_SIZE])
{
	const struct language *language = language_find(program);
	size_t len = strlen(program);
	char name[SHEBANG_MAX];

	if (language) {
		(void)snprintf(ret_name, SHEBANG_NAME_SIZE, "%s", language->name);
		return SHEBANG_KNOWN;
	}
	while (len > 0 && strchr("0123456789.", program[len - 1]))
		len--;
	(void)snprintf(name, sizeof(name), "%.*s", (int)len, program);
	language = language_find(name);
	if (language)
		(void)snprintf(ret_name, SHEBANG_NAME_SIZE, "%s@%s", language->name, program + len);
	else
		(void)snprintf(ret_name, SHEBANG_NAME_SIZE, "%s", program);
	return language ? SHEBANG_KNOWN : SHEBANG_UNKNOWN;
}

enum shebang shebang_read(const char *text, size_t len, char ret_name[SHEBANG_NAME_SIZE])
{
	char word[SHEBANG_MAX];
	struct rest r;

	ret_name[0] = '\0';
	len = size_min(len, SHEBANG_MAX - 1);
	if (len < 2 || text[0] != '#' || text[1] != '!')
		return SHEBANG_NONE;
	r.at = text + 2;
	r.end = memchr(text, '\n', len);
	if (!r.end)
		r.end = text + len;
	if (!next_word(&r, word))
		return SHEBANG_NONE;
	if (strcmp(base_name(word), "env") == 0 && !next_after_env(&r, word))
		return SHEBANG_NONE;
	if (strcmp(base_name(word), "cay") == 0)
		return read_cay(&r, ret_name);
	return read_interpreter(base_name(word), ret_name);
}
