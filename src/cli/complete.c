/*
 * cay __complete WORD...: what the last word, as far as it is typed, may become.
 * For the shells' scripts in packaging/completion; the words are what follows
 * "cay" on the command line.
 *
 * Prints a candidate a line, a tab, and what it is; or the one line ":files" or
 * ":commands", where the shell knows better.
 */
#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote_sandbox.h"
#include "image/images.h"
#include "image/naming.h"
#include "image/runtime.h"
#include "settings/settings.h"
#include "spec/request.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A word that is being typed. */
struct typed {
	const char *lead; /* "--language=" of a value that stands behind one; printed, too */
	int lead_len;
	const char *text; /* what follows it */
};

static void offer(const struct typed *t, const char *word, const char *about)
{
	if (strncmp(word, t->text, strlen(t->text)) == 0)
		(void)printf("%.*s%s\t%s\n", t->lead_len, t->lead, word, about);
}

static void offer_files(const struct typed *t, const char *label)
{
	/* What follows the colon of SRC:DEST is a path on the island. */
	if (!strchr(label, ':') || !strchr(t->text, ':'))
		(void)printf(":files\n");
}

static void offer_verbs(const struct typed *t, const char *label _unused_)
{
	for (const struct verb *const *v = verbs; *v; v++)
		if ((*v)->summary)
			offer(t, (*v)->name, (*v)->summary);
}

static void offer_engines(const struct typed *t, const char *label _unused_)
{
	for (int e = ENGINE_AUTO; e < ENGINES; e++)
		offer(t, spec_engine_name((enum spec_engine)e), "");
}

static void offer_language_names(const struct typed *t, const char *label _unused_)
{
	for (size_t i = 0; i < n_languages; i++)
		offer(t, languages[i].name, "");
}

/* word: what the language is called here. */
static void offer_runtimes_of(const struct typed *t, const struct settings *settings,
			      const struct language *language, const char *word)
{
	struct runtimes found = {0};
	char images[PATH_MAX];
	struct cay_error err;

	if (strncmp(word, t->text, strcspn(t->text, "@")) != 0 ||
	    runtimes_find(settings, language, images_dir(settings, images) < 0 ? NULL : images,
			  &found, &err) < 0)
		return;
	for (size_t i = 0; i < found.len; i++) {
		const struct runtime *rt = &found.items[i];
		char full[64];

		if (rt->default_reason)
			offer(t, word, rt->version);
		if (!rt->version[0])
			continue;
		(void)snprintf(full, sizeof(full), "%s@%s", word, rt->version);
		offer(t, full, rt->program);
	}
	runtimes_done(&found);
}

static bool begins_a_language(const char *text)
{
	for (size_t i = 0; i < n_languages; i++)
		if (strncmp(languages[i].name, text, strcspn(text, "@")) == 0)
			return true;
	return false;
}

/* Only what is here: python, python@3.11.2. By other names (node) where no language has this one.
 */
static void offer_runtimes(const struct typed *t, const char *label _unused_)
{
	_cleanup_(settings_done) struct settings settings;
	bool by_name = begins_a_language(t->text);
	struct cay_error err;

	settings_init(&settings);
	if (settings_load(&settings, &err) < 0)
		return;
	for (size_t i = 0; i < n_languages; i++) {
		const struct language *l = &languages[i];

		if (by_name)
			offer_runtimes_of(t, &settings, l, l->name);
		for (size_t k = 0; !by_name && k < LANGUAGE_WORDS_MAX && l->aliases[k]; k++)
			offer_runtimes_of(t, &settings, l, l->aliases[k]);
	}
}

/* "show|check|path" */
static void offer_choices(const struct typed *t, const char *label)
{
	while (*label) {
		size_t len = strcspn(label, "|");
		char word[32];

		(void)snprintf(word, sizeof(word), "%.*s", (int)len, label);
		offer(t, word, "");
		label += len + (label[len] == '|');
	}
}

/* By their names, and those without one by id; nothing where no daemon is. */
static void offer_sandboxes(const struct typed *t, const char *label _unused_)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *all = NULL;
	const struct json *list;
	struct cay_error err;

	if (remote_open(&r, &err) < 0 ||
	    remote_list(r, "/v1/sandboxes", "sandboxes", &all, &err) < 0)
		return;
	list = json_get(all, "sandboxes");
	for (size_t i = 0; i < json_len(list); i++) {
		const char *id = json_str(json_get(json_at(list, i), "id"));
		const char *name = json_str(json_get(json_at(list, i), "name"));

		/* What is no name of a sandbox's would be something else to a shell. */
		if (name && request_name_ok(name))
			offer(t, name, "");
		else if (id && strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz_") == strlen(id))
			offer(t, id, "");
	}
}

