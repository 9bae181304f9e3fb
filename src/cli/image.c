/*
 * cay image: what is read of the store is read here; what writes is cay-image's, which this
 * becomes. Where CAY_HOST names a daemon, its API does either.
 */
#include "cli/image.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/image_program.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "image/images.h"
#include "image/naming.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct option_row rows[] = {
	{0, "platform", "OS/ARCH", "pull: another than this machine's",
	 OPTION_STORE(struct image_ask, platform)},
	{'a', "all", NULL, "prune: also images without a name",
	 OPTION_STORE(struct image_ask, all)},
	{0, "json", NULL, "as JSON; of what takes long, a line a step",
	 OPTION_STORE(struct image_ask, json)},
};

/* Reading */

static int find_dir(const struct image_ask *a, char dir[PATH_MAX], struct cay_error *err)
{
	int r = images_dir(&a->settings, dir);

	return r < 0 ? cay_fail(err, CAY_E_INVALID, -r, "find the image store") : 0;
}

static struct json *image_json(const struct image *image)
{
	struct json *j = NULL;

	(void)record_json(image, &j); /* noticed where it is written */
	return j;
}

static int list_here(const struct image_ask *a, struct json **ret, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv damaged = {0};
	struct json *all, *list;
	struct image **images;
	char dir[PATH_MAX];
	size_t n;

	if (find_dir(a, dir, err) < 0 || images_list(dir, &images, &n, &damaged, err) < 0)
		return -1;
	for (size_t i = 0; i < damaged.len; i++)
		cli_say("not listed: %s (pull or load the image again, or cay image rm)",
			damaged.items[i]);
	all = json_new_object();
	list = json_new_array();
	for (size_t i = 0; i < n; i++)
		json_add(list, image_json(images[i]));
	image_list_free(images, n);
	json_set(all, "images", list);
	*ret = all;
	return 0;
}

static int get_here(const struct image_ask *a, const char *word, struct json **ret,
		    struct cay_error *err)
{
	_cleanup_(image_freep) struct image *image = NULL;
	char dir[PATH_MAX], name[IMAGE_REF_SIZE];

	if (image_name_resolve(&a->settings, word, name, err) < 0 || find_dir(a, dir, err) < 0 ||
	    images_find(dir, name, &image, err) < 0)
		return -1;
	*ret = image_json(image);
	return 0;
}

/* "3 days" since 2024-01-02T03:04:05Z; what is no time is none. */
static const char *age(const char *created, char text[24])
{
	struct tm tm = {0};

	if (!created || !strptime(created, "%Y-%m-%dT%H:%M:%S", &tm))
		return "-";
	return table_age(((int64_t)time(NULL) - (int64_t)timegm(&tm)) * 1000, text);
}

static int add_row(struct table *t, const struct json *image, const char *name,
		   struct cay_error *err)
{
	const char *id = json_str(json_get(image, "id"));
	char brief[IMAGE_REF_SIZE] = "", short_id[IMAGE_ID_PREFIX_MIN + 1], created[24], size[32];
	int64_t bytes = json_int(json_get(image, "size_bytes"));
	const char *cells[4];

	if (name)
		image_name_short(name, brief);
	(void)snprintf(short_id, sizeof(short_id), "%s", id ? id : "");
	cells[0] = brief;
	cells[1] = short_id;
	cells[2] = age(json_str(json_get(image, "created")), created);
	cells[3] = format_size(bytes > 0 ? (uint64_t)bytes : 0, size, sizeof(size));
	for (size_t i = 0; i < ARRAY_LEN(cells); i++)
		if (table_add(t, cells[i], err) < 0)
			return -1;
	return 0;
}

/* A line for each name, as people know images by them. */
static int print_list(const struct json *list, struct cay_error *err)
{
	static const char *const title[] = {"NAME", "ID", "CREATED", "SIZE"};
	_cleanup_(table_done) struct table t = {.columns = ARRAY_LEN(title)};

	for (size_t i = 0; i < ARRAY_LEN(title); i++)
		if (table_add(&t, title[i], err) < 0)
			return -1;
	for (size_t i = 0; i < json_len(list); i++) {
		const struct json *names = json_get(json_at(list, i), "names");

		if (json_len(names) == 0 && add_row(&t, json_at(list, i), NULL, err) < 0)
			return -1;
		for (size_t k = 0; k < json_len(names); k++) {
			const char *name = json_str(json_at(names, k));

			if (strlen(name ? name : "") < IMAGE_REF_SIZE &&
			    add_row(&t, json_at(list, i), name, err) < 0)
				return -1;
		}
	}
	return table_print(&t, err);
}

static int do_list(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *all = NULL;

	if (r ? image_remote_list(r, &all, err) : list_here(a, &all, err))
		return -1;
	return a->json ? cli_print_json(take_ptr(&all)) : print_list(json_get(all, "images"), err);
}

static int do_inspect(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	for (const char **word = a->words; *word; word++) {
		_cleanup_(json_freep) struct json *image = NULL;
		int code;

		if (r ? image_remote_get(r, *word, &image, err) : get_here(a, *word, &image, err))
			return -1;
		if (word > a->words && !a->json)
			(void)printf("\n");
		code = a->json ? cli_print_json(take_ptr(&image)) : image_print(image, err);
		if (code != 0)
			return code;
	}
	return 0;
}

/* Writing */

static int become(const struct image_ask *a, const char *verb, const char *const *words,
		  struct cay_error *err)
{
	const char *argv[IMAGE_WORDS_MAX + 10] = {"cay-image"};
	size_t n = 1;

