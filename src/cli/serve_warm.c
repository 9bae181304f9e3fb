#include "cli/serve_warm.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "core/limit.h"
#include "image/images.h"
#include "image/runtime.h"
#include "image/runtime_choose.h"
#include "policy/warm.h"
#include "spec/driver.h"
#include "spec/language.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define LANGUAGE "python"
#define MODULE   "_cay_warm.so"

/* What an interpreter is started with: python3 -c BOOT DRIVER MODULE... */
static const char boot[] = {
#include "warm-boot.h"
	0};

/* Enough for everything that is loaded: pandas takes 60 MB. Islands count for themselves. */
#define ZYGOTE_MEMORY (1ull << 30)
#define ZYGOTE_DISK   (64ull << 20)

static int add_modules(struct strv *args, const char *modules)
{
	int r = 0;

	while (*modules && *modules != '\n' && r == 0) {
		size_t n = strcspn(modules, ",\n");

		r = strv_addf(args, "%.*s", (int)n, modules);
		modules += n + (modules[n] == ',');
	}
	return r;
}

static int make_plan(const struct settings *s, const struct runtime *rt, const struct image *image,
		     const char *set, struct plan **ret, struct cay_error *err)
{
	/* The operator's limits are for programs: this one is ours, and has no network. */
	struct settings own = *s;
	struct spec spec = {.kind = SPEC_CODE,
			    .language = rt->language,
			    .code = strdup(boot),
			    .code_len = strlen(boot)};
	int r = -1;

	own.maximum = (struct limits){0};
	spec.network.said = true;
	spec.network.mode = NETWORK_NONE;
	spec.limits.memory_bytes = ZYGOTE_MEMORY;
	spec.limits.disk_bytes = ZYGOTE_DISK;
	if (!spec.code || strv_add(&spec.args, driver_text(rt->language)) < 0 ||
	    add_modules(&spec.args, warm_modules(s, set)) < 0)
		(void)cay_fail(err, CAY_E_INTERNAL, ENOMEM, "plan a zygote");
	else
		r = plan_make(&spec, &own, rt, image, NULL, ret, err);
	spec_done(&spec);
	if (r < 0)
		return -1;
	/* Root of its own island: to bear others is what it is for. */
	(*ret)->uid = (*ret)->gid = 0;
	(*ret)->warm = 0;
	return 0;
}

static int add_kind(const struct settings *s, const struct runtime *rt, const struct image *image,
		    const char *set, struct serve_warm *w, struct cay_error *err)
{
	struct zygote_kind *more = realloc(w->kinds, (w->len + 1) * sizeof(*more)), *k;

	if (!more)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "plan a zygote");
	w->kinds = more;
	k = &more[w->len++];
	*k = (struct zygote_kind){.module = w->module,
				  .set = strdup(set),
				  .program = strdup(rt->program),
				  /* What most runs will want is there from the start. */
				  .wanted = !image && rt->default_reason &&
					    strcmp(set, WARM_DEFAULT) == 0};
	if (!k->set || !k->program)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "plan a zygote");
	return make_plan(s, rt, image, set, &k->plan, err);
}

/*
 * A copy: what is mapped has its path in /proc/self/maps, for every program to read, and where cay
 * is installed is none of their business.
 */
static int open_module(void)
{
	_cleanup_(fd_closep) int path = helper_open(MODULE), file = -1;
	char name[64];
	struct stat st;
	void *data;
	int fd;

	if (path < 0)
		return -1;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", path); /* it is only known by path */
	file = open(name, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return -1;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (data == MAP_FAILED)
		return -1;
	fd = fd_sealed("python", data, (size_t)st.st_size);
	(void)munmap(data, (size_t)st.st_size);
	return fd;
}

static int add_sets(const struct settings *s, const struct runtime *rt, const struct image *image,
		    const struct strv *sets, struct serve_warm *w, struct cay_error *err)
{
	int r = 0;

	for (size_t i = 0; i < sets->len && r == 0 && warm_can(rt); i++)
		r = add_kind(s, rt, image, sets->items[i], w, err);
	return r;
}

static int add_host(const struct settings *s, const struct strv *sets, struct serve_warm *w,
		    struct cay_error *err)
{
	struct runtimes found = {0};
	int r = runtimes_find(s, language_find(LANGUAGE), NULL, &found, err);

	for (size_t i = 0; i < found.len && r == 0; i++)
		r = add_sets(s, &found.items[i], NULL, sets, w, err);
	runtimes_done(&found);
	return r;
}

/* One that is not in the store, or has no python, is no reason not to serve. */
static int add_image(const struct settings *s, const char *store, const char *name,
		     const struct strv *sets, struct serve_warm *w, struct cay_error *err)
{
	struct image *image = NULL;
	struct cay_error why;
	struct runtime rt;
	int r = 0;

	if (images_find(store, name, &image, &why) < 0 ||
	    runtime_choose_of(image, name, s, language_find(LANGUAGE), NULL, &rt, &why) < 0)
		log_warning("no warm starts of an image", "image", name, "why", why.text);
	else
		r = add_sets(s, &rt, image, sets, w, err);
	image_free(image);
	return r;
}

int serve_warm_find(const struct settings *s, const char *store, struct serve_warm *ret,
		    struct cay_error *err)
{
	_cleanup_(strv_done) struct strv sets = {0};
	int r;

	*ret = (struct serve_warm){.module = s->warm_enabled ? open_module() : -1};
	if (ret->module < 0)
		return 0;
	if (warm_sets(s, &sets) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "plan zygotes");
	r = add_host(s, &sets, ret, err);
	for (size_t i = 0; i < s->warm_images.len && r == 0; i++)
		r = add_image(s, store, s->warm_images.items[i], &sets, ret, err);
	return r;
}