/* Those in the store, as people write them. */
static void offer_images(const struct typed *t, const char *label _unused_)
{
	_cleanup_(settings_done) struct settings settings;
	_cleanup_(strv_done) struct strv names = {0};
	char dir[PATH_MAX], brief[IMAGE_REF_SIZE];
	struct cay_error err;

	settings_init(&settings);
	if (settings_load(&settings, &err) < 0 || images_dir(&settings, dir) < 0 ||
	    images_names(dir, &names) < 0)
		return;
	for (size_t i = 0; i < names.len; i++) {
		image_name_short(names.items[i], brief);
		offer(t, brief, "");
	}
}

/* By what a label in a help text begins with. */
static const struct {
	const char *label;
	void (*offer)(const struct typed *t, const char *label);
} kinds[] = {
	{"FILE", offer_files},
	{"DIR", offer_files},
	{"SRC", offer_files},
	{"NAME[@VERSION]", offer_runtimes},
	{"LANGUAGE", offer_language_names},
	{"VERB", offer_verbs},
	{"SANDBOX", offer_sandboxes},
	{"IMAGE", offer_images},
	{"ENGINE", offer_engines},
};

static void offer_argument(const struct typed *t, const char *label)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strncmp(label, kinds[i].label, strlen(kinds[i].label)) == 0) {
			kinds[i].offer(t, label);
			return;
		}
	}
	if (islower((unsigned char)label[0]))
		offer_choices(t, label);
}

static void offer_options(const struct typed *t, const struct verb *v)
{
	char word[64];

	for (size_t i = 0; i < v->n_rows; i++) {
		if (!v->rows[i].help)
			continue;
		(void)snprintf(word, sizeof(word), "--%s", v->rows[i].name);
		offer(t, word, v->rows[i].help);
	}
	offer(t, "--help", "what the verb does, and its options");
}

/* Where on the command line the typed word stands. */
struct place {
	const struct option_row *row; /* its value is being typed; or NULL */
	bool dashes;                  /* behind "--" */
	size_t n_words;               /* before it that are no options */
};

static void pass_word(const struct verb *v, const char *word, struct place *p)
{
	if (p->row) {
		p->row = NULL;
		return;
	}
	if (p->dashes || word[0] != '-' || !word[1] || (v->words_end_options && p->n_words > 0))
		p->n_words++;
	else if (strcmp(word, "--") == 0)
		p->dashes = true;
	else
		p->row = options_awaiting(v->rows, v->n_rows, word);
}

static void offer_word(const struct typed *t, const struct verb *v, const struct place *p)
{
	bool behind_options = p->dashes || (v->words_end_options && p->n_words > 0);

	if (p->row)
		offer_argument(t, p->row->argument);
	else if (!behind_options && t->text[0] == '-')
		offer_options(t, v);
	else if (v->words_end_options && p->dashes && p->n_words == 0)
		(void)printf(":commands\n");
	else if (v->words_end_options && p->n_words > 0)
		(void)printf(":files\n");
	else if (v->argument && (v->words_repeat || p->n_words == 0))
		offer_argument(t, v->argument);
	else if (t->text[0] == '\0')
		offer_options(t, v);
}

/* "--language=py": the value of a row, behind a lead. */
static void split_value(const struct verb *v, struct typed *t, struct place *p)
{
	const char *equals = strchr(t->text, '=');
	char name[64];

	if (p->row || p->dashes || strncmp(t->text, "--", 2) != 0 || !equals)
		return;
	if (snprintf(name, sizeof(name), "%.*s", (int)(equals - t->text), t->text) >=
	    (int)sizeof(name))
		return;
	p->row = options_awaiting(v->rows, v->n_rows, name);
	if (!p->row)
		return;
	t->lead = t->text;
	t->lead_len = (int)(equals - t->text) + 1;
	t->text = equals + 1;
}

static const struct verb *find(const char *name)
{
	for (const struct verb *const *v = verbs; *v; v++)
		if (strcmp((*v)->name, name) == 0)
			return *v;
	return NULL;
}

static int run_complete(int argc, char **argv)
{
	struct typed t = {.lead = "", .text = argc > 1 ? argv[argc - 1] : ""};
	const struct verb *v = argc > 2 ? find(argv[1]) : NULL;
	struct place p = {0};

	if (argc <= 2)
		offer_verbs(&t, "");
	if (!v)
		return 0;
	for (int i = 2; i < argc - 1; i++)
		pass_word(v, argv[i], &p);
	split_value(v, &t, &p);
	offer_word(&t, v, &p);
	return 0;
}

const struct verb verb_complete = {
	.name = "__complete",
	.usage = "WORD...",
	.about = "Prints what the last word of a command line may become; for shells.\n",
	.examples = "  cay __complete run --la\n",
	.run = run_complete,
};
