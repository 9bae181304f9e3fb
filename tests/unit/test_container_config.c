/* A plan as a container's configuration, and what its PID 1 finds there judged. */
#include "plan_support.h"

#include "base/json.h"
#include "image/choose_container.h"
#include "engine/container/config.h"
#include "engine/container/docker_images.h"
#include "engine/container/facts.h"

#include <linux/seccomp.h>

static const struct json *config;

static struct plan *make_container(void)
{
	spec->engine = ENGINE_DOCKER;
	spec->container_image = "docker.io/library/python:3.12-slim";
	if (!spec->code)
		use_code("sh", "echo hi");
	return make(runtime, NULL);
}

static struct json *configure(const struct plan *p, const struct json *volumes)
{
	struct container_config c = {.plan = p,
				     .image = "sha256:abc",
				     .guest = "/libexec/cay-guest",
				     .guest_at = "/cay-guest-7",
				     .owner = "run-7",
				     .volumes = volumes};
	struct cay_error err;
	struct json *j;

	for (uint32_t n = 0; n < p->n_mounts; n++)
		c.sources[n] = "/real";
	j = container_config_json(&c, &err);
	if (!j)
		fail_msg("%s", err.text);
	config = j;
	return j;
}

static const struct json *host(const char *name)
{
	return json_get(json_get(config, "HostConfig"), name);
}

static void test_the_least_it_gets(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();
	_cleanup_(json_freep) struct json *j = configure(p, NULL);

	(void)state;
	assert_string_equal(json_str(json_get(j, "User")), "1000:1000");
	assert_string_equal(json_str(json_get(j, "Hostname")), "cay");
	assert_string_equal(json_str(json_at(json_get(j, "Entrypoint"), 0)), "/cay-guest-7");
	assert_int_equal(json_len(json_get(j, "Cmd")), 0);
	assert_false(json_bool(json_get(j, "Tty")));
	assert_string_equal(json_str(json_get(json_get(j, "Labels"), "cay")), p->id);
	assert_string_equal(json_str(json_get(json_get(j, "Labels"), "cay.owner")), "run-7");
	assert_string_equal(json_str(host("NetworkMode")), "none");
	assert_string_equal(json_str(host("IpcMode")), "private");
	assert_true(json_bool(host("ReadonlyRootfs")));
	assert_string_equal(json_str(json_at(host("CapDrop"), 0)), "ALL");
	assert_null(host("CapAdd"));
	assert_string_equal(json_str(json_at(host("SecurityOpt"), 0)), "no-new-privileges");
	assert_int_equal(json_int(host("Memory")), LIMIT_DEFAULT_MEMORY);
	assert_int_equal(json_int(host("MemorySwap")), LIMIT_DEFAULT_MEMORY);
	assert_int_equal(json_int(host("NanoCpus")), 1000000000);
	assert_int_equal(json_int(host("PidsLimit")), LIMIT_DEFAULT_PIDS + 1);
	assert_false(json_bool(host("Init")));
	assert_string_equal(json_str(json_get(host("LogConfig"), "Type")), "none");
	assert_int_equal(json_len(host("Ulimits")), 2);
	assert_int_equal(json_len(host("Mounts")), 1);
	assert_null(host("Runtime"));
	assert_null(host("PortBindings"));
}

static void test_disk_is_split(void **state)
{
	struct container_disk disk;

	(void)state;
	for (uint64_t kib = 64; kib < 1u << 20; kib = kib * 3 + 1) {
		_cleanup_(freep) struct plan *p = NULL;

		spec->limits.disk_bytes = kib << 10;
		p = make_container();
		container_disk_split(p, &disk);
		assert_true(disk.tmp_bytes && disk.shm_bytes && disk.workspace_bytes);
		assert_true(disk.tmp_bytes + disk.shm_bytes + disk.workspace_bytes <=
			    p->limits.disk_bytes);
		assert_true(disk.workspace_bytes + 4096 >= p->limits.disk_bytes / 2);
	}
}

static void test_mounts(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *m;
	struct container_disk disk;
	struct cay_error err;

	(void)state;
	assert_int_equal(spec_add_mount(spec, "/src:/data:rw", &err), 0);
	assert_int_equal(spec_set_workspace(spec, "proj", &err), 0);
	p = make_container();
	j = configure(p, NULL);
	assert_int_equal(json_len(host("Mounts")), 3);
	for (size_t n = 0; n < 3; n++) {
		m = json_at(host("Mounts"), n);
		assert_string_equal(json_str(json_get(m, "Type")), "bind");
		/* A volume that may be written to, a workspace that may not; and ours. */
		assert_int_equal(json_bool(json_get(m, "ReadOnly")),
				 strcmp(json_str(json_get(m, "Target")), "/data") != 0);
		assert_true(json_bool(json_get(json_get(m, "BindOptions"), "NonRecursive")));
	}
	assert_null(json_get(host("Tmpfs"), "/workspace"));
	container_disk_split(p, &disk);
	assert_int_equal(disk.workspace_bytes, 0);
}

