#include "image/describe.h"

#include "base/attr.h"
#include "base/json.h"
#include "image/cursor.h"
#include "image/digest.h"
#include "image/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 4096

static int wrong(const char *what, struct cay_error *err)
{
	return cay_fail(err, CAY_E_INVALID, 0, "the image's configuration has no %s that can be",
			what);
}

/* null, or not there: none. "" counts as none, too: so Docker writes it. */
static int take_text(const struct json *j, const char *name, char **ret, struct cay_error *err)
{
	const struct json *value = json_get(j, name);
	const char *text = json_str(value);

	if (!value || json_kind(value) == JSON_KIND_NULL || (text && !*text))
		return 0;
	if (!text)
		return wrong(name, err);
	*ret = strdup(text);
	return *ret ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the configuration");
}

static int take_words(const struct json *j, const char *name, struct strv *ret,
		      struct cay_error *err)
{
	const struct json *list = json_get(j, name);

	if (!list || json_kind(list) == JSON_KIND_NULL)
		return 0;
	if (json_kind(list) != JSON_KIND_ARRAY || json_len(list) > WORDS_MAX)
		return wrong(name, err);
	for (size_t i = 0; i < json_len(list); i++) {
		const char *word = json_str(json_at(list, i));

		if (!word)
			return wrong(name, err);
		if (strv_add(ret, word) < 0)
			return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the configuration");
	}
	return 0;
}

/* NAME=VALUE; of two of one name the later one counts. */
static int take_env(const struct json *j, struct strv *ret, struct cay_error *err)
{
	_cleanup_(strv_done) struct strv words = {0};

	if (take_words(j, "Env", &words, err) < 0)
		return -1;
	for (size_t i = 0; i < words.len; i++)
		if (!strchr(words.items[i], '=') || words.items[i][0] == '=')
			return wrong("Env", err);
	return strv_merge_env(ret, &words) < 0
		       ? cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the configuration")
		       : 0;
}

/* Relative to the root, as Docker takes it; and without "..", which no record has. */
static int take_workdir(const struct json *j, char **ret, struct cay_error *err)
{
	char *text = NULL;
	int r = take_text(j, "WorkingDir", &text, err);

	if (r < 0 || !text)
		return r;
	r = cursor_absolute(text, ret);
	free(text);
	if (r == -ENOMEM)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the configuration");
	return r < 0 ? wrong("WorkingDir", err) : 0;
}

static int take_layers(const struct buf *config, struct image *ret, struct cay_error *err)
{
	struct image_config c;

	if (image_config_parse(buf_str(config), config->len, &c, err) < 0)
		return -1;
	ret->layers = c.diff_ids;
	c.diff_ids = (struct strv){0};
	image_config_done(&c);
	return 0;
}

int describe_config(const struct buf *config, struct image *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *inner;
	struct json_fault fault;

	memset(ret, 0, sizeof(*ret));
	if (digest_of(config->data, config->len, ret->id) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the configuration");
	/* It says what is wrong with the text, too. */
	if (take_layers(config, ret, err) < 0)
		return -1;
	if (json_parse(buf_str(config), config->len, IMAGE_CONFIG_MAX, &j, &fault) < 0)
		return wrong("text", err);
	inner = json_get(j, "config");
	if (take_text(j, "os", &ret->os, err) < 0 ||
	    take_text(j, "architecture", &ret->architecture, err) < 0 ||
	    take_text(j, "created", &ret->created, err) < 0 ||
	    take_text(inner, "User", &ret->user, err) < 0 ||
	    take_workdir(inner, &ret->workdir, err) < 0 || take_env(inner, &ret->env, err) < 0 ||
	    take_words(inner, "Entrypoint", &ret->entrypoint, err) < 0)
		return -1;
	return take_words(inner, "Cmd", &ret->cmd, err);
}
