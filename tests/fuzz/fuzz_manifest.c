/* A manifest or a configuration: what is taken keeps to the limits, and can be chosen from. */
#include "fuzz.h"

#include "image/manifest.h"

static void check_descriptor(const struct descriptor *d)
{
	CHECK(strspn(d->digest, "0123456789abcdef") == 64 && strlen(d->digest) == 64);
	CHECK(memchr(d->type, '\0', sizeof(d->type)));
}

static void check_index(const struct manifest *m)
{
	const struct platform here = {.os = "linux", .architecture = "amd64"};
	const struct manifest_entry *entry;
	struct cay_error err;

	CHECK(m->n_entries <= MANIFEST_ENTRIES_MAX && m->n_layers == 0);
	for (size_t i = 0; i < m->n_entries; i++) {
		check_descriptor(&m->entries[i].manifest);
		CHECK(m->entries[i].manifest.size <= IMAGE_MANIFEST_MAX);
	}
	if (manifest_choose(m, &here, &entry, &err) < 0) {
		CHECK(err.code == CAY_E_IMAGE);
		return;
	}
	CHECK(entry >= m->entries && entry < m->entries + m->n_entries);
	CHECK(strcmp(entry->platform.architecture, "amd64") == 0);
}

static void check_image(const struct manifest *m)
{
	CHECK(m->n_layers <= IMAGE_LAYERS_MAX && m->n_entries == 0);
	check_descriptor(&m->config);
	CHECK(m->config.size <= IMAGE_CONFIG_MAX);
	for (size_t i = 0; i < m->n_layers; i++) {
		check_descriptor(&m->layers[i]);
		CHECK(m->layers[i].size <= MANIFEST_LAYER_MAX);
	}
}

static void check_config(const char *text, size_t len)
{
	struct image_config c;
	struct cay_error err;

	if (image_config_parse(text, len, &c, &err) < 0)
		return;
	CHECK(c.diff_ids.len <= IMAGE_LAYERS_MAX);
	for (size_t i = 0; i < c.diff_ids.len; i++)
		CHECK(strlen(c.diff_ids.items[i]) == 64);
	image_config_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *type = input_line(&in);
	size_t len = in.len;
	_cleanup_(freep) char *text = input_rest(&in);
	struct manifest m;
	struct cay_error err;

	check_config(text, len);
	if (manifest_parse(text, len, type, &m, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID || err.code == CAY_E_UNSUPPORTED ||
		      err.code == CAY_E_TOO_LARGE);
		return 0;
	}
	if (m.is_index)
		check_index(&m);
	else
		check_image(&m);
	manifest_done(&m);
	return 0;
}