static void test_root_and_writable(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	_cleanup_(json_freep) struct json *j = NULL;

	(void)state;
	spec->as_root = spec->writable = true;
	p = make_container();
	j = configure(p, NULL);
	assert_string_equal(json_str(json_get(j, "User")), "0:0");
	assert_int_equal(json_len(host("CapAdd")), 8);
	assert_false(json_bool(host("ReadonlyRootfs")));
}

static void test_volumes_of_the_image(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();
	_cleanup_(json_freep) struct json *volumes = json_new_object(), *j = NULL;

	(void)state;
	json_set(volumes, "/var/lib/data", json_new_object());
	json_set(volumes, "/tmp", json_new_object());
	j = configure(p, volumes);
	assert_non_null(strstr(json_str(json_get(host("Tmpfs"), "/var/lib/data")), "ro,"));
	assert_non_null(strstr(json_str(json_get(host("Tmpfs"), "/tmp")), "rw,"));
}

/* Written so, it would not be shut. */
static void test_odd_volumes(void **state)
{
	static const char *const odd[] = {"data", "/data/", "/./data", "/a/../b", "//data",
					  "/",    "",       "/a:b",    "/a,b",    "/a\nb"};
	_cleanup_(freep) struct plan *p = make_container();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		_cleanup_(json_freep) struct json *volumes = json_new_object();
		struct container_config c = {
			.plan = p, .image = "i", .guest = "/g", .owner = "o", .volumes = volumes};
		struct cay_error err = {0};

		json_set(volumes, "/good", json_new_object());
		json_set(volumes, odd[i], json_new_object());
		assert_null(container_config_json(&c, &err));
		assert_int_equal(err.code, CAY_E_UNSUPPORTED);
		assert_null(strchr(err.text, '\n'));
	}
}

static void test_what_no_container_has(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct container_config c = {.image = "i", .guest = "/g", .owner = "o"};
	struct cay_error err = {0};

	(void)state;
	spec->kept = "sbx_0123456789abcdef";
	p = make_container();
	c.plan = p;
	assert_null(container_config_json(&c, &err));
	assert_int_equal(err.code, CAY_E_UNSUPPORTED);
}

static void can_be_had(struct container_config *c, const char *source, bool can)
{
	struct cay_error err = {0};
	_cleanup_(json_freep) struct json *j = NULL;

	c->sources[0] = source;
	j = container_config_json(c, &err);
	assert_int_equal(j != NULL, can);
	if (!can) {
		assert_int_equal(err.code, CAY_E_UNSUPPORTED);
		assert_null(strpbrk(err.text, "\r\n"));
	}
}

/* Podman would read words of its own out of such a path. */
static void test_paths_that_engines_would_split(void **state)
{
	static const char *const bad[] = {"/d,source=/etc/cron.d,U=true", "/a\"b", "/a\nb", "/a\rb",
					  "/,"};
	struct container_config c = {.image = "i", .guest = "/g", .owner = "o"};
	struct cay_error err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(freep) struct plan *p = NULL;
		char text[64];

		assert_int_equal(spec_add_mount(spec, "/src:/data", &err), 0);
		p = make_container();
		c.plan = p;
		can_be_had(&c, "/real dir=x;'", true);
		can_be_had(&c, bad[i], false);
		c.guest = bad[i];
		can_be_had(&c, "/real", false);
		c.guest = "/g";
		end(state);
		begin(state);
		(void)snprintf(text, sizeof(text), "/src:%s", bad[i]);
		if (spec_add_mount(spec, text, &err) < 0)
			continue;
		freep(&p);
		c.plan = p = make_container();
		can_be_had(&c, "/real", false);
		end(state);
		begin(state);
	}
}

