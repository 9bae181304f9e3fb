#include "image/runtime_choose.h"

#include "base/attr.h"
#include "base/buf.h"
#include "image/runtime_images.h"
#include "spec/version.h"

#include <assert.h>
#include <string.h>

#define LIST_MAX_BYTES    400 /* of the versions named in an error */
#define OPERATOR_SETTINGS "/etc/cay/cay.conf"

/* Stable: what was found first stays in front of its equals. */
static void sort_newest_first(struct runtimes *r)
{
	for (size_t i = 1; i < r->len; i++) {
		struct runtime item = r->items[i];
		size_t k = i;

		for (; k > 0 && version_compare(r->items[k - 1].version, item.version) < 0; k--)
			r->items[k] = r->items[k - 1];
		if (k != i)
			r->items[k] = item;
	}
}

/* What was named comes before what is there, and images before the host's own. */
static int rank(const struct runtime *rt)
{
	return strcmp(rt->source, RUNTIME_HOST) == 0 ? 2 : strcmp(rt->source, RUNTIME_STORE) == 0;
}

/*
 * usable: only one that lacks nothing. request NULL: the newest of all, as sources can't be
 * compared by which of several versions was meant.
 */
static struct runtime *best_match(const struct runtimes *r, const char *request, bool usable)
{
	struct runtime *best = NULL;

	for (size_t i = 0; i < r->len; i++) {
		struct runtime *rt = &r->items[i];

		if ((request && !version_matches(rt->version, request)) || (usable && rt->lacks))
			continue;
		if (!best || (request && rank(rt) < rank(best)))
			best = rt;
	}
	return best;
}

/* The language's own word, then that of the one it runs on; settings before the table. */
static const char *preferred(const struct language *language, const struct settings *s)
{
	const struct language *const rows[] = {language, language_base(language)};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct language_settings *ls = settings_language(s, rows[i]->name);

		if (ls && ls->prefer)
			return ls->prefer;
		if (rows[i]->prefer)
			return rows[i]->prefer;
	}
	return NULL;
}

void runtimes_order(struct runtimes *r, const struct language *language, const struct settings *s)
{
	const char *prefer = preferred(language, s);
	struct runtime *match;

	sort_newest_first(r);
	match = prefer ? best_match(r, prefer, true) : NULL;

	if (match) {
		match->default_reason = "preferred";
		return;
	}
	match = best_match(r, NULL, true);
	if (match)
		match->default_reason = match->version[0] ? "newest" : "first found";
}

/* Choice */

static int hint_get(const struct language *language, const char *version, struct cay_error *err)
{
	char image[RUNTIME_IMAGE_SIZE];

	runtime_image_name(language, version, image);
	return cay_hint(err,
			"%s%s%sinstall the Debian package%s %s, or name a directory: [language %s] "
			"path = DIR in " OPERATOR_SETTINGS,
			image[0] ? "cay image pull " : "", image, image[0] ? ", " : "",
			strchr(language->package, ' ') ? "s" : "", language->package,
			language_base(language)->name);
}

static int fail_none(const struct language *language, const char *version, struct cay_error *err)
{
	if (language->runs_on)
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "no %s found, which %s runs on",
			       language_base(language)->programs[0].name, language->name);
	else
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "no %s found", language->name);
	return hint_get(language, version, err);
}

/* The versions there are, each once, oldest first; how many, and 0 or -errno in *ret_full. */
static size_t list_versions(const struct runtimes *r, struct buf *list, int *ret_full)
{
	size_t named = 0;
	int full = 0;

	assert(r->len == 0 || r->items);

	for (size_t i = r->len; i-- > 0 && !full;) {
		const char *v = r->items[i].version;

		if (i + 1 < r->len && strcmp(v, r->items[i + 1].version) == 0)
			continue;
		full = buf_printf(list, "%s%s", named ? ", " : "", v[0] ? v : "an unknown one");
		named++;
	}
	*ret_full = full;
	return named;
}

