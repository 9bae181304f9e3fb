/*
 * cay-image pull: an image by its name, from a registry. This process has the rights, and checks
 * every digest; those that talk to the registry (fetch.h) have none.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/call.h"
#include "image/digest.h"
#include "image/docker_config.h"
#include "image/fetch.h"
#include "image/gather.h"
#include "image/images.h"
#include "image/manifest.h"
#include "image/platform.h"
#include "image/ref.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL_MAX IMAGE_MANIFEST_MAX

/* They are the same today. NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(IMAGE_CONFIG_MAX <= SMALL_MAX, "a configuration is no larger than a manifest");

struct pulled {
	struct image_call *call;
	struct image_ref ref;
	char name[IMAGE_REF_SIZE]; /* in full */
	char dir[PATH_MAX];        /* of the store */
	struct platform wanted;
	struct fetcher fetchers[GATHER_FETCHERS];
	struct manifest manifest;
	struct image_config config;
	struct image_parts parts;
};

static int add_source(struct fetch_whom *whom, const char *url, const char *registry,
		      const char *repository, bool plain, struct cay_error *err)
{
	struct source *s = &whom->sources[whom->n_sources];

	if (whom->n_sources == REGISTRY_SOURCES_MAX)
		return cay_fail(err, CAY_E_INVALID, 0, "more than %d mirrors of one registry",
				REGISTRY_SOURCES_MAX - 1);
	(void)snprintf(s->url, sizeof(s->url), "%s", url);
	s->plain = plain;
	if (docker_config_find(registry, repository, &s->login, err) < 0)
		return -1;
	whom->n_sources++;
	return 0;
}

/* An operator who writes http:// means it. */
static int add_mirror(struct fetch_whom *whom, const char *url, const char *repository,
		      struct cay_error *err)
{
	const char *host = strstr(url, "://") + 3;
	char registry[REGISTRY_SIZE];

	(void)snprintf(registry, sizeof(registry), "%.*s", (int)strcspn(host, "/"), host);
	return add_source(whom, url, registry, repository, strncmp(url, "http:", 5) == 0, err);
}

static int find_whom(const struct pulled *p, struct fetch_whom *whom, struct cay_error *err)
{
	const struct settings *s = &p->call->settings;
	const struct image_ref *ref = &p->ref;
	size_t len = strlen(ref->registry);
	bool plain = false;

	(void)snprintf(whom->repository, sizeof(whom->repository), "%s", ref->repository);
	whom->stall_s = (unsigned)s->images_stall_timeout;
	for (size_t i = 0; i < s->images_mirrors.len; i++) {
		const char *mirror = s->images_mirrors.items[i];

		if (strncmp(mirror, ref->registry, len) == 0 && mirror[len] == '=' &&
		    add_mirror(whom, mirror + len + 1, ref->repository, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < s->images_plain_http.len; i++)
		plain |= strcmp(s->images_plain_http.items[i], ref->registry) == 0;
	return add_source(whom, image_ref_host(ref->registry), ref->registry, ref->repository,
			  plain, err);
}

/* The most that a file of a download can have; what is small comes by files in memory. */
static uint64_t largest_file(uint64_t budget_bytes)
{
	if (budget_bytes == 0 || budget_bytes > MANIFEST_LAYER_MAX)
		return MANIFEST_LAYER_MAX;
	return budget_bytes < SMALL_MAX ? SMALL_MAX : budget_bytes;
}

/* Those that download hear only now whom to ask: what else a file has is not in their memory. */
static int start_fetchers(struct pulled *p, struct cay_error *err)
{
	uint64_t most = largest_file(p->call->settings.images_budget);
	struct fetch_whom *whom = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < GATHER_FETCHERS; i++)
		r = fetcher_start(&p->fetchers[i], most, err);
	if (r < 0)
		return -1;
	whom = calloc(1, sizeof(*whom));
	if (!whom)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "find whom to ask for an image");
	r = find_whom(p, whom, err);
	for (size_t i = 0; r == 0 && i < GATHER_FETCHERS; i++)
		r = fetcher_tell(&p->fetchers[i], whom, err);
	explicit_bzero(whom, sizeof(*whom));
	free(whom);
	return r;
}

