#include "spec/language.h"

#include "base/attr.h"

#include <stdbool.h>
#include <string.h>

/*
 * esbuild makes one ES module of a TypeScript file and all it imports. What
 * CommonJS has and such modules lack is given to it as globals.
 */
#define TYPESCRIPT_BANNER                                                      \
	"--banner:js=import {createRequire as cayRequire} from 'node:module';" \
	"globalThis.require ??= cayRequire('/workspace/');"                    \
	"globalThis.__filename ??= process.argv[1];"                           \
	"globalThis.__dirname ??= process.cwd();"

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
		.name = "javascript",
		.aliases = {"js", "node", "nodejs"},
		.extensions = {".js", ".mjs", ".cjs"},
		.file_name = "main.js",
		.programs = {{.name = "node"}, {.name = "nodejs"}},
		/* import and top-level await without being told that it is a module. */
		.options = {{"--experimental-detect-module", "20.10", "22.7"}},
		.code_option = "--eval=",
		.code_arg0 = "--",
		.prefer = "20",
		.version_mark = "node.js/v",
		.package = "nodejs",
	},
	{
		.name = "typescript",
		.aliases = {"ts"},
		.extensions = {".ts", ".mts", ".cts", ".tsx"},
		.file_name = "main.ts",
		.runs_on = "javascript",
		.tool = "esbuild",
		.compile = {"{tool}", "{script}", "--bundle", "--platform=node", "--format=esm",
			    "--target=node18", "--log-level=warning", "--sourcemap=inline",
			    "--external:*.node", TYPESCRIPT_BANNER, "--outfile={build}/main.mjs"},
		.run = {"{program}", "--enable-source-maps", "{build}/main.mjs"},
		.toolless_since = "22.7",
		.toolless_run = {"{program}", "--experimental-transform-types",
				 "--disable-warning=ExperimentalWarning", "{script}"},
		.package = "nodejs esbuild",
	},
	{
		.name = "ruby",
		.aliases = {"rb"},
		.extensions = {".rb"},
		.file_name = "main.rb",
		.programs = {{"ruby3.*", 0, 9}, {.name = "ruby"}},
		.code_option = "-e",
		.code_arg0 = "--",
		.version_mark = "ruby ",
		.version_files = {"../lib/libruby-*.so.*"},
		.package = "ruby",
	},
	{
		.name = "php",
		.extensions = {".php"},
		.file_name = "main.php",
		.programs = {{"php8.*", 0, 9}, {"php7.*", 4, 4}, {.name = "php"}},
		.code_option = "-r",
		.code_arg0 = "--",
		.code_open = "<?php\n",
		.version_mark = "PHP/",
		.package = "php-cli",
	},
	{
		.name = "perl",
		.aliases = {"pl"},
		.extensions = {".pl", ".pm"},
		.file_name = "main.pl",
		.programs = {{.name = "perl"}},
		.code_option = "-e",
		.code_arg0 = "--",
		.version_mark = "v",
		.package = "perl",
	},
	{
		.name = "lua",
		.extensions = {".lua"},
		.file_name = "main.lua",
		.programs = {{"lua5.*", 1, 5}, {.name = "lua"}},
		.version_mark = "$LuaVersion: Lua ",
		.package = "lua5.4",
	},
	{
		.name = "r",
		.aliases = {"R", "rscript", "Rscript"},
		.extensions = {".r", ".R"},
		.file_name = "main.R",
		.programs = {{.name = "Rscript"}},
		.version_mark = "Version: ",
		.version_files = {"../lib/R/library/base/DESCRIPTION"},
		.package = "r-base-core",
	},
	{
		.name = "bash",
		.extensions = {".bash"},
		.file_name = "main.bash",
		.programs = {{.name = "bash"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_arg0 = "bash",
		.version_mark = "Bash version ",
		.package = "bash",
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
	{
		.name = "zsh",
		.extensions = {".zsh"},
		.file_name = "main.zsh",
		.programs = {{.name = "zsh"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_arg0 = "zsh",
		.version_mark = "zsh ",
		.package = "zsh",
	},
	{
		.name = "go",
		.aliases = {"golang"},
		.extensions = {".go"},
		.file_name = "main.go",
		.programs = {{.name = "go"}},
		.compile = {"{program}", "build", "-o", "{build}/main", "{script}"},
		.run = {"{build}/main"},
		.env = {"GOCACHE={build}/cache", "GOPATH={build}/go", "GOTOOLCHAIN=local",
			"GOFLAGS=-buildvcs=false", "GOTELEMETRY=off"},
		.version_mark = "go",
		.version_files = {"../VERSION"},
		.package = "golang-go",
	},
	{
		.name = "rust",
		.aliases = {"rs", "rustc"},
		.extensions = {".rs"},
		.file_name = "main.rs",
		.programs = {{.name = "rustc"}},
		.compile = {"{program}", "--edition=2021", "--crate-name=main", "-O", "-o",
			    "{build}/main", "{script}"},
		.run = {"{build}/main"},
		.version_mark = "/rustc-",
		.version_files = {"../lib/librustc_driver*.so"},
		.package = "rustc",
	},
	{
		.name = "c",
		.aliases = {"gcc"},
		.extensions = {".c"},
		.file_name = "main.c",
		.programs = {{"gcc-*", 9, 20}, {.name = "gcc"}},
		.compile = {"{program}", "-O1", "-o", "{build}/main", "{script}", "-pthread",
			    "-lm"},
		.run = {"{build}/main"},
		.version_mark = "",
		.package = "gcc libc6-dev",
	},
	{
		.name = "c++",
		.aliases = {"cpp", "cxx", "g++"},
		.extensions = {".cpp", ".cc", ".cxx", ".C"},
		.file_name = "main.cpp",
		.programs = {{"g++-*", 9, 20}, {.name = "g++"}},
		.compile = {"{program}", "-O1", "-o", "{build}/main", "{script}", "-pthread",
			    "-lm"},
		.run = {"{build}/main"},
		.version_mark = "",
		.package = "g++",
	},
	{
		.name = "java",
		.extensions = {".java"},
		.file_name = "Main.java",
		.programs = {{.name = "java"}},
		.tool = "javac",
		.has_entry = true,
		/* The machine's memory is in sight, the island's limit is not: each is told. */
		.compile = {"{tool}", "-J-XX:MaxRAM={memory}", "-J-XX:TieredStopAtLevel=1",
			    "-J-XX:+UseSerialGC", "-d", "{build}", "{script}"},
		.run = {"{program}", "-XX:MaxRAM={memory}", "-cp", "{build}", "{entry}"},
		.version_mark = "JAVA_VERSION=\"",
		.version_files = {"../release"},
		.package = "default-jdk-headless",
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
