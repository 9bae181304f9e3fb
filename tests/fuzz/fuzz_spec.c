/* Values of options: the first byte of each line says of which. */
#include "fuzz.h"

#include "core/limit.h"
#include "spec/spec.h"

static void give(struct spec *s, char which, char *value, struct cay_error *err)
{
	switch (which) {
	case 'v':
		(void)spec_add_mount(s, value, err);
		break;
	case 'w':
		(void)spec_set_workspace(s, value, err);
		break;
	case 'p':
		(void)transfers_add(&s->put, "--put", value, err);
		break;
	case 'g':
		(void)transfers_add(&s->get, "--get", value, err);
		break;
	case 'e':
		(void)spec_add_env(s, value, err);
		break;
	case 'l':
		(void)spec_set_language(s, value, err);
		break;
	case 'd':
		(void)spec_set_workdir(s, value, err);
		break;
	case 'E':
		(void)spec_set_engine(s, value, err);
		break;
	case 'm':
		(void)spec_set_limit(
			s, limit_rows[value[0] ? (size_t)value[0] % n_limit_rows : 0].name,
			value[0] ? value + 1 : value, err);
		break;
	default:
		/* A file of variables has lines of its own. */
		for (char *p = value; *p; p++)
			if (*p == '|')
				*p = '\n';
		(void)spec_add_env_lines(s, "file", value, err);
	}
}

/* No way out of where it is mounted, and none around a rule. */
static void check_island_path(const char *path)
{
	CHECK(island_path_ok(path) && path[0] == '/' && !strstr(path, "/../") &&
	      !strstr(path, "//") && !strstr(path, "/./"));
}

static void check_env(const struct strv *env)
{
	for (size_t i = 0; i < env->len; i++) {
		const char *item = env->items[i], *eq = strchr(item, '=');

		CHECK(eq && eq > item && (item[0] < '0' || item[0] > '9'));
		for (const char *p = item; p < eq; p++)
			CHECK(strchr("_0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
				     *p));
		for (size_t k = 0; k < i; k++)
			CHECK(strncmp(env->items[k], item, (size_t)(eq - item) + 1) != 0);
	}
}

static void check_limits(const struct limits *l)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		uint64_t v = limit_get(l, &limit_rows[i]);

		CHECK(v == 0 || (v >= limit_rows[i].min && v <= limit_rows[i].max));
	}
}

static void check_spec(const struct spec *s, const struct mount_spec *mounts, size_t n_mounts)
{
	CHECK(s->n_mounts <= SPEC_MOUNTS_MAX && s->put.len <= SPEC_TRANSFERS_MAX &&
	      s->get.len <= SPEC_TRANSFERS_MAX);
	for (size_t i = 0; i < n_mounts; i++) {
		CHECK(mounts[i].source[0]);
		check_island_path(mounts[i].target);
	}
	if (s->workspace.target)
		CHECK(s->workspace.source[0]);
	check_env(&s->env);
	check_limits(&s->limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	struct spec *s = calloc(1, sizeof(*s));
	struct cay_error err = {0};

	CHECK(s);
	/* A request ends at its first mistake, and is only looked at if there was none. */
	while (in.len > 0 && err.code == CAY_OK) {
		char which = (char)input_u8(&in);
		_cleanup_(freep) char *value = input_line(&in);

		give(s, which, value, &err);
	}
	if (err.code == CAY_OK) {
		check_spec(s, s->mounts, s->n_mounts);
		if (s->workdir) {
			check_island_path(s->workdir);
			CHECK(strncmp(s->workdir, "/proc/", 6) != 0);
		}
	} else {
		CHECK(err.code < CAY_CODES && err.text[0]);
	}
	spec_done(s);
	free(s);
	return 0;
}