/* Something small, into memory. */
static int bring(const struct pulled *p, const struct fetch_order *order, struct buf *ret,
		 struct fetch_report *ret_report, struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("cay-image", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "have room for a manifest");
	if (fetcher_order(&p->fetchers[0], order, fd, err) < 0)
		return -1;
	do
		fetcher_report(&p->fetchers[0], ret_report);
	while (ret_report->news == FETCH_MORE);
	if (ret_report->news == FETCH_FAILED) {
		*err = ret_report->err;
		return -1;
	}
	r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd_read_all(fd, ret);
	return r < 0 ? cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_INTERNAL, -r,
				"read what a registry sent")
		     : 0;
}

static int check_digest(const struct buf *bytes, const char *digest, const char *what,
			struct cay_error *err)
{
	char own[IMAGE_ID_SIZE];
	int r = digest_of(bytes->data, bytes->len, own);

	if (r < 0)
		return cay_fail(err, CAY_E_INTERNAL, -r, "check the %s", what);
	if (strcmp(own, digest) != 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the %s is not the one that was promised: its digest is %s, not %s",
				what, own, digest);
	return 0;
}

/* A manifest, by a tag or a digest ("": the tag), and what it really is. */
static int get_manifest(struct pulled *p, const char *digest, uint64_t size, struct manifest *ret,
			struct cay_error *err)
{
	struct fetch_order order = {
		.kind = FETCH_MANIFEST, .size = IMAGE_MANIFEST_MAX, .at_most = true};
	struct buf *bytes = &p->parts.manifest_bytes;
	char *own = p->parts.manifest, claimed[IMAGE_ID_SIZE];
	struct fetch_report report;

	(void)snprintf(order.reference, sizeof(order.reference), "%s%s",
		       digest[0] ? DIGEST_PREFIX : "", digest[0] ? digest : p->ref.tag);
	buf_done(bytes);
	if (bring(p, &order, bytes, &report, err) < 0)
		return -1;
	if (digest_of(bytes->data, bytes->len, own) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "check the manifest");
	if (size > 0 && bytes->len != size)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the manifest has %zu bytes, not the %llu that were promised",
				bytes->len, (unsigned long long)size);
	if (digest[0] && check_digest(bytes, digest, "manifest", err) < 0)
		return -1;
	/* Of a tag the registry says itself what it is; some use other digests than SHA-256. */
	if (!digest[0] && digest_parse(report.digest, claimed) == 0 &&
	    check_digest(bytes, claimed, "manifest", err) < 0)
		return -1;
	return manifest_parse(buf_str(bytes), bytes->len, report.type, ret, err);
}

/* The image's manifest: by way of an index, where there is one. */
static int get_manifests(struct pulled *p, struct cay_error *err)
{
	const struct manifest_entry *entry;
	struct manifest index;
	int r;

	if (get_manifest(p, p->ref.digest, 0, &p->manifest, err) < 0)
		return -1;
	if (!p->manifest.is_index)
		return 0;
	index = p->manifest;
	p->manifest = (struct manifest){0};
	r = manifest_choose(&index, &p->wanted, &entry, err);
	if (r == 0)
		r = get_manifest(p, entry->manifest.digest, entry->manifest.size, &p->manifest,
				 err);
	manifest_done(&index);
	if (r == 0 && p->manifest.is_index)
		return cay_fail(err, CAY_E_UNSUPPORTED, 0, "an index of indexes");
	return r;
}

/*
 * Never from the store, though it may be there: who serves a manifest has to have what it names, or
 * whoever knows an image's id could give that image another name.
 */
static int get_config(struct pulled *p, struct cay_error *err)
{
	const struct descriptor *d = &p->manifest.config;
	struct fetch_order order = {.kind = FETCH_BLOB, .size = d->size};
	struct fetch_report report;

	(void)snprintf(order.reference, sizeof(order.reference), "%s", d->digest);
	if (bring(p, &order, &p->parts.config, &report, err) < 0 ||
	    check_digest(&p->parts.config, d->digest, "configuration", err) < 0)
		return -1;
	if (image_config_parse(buf_str(&p->parts.config), p->parts.config.len, &p->config, err) < 0)
		return -1;
	if (p->config.diff_ids.len != p->manifest.n_layers)
		return cay_fail(err, CAY_E_INVALID, 0,
				"the configuration has %zu layers, and the manifest %zu",
				p->config.diff_ids.len, p->manifest.n_layers);
	return 0;
}

