/*
 * plan_support.h: plans of a request and settings that each test changes.
 */
#pragma once

#include "policy/plan.h"

#include "base/attr.h"
#include "core/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static struct settings settings;
static struct spec *spec;
static struct runtime *runtime;

static inline int begin(void **state)
{
	(void)state;
	settings_init(&settings);
	spec = calloc(1, sizeof(*spec));
	runtime = calloc(1, sizeof(*runtime));
	return spec && runtime ? 0 : -1;
}

static inline int end(void **state)
{
	(void)state;
	settings_done(&settings);
	spec_done(spec);
	free(spec);
	free(runtime);
	return 0;
}

static inline void freep(struct plan **p)
{
	free(*p);
}

static inline void use_code(const char *language, const char *code)
{
	runtime->language = language_find(language);
	(void)snprintf(runtime->program, sizeof(runtime->program), "/usr/bin/%s", language);
	spec->language = runtime->language;
	spec->kind = SPEC_CODE;
	free(spec->code);
	spec->code = strdup(code);
	spec->code_len = strlen(code);
}

static inline void add_args(const char *a, const char *b)
{
	assert_int_equal(strv_add(&spec->args, a), 0);
	assert_int_equal(strv_add(&spec->args, b), 0);
}

static inline struct plan *make(const struct runtime *rt, const char *script)
{
	struct plan *p = NULL;
	struct cay_error err;

	if (plan_make(spec, &settings, rt, NULL, script, &p, &err) < 0)
		fail_msg("%s", err.text);
	if (plan_check(p, p->size, &err) < 0)
		fail_msg("%s", err.text);
	return p;
}

static inline void check_list(const struct plan *p, struct plan_list l, const char *const *expected)
{
	const char *s = plan_first(p, l);
	uint32_t n = 0;

	for (; expected[n]; n++, s = plan_next(s)) {
		assert_true(n < l.len);
		assert_string_equal(s, expected[n]);
	}
	assert_int_equal(l.len, n);
}

#define CHECK_LIST(p, l, ...) check_list(p, l, (const char *const[]){__VA_ARGS__, NULL})

static inline const char *env_of(const struct plan *p, const char *name)
{
	const char *s = plan_first(p, p->env);
	size_t len = strlen(name);

	for (uint32_t n = 0; n < p->env.len; n++, s = plan_next(s))
		if (strncmp(s, name, len) == 0 && s[len] == '=')
			return s + len + 1;
	return NULL;
}

static inline void check_refused(enum cay_code code, const char *words)
{
	struct plan *p = (struct plan *)&settings; /* must stay as it is */
	struct cay_error err = {0};

	assert_int_equal(plan_make(spec, &settings, NULL, NULL, NULL, &p, &err), -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
	assert_ptr_equal(p, &settings);
}

static const char *const taken[] = {
	"/",      "/proc",      "/proc/x",      "/dev",   "/dev/shm", "/etc",     "/etc/ssl",
	"/usr",   "/usr/share", "/bin",         "/sbin",  "/lib",     "/lib64",   "/lib/x",
	"/lib32", "/libx32",    "/run",         "/run/x", "/var",     "/var/lib", "/tmp",
	"/tmp/x", "/workspace", "/workspace/x", "/sys",   "/sys/fs",
};
