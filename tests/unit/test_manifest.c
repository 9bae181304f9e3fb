#include "image/manifest.h"

#include "base/attr.h"
#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HEX_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define DOCKER "application/vnd.docker."
#define OCI    "application/vnd.oci.image."
#define LAYER_A \
	"{\"mediaType\":\"" OCI "layer.v1.tar+gzip\",\"digest\":\"sha256:" HEX_A "\",\"size\":7}"
#define CONFIG \
	"{\"mediaType\":\"" OCI "config.v1+json\",\"digest\":\"sha256:" HEX_C "\",\"size\":9}"
#define IMAGE(layers) "{\"schemaVersion\":2,\"config\":" CONFIG ",\"layers\":[" layers "]}"
#define LAYER(type)   "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX_B "\",\"size\":8}"

static int parse(const char *text, const char *type, struct manifest *m, struct cay_error *err)
{
	return manifest_parse(text, strlen(text), type, m, err);
}

static void images(void **state)
{
	static const char *const types[] = {DOCKER "image.rootfs.diff.tar.gzip",
					    DOCKER "image.rootfs.diff.tar",
					    DOCKER "image.rootfs.diff.tar.zstd",
					    OCI "layer.v1.tar",
					    OCI "layer.v1.tar+gzip",
					    OCI "layer.v1.tar+zstd"};
	struct manifest m;
	struct cay_error err;
	char text[2000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		(void)snprintf(
			text, sizeof(text),
			"{\"schemaVersion\":2,\"mediaType\":\"%s\",\"config\":" CONFIG
			",\"layers\":[" LAYER_A ",{\"mediaType\":\"%s\",\"digest\":\"sha256:" HEX_B
			"\",\"size\":8,\"urls\":[]}],\"annotations\":{}}",
			i < 3 ? DOCKER "distribution.manifest.v2+json" : OCI "manifest.v1+json",
			types[i]);
		assert_int_equal(parse(text, NULL, &m, &err), 0);
		assert_false(m.is_index);
		assert_int_equal(m.n_layers, 2);
		assert_string_equal(m.layers[0].digest, HEX_A);
		assert_string_equal(m.layers[1].digest, HEX_B);
		assert_int_equal(m.layers[1].size, 8);
		assert_string_equal(m.config.digest, HEX_C);
		manifest_done(&m);
	}
	/* What the text does not say, the registry does, or its form. */
	assert_int_equal(parse(IMAGE(LAYER_A), OCI "manifest.v1+json", &m, &err), 0);
	manifest_done(&m);
	assert_int_equal(parse(IMAGE(""), "text/plain", &m, &err), 0);
	assert_int_equal(m.n_layers, 0);
	manifest_done(&m);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *text, *type;
		enum cay_code code;
	} rows[] = {
		{"", NULL, CAY_E_INVALID},
		{"[]", NULL, CAY_E_INVALID},
		{"{}", NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":3}", NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":2}", NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":1,\"fsLayers\":[]}", NULL, CAY_E_UNSUPPORTED},
		{"{}", DOCKER "distribution.manifest.v1+prettyjws", CAY_E_UNSUPPORTED},
		{"{\"schemaVersion\":2,\"mediaType\":\"text/html\"}", NULL, CAY_E_UNSUPPORTED},
		{"{\"schemaVersion\":2,\"manifests\":[],\"layers\":[]}", NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":2,\"config\":" CONFIG "}", NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":2,\"config\":" LAYER_A ",\"layers\":[]}", NULL,
		 CAY_E_UNSUPPORTED},
		{IMAGE("{}"), NULL, CAY_E_INVALID},
		{IMAGE("7"), NULL, CAY_E_INVALID},
		{IMAGE(LAYER(OCI "layer.nondistributable.v1.tar+gzip")), NULL, CAY_E_UNSUPPORTED},
		{IMAGE(LAYER(DOCKER "image.rootfs.foreign.diff.tar.gzip")), NULL,
		 CAY_E_UNSUPPORTED},
		{IMAGE(LAYER("application/x-lzma")), NULL, CAY_E_UNSUPPORTED},
		{IMAGE("{\"digest\":\"sha256:" HEX_A "\",\"size\":1}"), NULL, CAY_E_UNSUPPORTED},
		{IMAGE("{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:" HEX_A "\"}"),
		 NULL, CAY_E_INVALID},
		{IMAGE("{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:" HEX_A
		       "\",\"size\":-1}"),
		 NULL, CAY_E_INVALID},
		{IMAGE("{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"sha256:" HEX_A
		       "\",\"size\":9223372036854775807}"),
		 NULL, CAY_E_TOO_LARGE},
		{IMAGE("{\"mediaType\":\"" OCI "layer.v1.tar\",\"digest\":\"md5:" HEX_A
		       "\",\"size\":1}"),
		 NULL, CAY_E_INVALID},
		{IMAGE("{\"mediaType\":\"" OCI
		       "layer.v1.tar\",\"digest\":\"sha256:../../../etc/passwd\",\"size\":1}"),
		 NULL, CAY_E_INVALID},
		{"{\"schemaVersion\":2,\"schemaVersion\":2}", NULL, CAY_E_INVALID},
	};
	struct manifest m;
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (parse(rows[i].text, rows[i].type, &m, &err) == 0)
			fail_msg("%s is taken", rows[i].text);
		if (err.code != rows[i].code)
			fail_msg("%s: %s", rows[i].text, err.text);
	}
}

