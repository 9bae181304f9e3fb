#include "spec/language.h"

#include "base/attr.h"
#include "spec/java.h"
#include "spec/version.h"

#include <stdbool.h>
#include <string.h>

/* What Debian calls this machine, and where it puts libraries of it. */
#if defined(__x86_64__)
#define ARCH   "amd64"
#define LIB    "../lib/x86_64-linux-gnu/"
#define TRIPLE "x86_64-unknown-linux-gnu"
#elif defined(__aarch64__)
#define ARCH   "arm64"
#define LIB    "../lib/aarch64-linux-gnu/"
#define TRIPLE "aarch64-unknown-linux-gnu"
#else
#error "which names does Debian have for this machine?"
#endif

/*
 * esbuild makes one ES module of a TypeScript file and all it imports. What
 * CommonJS has and such modules lack is given to it as globals.
 */
#define TYPESCRIPT_BANNER                                                      \
	"--banner:js=import {createRequire as cayRequire} from 'node:module';" \
	"globalThis.require = cayRequire('/workspace/');"                      \
	"globalThis.__filename = process.argv[1];"                             \
	"globalThis.__dirname = process.cwd();"

#define PHP_INI(name) ":/usr/share/php{minor}-" name "/" name

const struct language languages[] = {
	{
		.name = "python",
		.aliases = {"py", "python3"},
		.extensions = {".py"},
		.file_name = "main.py",
		.programs = {{"python3.*", 6, 20}, {.name = "python3"}},
		.code_option = "-c",
		.prefer = "3.12",
		.versions = {{NULL, "", true},
			     {"../lib/libpython*", "", true},
			     {LIB "libpython*", "", true}},
		.package = "python3",
		.image = "python:{version}-slim",
		.image_version = "3.12",
		.warm = {"3.10", "3.14", NULL},
	},
	{
		.name = "javascript",
		.aliases = {"js", "node", "nodejs"},
		.extensions = {".js", ".mjs", ".cjs"},
		.file_name = "main.js",
		.programs = {{.name = "node"}, {.name = "nodejs"}},
		/* import and top-level await without being told that it is a module. */
		.options = {{"--experimental-detect-module", "20.10", "22.7"}},
		/* By two words: those child_process.fork() leaves out, or children would do it
		   again. */
		.code_option = "-e",
		.code_joined = "--eval=",
		/* A name for itself, so that arguments are where a file's would be. */
		.code_args = {"--", "main.js"},
		.prefer = "20",
		.versions = {{NULL, "node.js/v"}, {LIB "libnode*", "node.js/v"}},
		.package = "nodejs",
		.image = "node:{version}-slim",
		.image_version = "20",
		.warm = {"18", "25", "node"},
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
		.code_args = {"--"},
		.versions = {{NULL, "ruby "},
			     {LIB "libruby*", "ruby "},
			     {"../lib/libruby*", "ruby "}},
		.package = "ruby",
		.image = "ruby:{version}-alpine",
		.image_version = "3.3",
	},
	{
		.name = "php",
		.extensions = {".php"},
		.file_name = "main.php",
		.programs = {{"php8.*", 0, 9}, {"php7.*", 3, 4}, {.name = "php"}},
		.code_option = "-r",
		.code_args = {"--"},
		.code_open = "<?php\n",
		/* Debian's list of extensions is in /etc; their packages have each one's here. */
		.env = {"PHP_INI_SCAN_DIR=" PHP_INI("bcmath") PHP_INI("curl") PHP_INI("gd")
				PHP_INI("gmp") PHP_INI("intl") PHP_INI("mbstring")
					PHP_INI("sqlite3") PHP_INI("xml") PHP_INI("zip")},
		.versions = {{NULL, "PHP/"}},
		.package = "php-cli",
		.image = "php:{version}-cli-alpine",
		.image_version = "8.3",
	},
	{
		.name = "perl",
		.aliases = {"pl"},
		.extensions = {".pl", ".pm"},
		.file_name = "main.pl",
		.programs = {{.name = "perl"}},
		.code_option = "-e",
		.code_args = {"--"},
		.versions = {{NULL, "v", true}, {LIB "libperl*", "v", true}},
		.package = "perl",
		.image = "perl:{version}-slim",
		.image_version = "5.40",
	},
	{
		.name = "lua",
		.extensions = {".lua"},
		.file_name = "main.lua",
		.programs = {{"lua5.*", 1, 5}, {.name = "lua"}},
		/* "$LuaVersion: Lua 5.4.4", "$Lua: Lua 5.1.5" */
		.versions = {{NULL, ": Lua "}, {LIB "liblua*", ": Lua "}},
		.package = "lua5.4",
		.image = "nickblah/lua:{version}",
		.image_version = "5.4",
	},
	{
		.name = "r",
		.aliases = {"R", "rscript", "Rscript"},
		.extensions = {".r", ".R"},
		.file_name = "main.R",
		.programs = {{.name = "Rscript"}},
		.versions = {{"../lib/R/library/base/DESCRIPTION", "Version: "}},
		.package = "r-base-core",
		.image = "r-base:{version}",
		.image_version = "4.4.1",
	},
	{
		.name = "bash",
		.extensions = {".bash"},
		.file_name = "main.bash",
		.programs = {{.name = "bash"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_args = {"bash"},
		.versions = {{NULL, "Bash version "}},
		.package = "bash",
		.image = "bash:{version}",
		.image_version = "5.2",
	},
	{
		.name = "sh",
		.extensions = {".sh"},
		.file_name = "main.sh",
		.programs = {{.name = "sh"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_args = {"sh"},
		.package = "dash",
	},
	{
		.name = "zsh",
		.extensions = {".zsh"},
		.file_name = "main.zsh",
		.programs = {{.name = "zsh"}},
		.code_option = "-c",
		.code_guard = "--",
		.code_args = {"zsh"},
		/* Where it looks for its modules: /usr/lib/x86_64-linux-gnu/zsh/5.9 */
		.versions = {{NULL, "/zsh/"}},
		.package = "zsh",
		.image = "zshusers/zsh:{version}",
		.image_version = "5.9",
	},
	{
		.name = "go",
		.aliases = {"golang"},
		.extensions = {".go"},
		.file_name = "main.go",
		.programs = {{.name = "go"}},
		.dirs = {{"lib/go-1.*/bin", 11, 40}, {.name = "local/go/bin"}},
		.compile = {"{program}", "build", "-o", "{build}/main", "{script}"},
		.run = {"{build}/main"},
		.env = {"GOCACHE={shared}/cache", "GOPATH={shared}/go", "GOTOOLCHAIN=local",
			"GOFLAGS=-buildvcs=false", "GOTELEMETRY=off"},
		.versions = {{"../VERSION", "go"}},
		.package = "golang-go",
		.image = "golang:{version}",
		.image_version = "1.23",
	},
	{
		.name = "rust",
		.aliases = {"rs", "rustc"},
		.extensions = {".rs"},
		.file_name = "main.rs",
		.programs = {{.name = "rustc"}},
		/* Of its image, where the rustc of the PATH is a program that chooses one of these.
		 */
		.dirs = {{"local/rustup/toolchains/1.*.0-" TRIPLE "/bin", 70, 120},
			 {"local/rustup/toolchains/1.*.1-" TRIPLE "/bin", 70, 120}},
		.compile = {"{program}", "--edition=2021", "--crate-name=main", "-O", "-o",
			    "{build}/main", "{script}"},
		.run = {"{build}/main"},
		/* /usr/src/rustc-1.63.0 of Debian's, libLLVM.so.22.1-rust-1.95.0-stable of
		   rustup's. */
		.versions = {{LIB "librustc_driver*", "/rustc-"},
			     {"../lib/librustc_driver*", "-rust-"},
			     {"../lib/librustc_driver*", "/rustc-"}},
		.package = "rustc",
		.image = "rust:{version}-slim",
		.image_version = "1.82",
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
		.versions = {{NULL, "", true}},
		.package = "gcc libc6-dev",
		.image = "gcc:{version}",
		.image_version = "14",
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
		.versions = {{NULL, "", true}},
		.package = "g++",
		.image = "gcc:{version}",
		.image_version = "14",
	},
	{
		.name = "java",
		.extensions = {".java"},
		.file_name = "Main.java",
		.programs = {{.name = "java"}},
		.dirs = {{"lib/jvm/java-*-openjdk-" ARCH "/bin", 8, 40}},
		.tool = "javac",
		.tool_beside = true,
		.entry = java_entry,
		.entry_needs = "a class with a method main",
		/* The machine's memory is in sight, the island's limit is not: each is told. */
		.compile = {"{tool}", "-J-XX:MaxRAM={memory}", "-J-XX:TieredStopAtLevel=1",
			    "-J-XX:+UseSerialGC", "-d", "{build}", "{script}"},
		.run = {"{program}", "-XX:MaxRAM={memory}", "-cp", "{build}", "{entry}"},
		.versions = {{"../release", "JAVA_VERSION=\""}},
		.package = "default-jdk-headless",
		.image = "eclipse-temurin:{version}-jdk",
		.image_version = "21",
	},
};

const size_t n_languages = ARRAY_LEN(languages);

const struct language *language_base(const struct language *language)
{
	return language->runs_on ? language_find(language->runs_on) : language;
}

bool language_has_versions(const struct language *language)
{
	return language_base(language)->versions[0].mark != NULL;
}

bool language_is_toolless(const struct language *language, const char *version)
{
	return language->toolless_since && version_compare(version, language->toolless_since) >= 0;
}

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
