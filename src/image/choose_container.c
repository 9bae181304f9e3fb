#include "image/choose_container.h"

#include "base/attr.h"
#include "image/naming.h"

#include <stdio.h>
#include <string.h>

/* The first version that runs TypeScript itself, in a tag. */
#define TOOLLESS_VERSION "22"

/* "python:{version}-slim" */
static void put_version(const char *pattern, const char *version, char *to, size_t size)
{
	const char *at = strstr(pattern, "{version}");

	if (at)
		(void)snprintf(to, size, "%.*s%s%s", (int)(at - pattern), pattern, version,
			       at + strlen("{version}"));
	else
		(void)snprintf(to, size, "%s", pattern);
}

/* Its plain name: those with numbers in them are an installation's own. */
static const char *program_of(const struct language *l)
{
	for (size_t n = 0; n < LANGUAGE_WORDS_MAX && l->programs[n].name; n++)
		if (!strchr(l->programs[n].name, '*'))
			return l->programs[n].name;
	return l->name;
}

/* NULL: none is known. */
static const char *version_of(const struct spec *spec)
{
	const struct language *l = spec->language;

	if (spec->version)
		return spec->version;
	if (l->toolless_since)
		return TOOLLESS_VERSION;
	return spec->image ? NULL : language_base(l)->image_version;
}

static int describe(const struct spec *spec, struct runtime *rt, struct cay_error *err)
{
	const struct language *l = spec->language;
	const char *version = version_of(spec);

	*rt = (struct runtime){.language = l};
	(void)snprintf(rt->program, sizeof(rt->program), "%s", program_of(language_base(l)));
	if (version)
		(void)snprintf(rt->version, sizeof(rt->version), "%s", version);
	/* "22" is its newest. */
	if (l->tool && l->toolless_since &&
	    (!version || version_compare(version, TOOLLESS_VERSION) < 0 ||
	     (strchr(version, '.') && !language_is_toolless(l, version)))) {
		(void)cay_fail(err, CAY_E_RUNTIME, 0, "%s %s needs %s, which its image has not",
			       l->name, version ? version : "", l->tool);
		return cay_hint(err, "from version %s on it works without", l->toolless_since);
	}
	if (l->tool && !l->toolless_since)
		(void)snprintf(rt->tool, sizeof(rt->tool), "%s", l->tool);
	return 0;
}

int container_choose(const struct settings *s, const struct spec *spec,
		     char ret_image[IMAGE_REF_SIZE], struct runtime *ret_runtime,
		     struct cay_error *err)
{
	bool program = spec->kind != SPEC_ARGV && spec->language;
	const char *usual = program ? language_base(spec->language)->image : NULL;
	const char *version = program ? version_of(spec) : NULL;
	char name[IMAGE_REF_SIZE];

	if (program && describe(spec, ret_runtime, err) < 0)
		return -1;
	if (spec->image)
		(void)snprintf(name, sizeof(name), "%s", spec->image);
	else
		put_version(usual ? usual : CONTAINER_IMAGE, version ? version : "latest", name,
			    sizeof(name));
	if (strcmp(name, IMAGE_HOST) == 0) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "a container can't be made of this machine's own /usr");
		return cay_hint(err, "name an image that the engine has, or leave it out");
	}
	if (image_name_resolve(s, name, ret_image, err) < 0 ||
	    image_may_use(s, ret_image, NULL, err) < 0)
		return -1;
	return 0;
}