static void how_much(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF(8u << 20);
	struct manifest m;
	struct cay_error err;

	(void)state;
	for (int n = IMAGE_LAYERS_MAX; n <= IMAGE_LAYERS_MAX + 1; n++) {
		buf_done(&text);
		assert_int_equal(buf_append_str(&text, "{\"schemaVersion\":2,\"config\":" CONFIG
						       ",\"layers\":[" LAYER_A),
				 0);
		for (int i = 1; i < n; i++)
			assert_int_equal(buf_append_str(&text, "," LAYER_A), 0);
		assert_int_equal(buf_append_str(&text, "]}"), 0);
		assert_int_equal(manifest_parse(text.data, text.len, NULL, &m, &err),
				 n > IMAGE_LAYERS_MAX ? -1 : 0);
		if (n > IMAGE_LAYERS_MAX)
			assert_int_equal(err.code, CAY_E_TOO_LARGE);
		else
			manifest_done(&m);
	}
	while (text.len <= IMAGE_MANIFEST_MAX)
		assert_int_equal(buf_append_str(&text, "                                "), 0);
	assert_int_equal(manifest_parse(text.data, text.len, NULL, &m, &err), -1);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
}

#define ENTRY(hex, os, arch, variant)                                         \
	"{\"mediaType\":\"" OCI "manifest.v1+json\",\"digest\":\"sha256:" hex \
	"\",\"size\":5,\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" variant "}}"

static struct platform platform(const char *text)
{
	struct platform p;
	struct cay_error err;

	assert_int_equal(platform_parse(text, &p, &err), 0);
	return p;
}

static void which_platform(void **state)
{
	static const char text[] =
		"{\"schemaVersion\":2,\"mediaType\":\"" DOCKER
		"distribution.manifest.list.v2+json\",\"manifests\":[" ENTRY(
			HEX_C, "unknown", "unknown",
			"") "," ENTRY(HEX_A, "linux", "amd64", "") "," ENTRY(HEX_B, "linux", "arm",
									     ",\"variant\":"
									     "\"v6\"") "]}";
	static const struct {
		const char *wanted, *hex; /* NULL: none */
	} rows[] = {
		{"linux/amd64", HEX_A},  {"linux/amd64/v3", HEX_A}, {"linux/arm/v7", HEX_B},
		{"linux/arm", HEX_B},    {"linux/arm/v5", NULL},    {"linux/arm64", NULL},
		{"windows/amd64", NULL}, {"linux/386", NULL},       {"unknown/unknown", NULL},
	};
	const struct manifest_entry *entry;
	struct manifest m;
	struct cay_error err;

	(void)state;
	assert_int_equal(parse(text, NULL, &m, &err), 0);
	assert_true(m.is_index);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct platform wanted = platform(rows[i].wanted);

		assert_int_equal(manifest_choose(&m, &wanted, &entry, &err), rows[i].hex ? 0 : -1);
		if (rows[i].hex)
			assert_string_equal(entry->manifest.digest, rows[i].hex);
		else
			assert_string_equal(err.hint,
					    "there are images for linux/amd64, linux/arm/v6");
	}
	manifest_done(&m);
}

static void platforms(void **state)
{
	static const char *const bad[] = {"",
					  "linux",
					  "linux/",
					  "/amd64",
					  "linux//",
					  "linux/a/b/c",
					  "Linux/amd64",
					  "linux/a b",
					  "linux/amd64/"};
	struct platform p;
	struct cay_error err;
	char text[PLATFORM_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(platform_parse(bad[i], &p, &err), -1);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
	p = platform("linux/arm/v7");
	platform_text(&p, text);
	assert_string_equal(text, "linux/arm/v7");
	assert_int_equal(platform_here(&p, &err), 0);
	assert_string_equal(p.os, "linux");
}

static void configurations(void **state)
{
	static const char good[] = "{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{},"
				   "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:" HEX_A
				   "\",\"sha256:" HEX_B "\"]}}";
	static const char *const bad[] = {"{}", "{\"rootfs\":{}}", "{\"rootfs\":{\"diff_ids\":{}}}",
					  "{\"rootfs\":{\"diff_ids\":[1]}}",
					  "{\"rootfs\":{\"diff_ids\":[\"" HEX_A "\"]}}"};
	struct image_config c;
	struct cay_error err;

	(void)state;
	assert_int_equal(image_config_parse(good, strlen(good), &c, &err), 0);
	assert_string_equal(c.platform.architecture, "amd64");
	assert_int_equal(c.diff_ids.len, 2);
	assert_string_equal(c.diff_ids.items[1], HEX_B);
	image_config_done(&c);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(image_config_parse(bad[i], strlen(bad[i]), &c, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(images),    cmocka_unit_test(what_is_refused),
		cmocka_unit_test(how_much),  cmocka_unit_test(which_platform),
		cmocka_unit_test(platforms), cmocka_unit_test(configurations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