	if (a->json) {
		argv[n++] = "--progress";
		argv[n++] = "json";
	}
	if (a->platform) {
		argv[n++] = "--platform";
		argv[n++] = a->platform;
	}
	if (a->all)
		argv[n++] = "--all";
	argv[n++] = verb;
	argv[n++] = "--"; /* a file may be called as an option is */
	for (; *words; words++)
		argv[n++] = *words;
	return image_program_become((char *const *)(uintptr_t)argv, err);
}

static int do_pull(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	char name[IMAGE_REF_SIZE];

	if (r)
		return image_remote_pull(r, a, err);
	if (image_name_resolve(&a->settings, a->words[0], name, err) < 0 ||
	    image_may_use(&a->settings, name, NULL, err) < 0)
		return -1;
	return become(a, "pull", (const char *const[]){name, NULL}, err);
}

static int do_rm(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	static char names[IMAGE_WORDS_MAX][IMAGE_REF_SIZE];
	const char *words[IMAGE_WORDS_MAX + 1] = {NULL};

	if (r)
		return image_remote_rm(r, a, err);
	for (size_t i = 0; a->words[i]; i++) {
		if (image_name_resolve(&a->settings, a->words[i], names[i], err) < 0)
			return -1;
		words[i] = names[i];
	}
	return become(a, "rm", words, err);
}

static int only_here(const struct remote *r, struct cay_error *err)
{
	if (!r)
		return 0;
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "this can't be asked of a daemon");
	return cay_hint(err, "without CAY_HOST, on the daemon's machine; or `cay image pull`");
}

static int do_load(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	return only_here(r, err) < 0 ? -1 : become(a, "load", a->words, err);
}

static int do_import(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	return only_here(r, err) < 0 ? -1 : become(a, "import", a->words, err);
}

static int do_prune(struct image_ask *a, struct remote *r, struct cay_error *err)
{
	return only_here(r, err) < 0 ? -1 : become(a, "prune", a->words, err);
}

static const struct kind {
	const char *name, *words;
	size_t min, max;
	int (*run)(struct image_ask *a, struct remote *r, struct cay_error *err);
} kinds[] = {
	{"list", "", 0, 0, do_list},
	{"inspect", "IMAGE...", 1, IMAGE_WORDS_MAX - 1, do_inspect},
	{"pull", "IMAGE", 1, 1, do_pull},
	{"load", "FILE [NAME]", 1, 2, do_load},
	{"import", "NAME PATH", 2, 2, do_import},
	{"rm", "IMAGE...", 1, IMAGE_WORDS_MAX - 1, do_rm},
	{"prune", "[--all]", 0, 0, do_prune},
};

static const struct kind *find_kind(const char *name, struct cay_error *err)
{
	struct guess guess = GUESS(name ? name : "");

	for (size_t i = 0; name && i < ARRAY_LEN(kinds); i++) {
		if (strcmp(name, kinds[i].name) == 0)
			return &kinds[i];
		guess_offer(&guess, kinds[i].name);
	}
	(void)cay_fail(err, CAY_E_INVALID, 0, "cay image: what about them?");
	(void)(guess.meant
		       ? cay_hint(err, "did you mean %s?", guess.meant)
		       : cay_hint(err, "list, inspect, pull, load, import, rm or prune; see cay "
				       "image --help"));
	return NULL;
}

static int carry_out(struct image_ask *a, const char *name, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	const struct kind *kind = find_kind(name, err);
	size_t n = 0;

	if (!kind)
		return -1;
	while (a->words[n])
		n++;
	if (n < kind->min || n > kind->max)
		return cay_fail(err, CAY_E_INVALID, 0, "usage: cay image %s %s", kind->name,
				kind->words);
	if (image_remote(&r, err) < 0 || (!r && settings_load(&a->settings, err) < 0))
		return -1;
	return kind->run(a, r, err);
}

static int run(int argc, char **argv)
{
	const char *words[IMAGE_WORDS_MAX + 1];
	struct image_ask *a = calloc(1, sizeof(*a));
	struct cay_error err;
	bool json;
	int r;

	if (!a) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
		return cli_error(&err, false);
	}
	settings_init(&a->settings);
	r = verb_parse(&verb_image, argc, argv, a, words, ARRAY_LEN(words), &err);
	if (r == 0) {
		memcpy(a->words, words + 1, IMAGE_WORDS_MAX * sizeof(words[0]));
		r = carry_out(a, words[0], &err);
	} else if (r == 1) {
		r = 0;
	}
	json = a->json;
	settings_done(&a->settings);
	free(a);
	return r < 0 ? cli_error(&err, json) : r;
}

const struct verb verb_image = {
	.name = "image",
	.summary = "pull, load, list and remove images",
	.usage = "list | inspect IMAGE... | pull IMAGE | load FILE [NAME] |\n"
		 "                 import NAME PATH | rm IMAGE... | prune",
	.about =
		"Keeps the images that islands can be made of: `cay run --image`. load takes what\n"
		"`docker save` writes, OCI archives and layouts, - for standard input; import a\n"
		"root directory or an archive of one. prune removes what no image needs.\n",
	.examples = "  cay image pull python:3.12-slim\n"
		    "  docker save app | cay image load -\n"
		    "  cay image import base ./rootfs\n",
	.notes = "IMAGE is a name as Docker has it, an alias of settings, or an id's beginning.\n"
		 "Exit code: 0, or 125 if something could not be done\n",
	.argument = "list|inspect|pull|load|import|rm|prune",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