static int fail_no_match(const struct runtimes *r, const struct language *language,
			 const char *version, const char *image, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf list = BUF(LIST_MAX_BYTES);
	size_t named;
	int full;

	if (!language_has_versions(language)) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "%s has no versions to choose from",
			       language->name);
		return cay_hint(err, "ask for %s without @%s", language->name, version);
	}
	named = list_versions(r, &list, &full);
	if (image) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0,
			       "%s %s is not in the image %.200s; there %s %s%s", language->name,
			       version, image, named == 1 ? "is" : "are", buf_str(&list),
			       full ? " …" : "");
		return cay_hint(err, "name an image that has it, or none");
	}
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "%s %s is not here; there %s %s%s", language->name,
		       version, named == 1 ? "is" : "are", buf_str(&list), full ? " …" : "");
	return hint_get(language, version, err);
}

/* All that is in it. */
static int fail_not_in_image(const struct image *image, const char *name,
			     const struct language *language, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf list = BUF(LIST_MAX_BYTES);
	int full = 0;

	for (size_t i = 0; i < image->n_runtimes && !full; i++)
		full = buf_printf(&list, "%s%s%s%s", i ? ", " : "", image->runtimes[i].language,
				  image->runtimes[i].version[0] ? " " : "",
				  image->runtimes[i].version);
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "the image %.200s has no %s; it has %s%s", name,
		       language->name, list.len > 0 ? buf_str(&list) : "no language that is known",
		       full ? " …" : "");
	return cay_hint(err, "name an image that has it, or none; or a command: cay run --image "
			     "IMAGE -- CMD");
}

/* It would do, but for the tool. */
static int fail_lacking(const struct runtime *rt, struct cay_error *err)
{
	const struct language *language = rt->language;

	if (rt->image[0]) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0,
			       "the image %.200s has no %s, which %s needs with %s", rt->image,
			       language->tool, language->name, rt->program);
		return cay_hint(err, "name an image that has it, or none");
	}
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "no %s found, which %s needs with %s%s%s",
		       language->tool, language->name, rt->program,
		       rt->version[0] ? ", version " : "", rt->version);
	return cay_hint(err,
			"install the Debian package%s %s, or name a directory that has %s too: "
			"[language %s] path = DIR in " OPERATOR_SETTINGS,
			strchr(language->package, ' ') ? "s" : "", language->package,
			language->tool, language_base(language)->name);
}

static int check_version(const struct language *language, const char *version,
			 struct cay_error *err)
{
	const char *example = language_base(language)->prefer;

	if (!version || version_is_request(version))
		return 0;
	return cay_fail(err, CAY_E_INVALID, 0,
			"'%.40s' is no version of %s: digits and dots, as in %s", version,
			language->name, example ? example : "1.2");
}

/* image: whose they all are, or NULL. */
static int pick(const struct runtimes *all, const struct language *language, const char *version,
		const char *image, struct runtime *ret, struct cay_error *err)
{
	const struct runtime *chosen = version ? best_match(all, version, true) : NULL;

	for (size_t i = 0; !version && i < all->len; i++)
		if (all->items[i].default_reason)
			chosen = &all->items[i];
	if (chosen) {
		*ret = *chosen;
		return 0;
	}
	chosen = best_match(all, version, false);
	return chosen ? fail_lacking(chosen, err)
		      : fail_no_match(all, language, version, image, err);
}

int runtime_choose_in(const struct runtime_places *places, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err)
{
	_cleanup_(runtimes_done) struct runtimes all = {0};

	if (check_version(language, version, err) < 0 ||
	    runtimes_find_in(places, s, language, &all, err) < 0)
		return -1;
	if (all.len == 0)
		return fail_none(language, version, err);
	return pick(&all, language, version, NULL, ret, err);
}

int runtime_choose_of(const struct image *image, const char *name, const struct settings *s,
		      const struct language *language, const char *version, struct runtime *ret,
		      struct cay_error *err)
{
	_cleanup_(runtimes_done) struct runtimes all = {0};

	if (check_version(language, version, err) < 0 ||
	    runtime_images_in(image, name, RUNTIME_STORE, language, &all, err) < 0)
		return -1;
	if (all.len == 0)
		return fail_not_in_image(image, name, language, err);
	runtimes_order(&all, language, s);
	return pick(&all, language, version, name, ret, err);
}

int runtime_choose(const struct settings *s, const struct language *language, const char *version,
		   const char *images, struct runtime *ret, struct cay_error *err)
{
	char cache[PATH_MAX];
	struct runtime_places places = runtime_places(images, cache);

	return runtime_choose_in(&places, s, language, version, ret, err);
}
