#include "policy/command.h"

#include "base/attr.h"
#include "base/buf.h"
#include "policy/plan.h"
#include "spec/driver.h"
#include "spec/version.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What stands for the words in braces of a language's row. */
struct names {
	const char *program, *tool, *script, *entry;
	char memory[24];
	char minor[VERSION_SIZE];
	char build[BUILD_SIZE];
};

void command_build_dir(const struct spec *spec, char path[BUILD_SIZE])
{
	(void)snprintf(path, BUILD_SIZE, ISLAND_BUILD "%s%s", spec->own[0] ? "/" : "", spec->own);
}

void command_done(struct command_words *c)
{
	strv_done(&c->compile);
	strv_done(&c->argv);
	strv_done(&c->env);
}

static const char *find_name(const struct names *n, const char *word, size_t len)
{
	const struct {
		const char *name, *value;
	} all[] = {
		{"program", n->program}, {"tool", n->tool},        {"script", n->script},
		{"entry", n->entry},     {"memory", n->memory},    {"build", n->build},
		{"minor", n->minor},     {"shared", ISLAND_BUILD},
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strlen(all[i].name) == len && strncmp(all[i].name, word, len) == 0)
			return all[i].value;
	return NULL;
}

/* Braces that are no name of ours stay: code has them, too. */
static int add_word(struct strv *to, const struct names *n, const char *word)
{
	_cleanup_(buf_done) struct buf text = BUF(PLAN_MAX_BYTES);
	int r = 0;

	while (*word && r == 0) {
		size_t plain = strcspn(word, "{"), len = 0;
		const char *value = NULL;

		if (word[plain]) {
			len = strcspn(word + plain, "}");
			value = find_name(n, word + plain + 1, len - 1);
		}
		if (word[plain] && !value)
			plain++; /* the brace itself */
		r = buf_append(&text, word, plain);
		if (r == 0 && value)
			r = buf_append_str(&text, value);
		word += plain + (value ? len + 1 : 0);
	}
	return r < 0 ? r : strv_add(to, buf_str(&text));
}

static int add_words(struct strv *to, const struct names *n, const char *const *words)
{
	int r = 0;

	for (size_t i = 0; i < LANGUAGE_ARGV_MAX && words[i] && r == 0; i++)
		r = add_word(to, n, words[i]);
	return r;
}

static bool is_within(const struct language_option *o, const char *version)
{
	return version_compare(version, o->since) >= 0 &&
	       (!o->before || version_compare(version, o->before) < 0);
}

static int add_program(struct strv *to, const struct runtime *rt)
{
	const struct language *l = rt->language;
	int r = strv_add(to, rt->program);

	for (size_t i = 0; i < ARRAY_LEN(l->options) && l->options[i].option && r == 0; i++)
		if (is_within(&l->options[i], rt->version))
			r = strv_add(to, l->options[i].option);
	return r;
}

/* "-c CODE", or "--eval=CODE" where the option ends so. */
static int add_code(struct strv *to, const struct language *l, const char *code)
{
	_cleanup_(buf_done) struct buf joined = BUF(PLAN_MAX_BYTES);
	size_t n = strlen(l->code_option);
	int r;

	if (l->code_option[n - 1] == '=') {
		r = buf_append_str(&joined, l->code_option);
		if (r == 0)
			r = buf_append_str(&joined, code);
		return r < 0 ? r : strv_add(to, buf_str(&joined));
	}
	r = strv_add(to, l->code_option);
	if (r == 0 && l->code_guard)
		r = strv_add(to, l->code_guard);
	return r < 0 ? r : strv_add(to, code);
}

/* The interpreter, with the code as an argument or with a file. */
static int add_interpreter(struct command_words *c, const struct spec *spec,
			   const struct runtime *rt, const char *script)
{
	int r = add_program(&c->argv, rt);

	if (r == 0 && script)
		return strv_add(&c->argv, script);
	if (r == 0)
		r = add_code(&c->argv, rt->language, spec->code);
	for (const char *const *word = rt->language->code_args; *word && r == 0; word++)
		r = strv_add(&c->argv, *word);
	return r;
}

/* "8.2" of 8.2.35 */
static int minor_len(const char *version)
{
	size_t n = strcspn(version, ".");

	return (int)(version[n] ? n + 1 + strcspn(version + n + 1, ".") : n);
}

static int add_language(struct command_words *c, const struct spec *spec, const struct runtime *rt,
			const char *script, uint64_t memory_bytes)
{
	const struct language *l = rt->language;
	struct names n = {
		.program = rt->program,
		.tool = rt->tool,
		.script = script,
		.entry = spec->entry ? spec->entry : "",
	};
	int r = 0;

	command_build_dir(spec, n.build);
	(void)snprintf(n.minor, sizeof(n.minor), "%.*s", minor_len(rt->version), rt->version);
	(void)snprintf(n.memory, sizeof(n.memory), "%llu", (unsigned long long)memory_bytes);
	for (size_t i = 0; i < LANGUAGE_WORDS_MAX && l->env[i] && r == 0; i++)
		r = add_word(&c->env, &n, l->env[i]);
	if (spec->cell && driver_words(l) && r == 0) {
		r = add_words(&c->argv, &n, driver_words(l));
		return r < 0 ? r : strv_add(&c->argv, spec->code);
	}
	if (r < 0 || (l->tool && !rt->tool[0]))
		return r < 0 ? r : add_words(&c->argv, &n, l->toolless_run);
	r = add_words(&c->compile, &n, l->compile);
	if (r < 0 || l->run[0])
		return r < 0 ? r : add_words(&c->argv, &n, l->run);
	return add_interpreter(c, spec, rt, script);
}

int command_make(const struct spec *spec, const struct runtime *runtime, const char *script,
		 uint64_t memory_bytes, struct command_words *ret)
{
	int r = 0;

	*ret = (struct command_words){0};
	if (runtime)
		r = add_language(ret, spec, runtime, script, memory_bytes);
	for (size_t i = 0; i < spec->args.len && r == 0; i++)
		r = strv_add(&ret->argv, spec->args.items[i]);
	return r;
}