static void named(const char *tag, const char *digest, const char *reference, bool is)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *tags = json_new_array(), *digests = json_new_array();

	json_add_str(tags, tag);
	json_add_str(digests, digest);
	json_set(j, "RepoTags", tags);
	json_set(j, "RepoDigests", digests);
	assert_int_equal(docker_image_is(j, reference), is);
}

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_names_of_images(void **state)
{
	_cleanup_(json_freep) struct json *bare = json_new_object();

	(void)state;
	named("docker.io/library/a:1", "", "docker.io/library/a:1", true);
	named("localhost/a:1", "", "localhost/a:1", true);
	named("localhost/a:1", "", "docker.io/library/a:1", false);
	named("ghcr.io/a:1", "", "docker.io/library/a:1", false);
	named("ghcr.io/docker.io/library/a:1", "", "docker.io/library/a:1", false);
	named("docker.io/library/a:2", "", "docker.io/library/a:1", false);
	named("x", "quay.io/a/b@sha256:" HEX64, "quay.io/a/b:7@sha256:" HEX64, true);
	named("quay.io/a/b:7", "evil.io/a/b@sha256:" HEX64, "quay.io/a/b:7@sha256:" HEX64, false);
	assert_false(docker_image_is(bare, "docker.io/library/a:1"));
	json_set_int(bare, "RepoTags", 1);
	assert_false(docker_image_is(bare, "docker.io/library/a:1"));
}

static void test_its_image_has_the_path(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();

	(void)state;
	assert_null(env_of(p, "PATH"));
	assert_string_equal(env_of(p, "HOME"), "/workspace");
	assert_null(plan_image(p)); /* never part of a path of ours */
	assert_string_equal(plan_container_image(p), spec->container_image);
}

static void test_plans_of_no_container(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();
	struct cay_error err;

	(void)state;
	p->engine = ENGINE_DIRECT;
	assert_int_equal(plan_check(p, p->size, &err), -1);
	p->engine = 77;
	assert_int_equal(plan_check(p, p->size, &err), -1);
	p->engine = 0; /* then its image must be an id */
	assert_int_equal(plan_check(p, p->size, &err), -1);
	p->engine = ENGINE_PODMAN;
	assert_int_equal(plan_check(p, p->size, &err), 0);
	p->text[p->image] = ' ';
	assert_int_equal(plan_check(p, p->size, &err), -1);
}

/* What a good PID 1 finds. */
static struct wire_facts good_facts(const struct plan *p)
{
	return (struct wire_facts){
		.uid = 1000,
		.gid = 1000,
		.pid = 1,
		.no_new_privs = 1,
		.seccomp_mode = SECCOMP_MODE_FILTER,
		.root_read_only = 1,
		.only_loopback = 1,
		.tmp_bytes = 4096,
		.workspace_bytes = 4096,
		.shm_bytes = 4096,
		.cgroup = 2,
		.memory_bytes = p->limits.memory_bytes,
		.pids = p->limits.pids + 1,
		.cpus_milli = p->limits.cpus_milli,
		.namespaces = {1, 2, 3, 4, 5, 6, 7, 8},
	};
}

static const struct wire_setup who = {.uid = 1000, .gid = 1000};
static const uint64_t ours[NAMESPACES] = {1, 12, 13, 14, 15, 16, 17, 18};

static void test_good_facts(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();
	struct wire_facts f = good_facts(p);
	struct isolation iso;
	struct cay_error err;

	(void)state;
	assert_int_equal(facts_judge(&f, p, &who, ours, &iso, &err), 0);
	assert_int_equal(iso.memory, HOLD_CGROUP2);
	assert_int_equal(iso.disk, HOLD_TMPFS);
	assert_int_equal(iso.user, HOLD_NONE);
	assert_int_equal(iso.namespaces, 0xfe); /* all but users */
	assert_int_equal(iso.degraded, 0);
}