static int check_platform(const struct pulled *p, struct cay_error *err)
{
	const struct platform *is = &p->config.platform;
	char has[PLATFORM_SIZE], wanted[PLATFORM_SIZE];

	if (strcmp(is->os, p->wanted.os) == 0 &&
	    strcmp(is->architecture, p->wanted.architecture) == 0)
		return 0;
	platform_text(is, has);
	platform_text(&p->wanted, wanted);
	(void)cay_fail(err, CAY_E_IMAGE, 0, "the image is for %s, not for %s", has, wanted);
	return cay_hint(err, "--platform %s takes it as it is", has);
}

static int list_layers(struct pulled *p, struct cay_error *err)
{
	struct image_parts *parts = &p->parts;

	parts->layers = calloc(p->manifest.n_layers + 1, sizeof(*parts->layers));
	if (!parts->layers)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the layers");
	parts->n_layers = p->manifest.n_layers;
	for (size_t i = 0; i < parts->n_layers; i++) {
		struct image_layer *l = &parts->layers[i];

		l->fd = -1;
		l->size = p->manifest.layers[i].size;
		memcpy(l->digest, p->manifest.layers[i].digest, sizeof(l->digest));
		(void)snprintf(l->diff_id, sizeof(l->diff_id), "%s", p->config.diff_ids.items[i]);
	}
	return 0;
}

static int add_image(struct store *store, void *ctx, const struct progress *progress _unused_,
		     struct cay_error *err)
{
	const struct pulled *p = ctx;
	char id[IMAGE_ID_SIZE];

	return store_add_image(store, &p->parts, p->name, id, err);
}

static int get_layers(struct pulled *p, struct cay_error *err)
{
	struct gather_call call = {
		.store = p->call->store,
		.store_dir = p->dir,
		.budget_bytes = p->call->settings.images_budget,
		.fetchers = p->fetchers,
		.manifest = &p->manifest,
		.diff_ids = &p->config.diff_ids,
		.title = p->name,
		.json = p->call->json,
		.finish = add_image,
		.ctx = p,
	};

	return gather(&call, err);
}

static int prepare(struct pulled *p, struct cay_error *err)
{
	const char *platform = p->call->platform;
	int r = images_dir(&p->call->settings, p->dir);

	if (r < 0)
		return cay_fail(err, CAY_E_INVALID, -r, "find the image store");
	if (image_ref_parse(p->call->args[0], &p->ref, err) < 0 ||
	    (platform ? platform_parse(platform, &p->wanted, err)
		      : platform_here(&p->wanted, err)) < 0)
		return -1;
	image_ref_text(&p->ref, p->name);
	return 0;
}

/* A pull that fails says whether there is something to go on with. */
static int fail_asking(const struct pulled *p, struct cay_error *err)
{
	struct image *there = NULL;
	struct cay_error none;

	if (images_find(p->dir, p->name, &there, &none) == 0 && err->code == CAY_E_IMAGE &&
	    !err->hint[0])
		(void)cay_hint(err, "an image of that name is in the store: runs go on using it");
	image_free(there);
	return cay_wrap(err, "pull %s", p->name);
}

static void pull_done(struct pulled *p)
{
	for (size_t i = 0; i < GATHER_FETCHERS; i++)
		fetcher_stop(&p->fetchers[i]);
	manifest_done(&p->manifest);
	image_config_done(&p->config);
	buf_done(&p->parts.config);
	buf_done(&p->parts.manifest_bytes);
	free(p->parts.layers);
}

static uint64_t bytes_of(const struct pulled *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->manifest.n_layers; i++)
		sum += p->manifest.layers[i].size;
	return sum;
}

int pull_main(struct image_call *call, struct cay_error *err)
{
	_cleanup_(pull_done) struct pulled p = {
		.call = call,
		.fetchers = {FETCHER_NONE, FETCHER_NONE, FETCHER_NONE},
		.parts = {.config = BUF(IMAGE_CONFIG_MAX),
			  .manifest_bytes = BUF(IMAGE_MANIFEST_MAX)},
	};

	if (prepare(&p, err) < 0)
		return -1;
	if (start_fetchers(&p, err) < 0 || get_manifests(&p, err) < 0 || get_config(&p, err) < 0)
		return fail_asking(&p, err);
	if (check_platform(&p, err) < 0 || list_layers(&p, err) < 0 || get_layers(&p, err) < 0)
		return cay_wrap(err, "pull %s", p.name);
	call_say(call, "pulled", p.manifest.config.digest, p.name, bytes_of(&p));
	return 0;
}
