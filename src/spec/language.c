#include "spec/language.h"

#include "base/attr.h"

#include <stdbool.h>
#include <string.h>

const struct language languages[] = {
	{
		.name = "python",
		.aliases = {"py", "python3"},
		.extensions = {".py"},
		.file_name = "main.py",
		.programs = {{"python3.*", 6, 20}, {.name = "python3"}},
		.code_option = "-c",
		.prefer = "3.12",
		.version_mark = "",
		.version_files = {"../lib/libpython*.so.1.0", "../lib/libpython*m.so.1.0"},
		.package = "python3",
	},
	{
		.name = "sh",
		.extensions = {".sh"},
		.file_name = "main.sh",
		.programs = {{.name = "sh"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_arg0 = "sh",
		.package = "dash",
	},
};

const size_t n_languages = ARRAY_LEN(languages);

static bool has_word(const char *const words[LANGUAGE_WORDS_MAX], const char *word)
{
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

const struct language *language_find(const char *name)
{
	for (size_t i = 0; i < n_languages; i++)
		if (strcmp(languages[i].name, name) == 0 || has_word(languages[i].aliases, name))
			return &languages[i];
	return NULL;
}

const struct language *language_by_extension(const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	const char *dot = strrchr(base, '.');

	/* ".py" alone is a hidden file without an extension. */
	if (!dot || dot == base)
		return NULL;
	for (size_t i = 0; i < n_languages; i++)
		if (has_word(languages[i].extensions, dot))
			return &languages[i];
	return NULL;
}