static void refused(const struct plan *p, const struct wire_facts *f, const char *words)
{
	struct isolation iso;
	struct cay_error err = {0};

	assert_int_equal(facts_judge(f, p, &who, ours, &iso, &err), -1);
	assert_int_equal(err.code, CAY_E_NOT_ENFORCEABLE);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

static void test_facts_that_are_not_good(void **state)
{
	_cleanup_(freep) struct plan *p = make_container();
	struct wire_facts f;

	(void)state;
#define BAD(field, value, words) \
	f = good_facts(p);       \
	f.field = value;         \
	refused(p, &f, words)
	BAD(pid, 2, "process namespace");
	BAD(uid, 0, "user");
	BAD(gid, 5, "user");
	BAD(caps_effective, 1, "capabilities");
	BAD(caps_bounding, 1, "capabilities");
	BAD(caps_inheritable, 1, "capabilities");
	BAD(no_new_privs, 0, "no_new_privs");
	BAD(seccomp_mode, 0, "filter");
	BAD(dumpable, 1, "PID 1");
	BAD(root_read_only, 0, "root");
	BAD(only_loopback, 0, "network");
	BAD(namespaces[3], 14, "namespaces");
	BAD(memory_bytes, 0, "memory");
	BAD(memory_bytes, p->limits.memory_bytes + 1, "memory");
	BAD(pids, 0, "pids");
	BAD(cpus_milli, 0, "cpus");
	BAD(tmp_bytes, 0, "disk");
	BAD(tmp_bytes, p->limits.disk_bytes, "disk");
	BAD(cgroup, 0, "memory");
#undef BAD
}

/* Where nobody maps users, root in there is root of the host's files. */
static void test_root_and_directories(void **state)
{
	static const struct wire_setup root = {0};
	_cleanup_(freep) struct plan *p = NULL, *bare = NULL;
	struct wire_facts f;
	struct isolation iso;
	struct cay_error err = {0};

	(void)state;
	spec->as_root = true;
	bare = make_container();
	f = good_facts(bare);
	f.uid = f.gid = 0;
	assert_int_equal(facts_judge(&f, bare, &root, ours, &iso, &err), 0);
	assert_int_equal(spec_add_mount(spec, "/src:/data", &err), 0);
	spec->allow_degraded = true;
	p = make_container();
	assert_int_equal(facts_judge(&f, p, &root, ours, &iso, &err), -1);
	assert_int_equal(err.code, CAY_E_NOT_ENFORCEABLE);
	assert_non_null(strstr(err.text, "root"));
	f.user_mapped = 1;
	assert_int_equal(facts_judge(&f, p, &root, ours, &iso, &err), 0);
}

static void test_degraded(void **state)
{
	_cleanup_(freep) struct plan *p = NULL;
	struct wire_facts f;
	struct isolation iso;
	struct cay_error err;

	(void)state;
	spec->allow_degraded = true;
	p = make_container();
	f = good_facts(p);
	f.cgroup = 0;
	assert_int_equal(facts_judge(&f, p, &who, ours, &iso, &err), 0);
	assert_int_equal(iso.degraded, limit_bit(limit_find("memory")) |
					       limit_bit(limit_find("cpus")) |
					       limit_bit(limit_find("pids")));
	f.no_new_privs = 0;
	assert_int_equal(facts_judge(&f, p, &who, ours, &iso, &err), -1);
}

static void chosen(const char *language, const char *version, const char *image,
		   const char *program)
{
	struct cay_error err;
	char name[IMAGE_REF_SIZE];

	use_code(language, "x");
	free(spec->version);
	spec->version = version ? strdup(version) : NULL;
	if (container_choose(&settings, spec, name, runtime, &err) < 0)
		fail_msg("%s: %s", language, err.text);
	assert_string_equal(name, image);
	assert_string_equal(runtime->program, program);
}

static void test_usual_images(void **state)
{
	struct cay_error err = {0};
	char name[IMAGE_REF_SIZE];

	(void)state;
	chosen("python", NULL, "docker.io/library/python:3.12-slim", "python3");
	chosen("python", "3.11", "docker.io/library/python:3.11-slim", "python3");
	chosen("javascript", NULL, "docker.io/library/node:20-slim", "node");
	chosen("typescript", NULL, "docker.io/library/node:22-slim", "node");
	chosen("lua", NULL, "docker.io/nickblah/lua:5.4", "lua");
	chosen("sh", NULL, "docker.io/library/debian:12-slim", "sh");
	use_code("typescript", "x");
	spec->version = strdup("20");
	assert_int_equal(container_choose(&settings, spec, name, runtime, &err), -1);
	assert_int_equal(err.code, CAY_E_RUNTIME);
	assert_int_equal(spec_set_image(spec, IMAGE_HOST, &err), 0);
	use_code("python", "x");
	assert_int_equal(container_choose(&settings, spec, name, runtime, &err), -1);
	assert_int_equal(err.code, CAY_E_UNSUPPORTED);
}

int main(void)
{
#define PLAN_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		PLAN_TEST(test_the_least_it_gets),
		PLAN_TEST(test_disk_is_split),
		PLAN_TEST(test_mounts),
		PLAN_TEST(test_root_and_writable),
		PLAN_TEST(test_volumes_of_the_image),
		PLAN_TEST(test_odd_volumes),
		PLAN_TEST(test_what_no_container_has),
		PLAN_TEST(test_paths_that_engines_would_split),
		PLAN_TEST(test_names_of_images),
		PLAN_TEST(test_its_image_has_the_path),
		PLAN_TEST(test_plans_of_no_container),
		PLAN_TEST(test_good_facts),
		PLAN_TEST(test_facts_that_are_not_good),
		PLAN_TEST(test_root_and_directories),
		PLAN_TEST(test_degraded),
		PLAN_TEST(test_usual_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
