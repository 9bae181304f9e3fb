#include "engine/container/config.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/container/sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of an image's volume there is nothing to be seen, and nothing to be written. */
#define VOLUME_OPTIONS "ro,nosuid,nodev,noexec,size=64k"

void container_disk_split(const struct plan *p, struct container_disk *ret)
{
	uint64_t disk = p->limits.disk_bytes, page = 4096;

	ret->shm_bytes = disk / 8 / page * page;
	ret->tmp_bytes = (p->scratch_workspace ? disk / 8 * 3 : disk / 8 * 7) / page * page;
	ret->workspace_bytes =
		p->scratch_workspace ? (disk - ret->shm_bytes - ret->tmp_bytes) / page * page : 0;
}

static void add_tmpfs(struct json *list, const struct plan *p, bool podman)
{
	struct container_disk disk;
	char text[128];

	container_disk_split(p, &disk);
	(void)snprintf(text, sizeof(text), "rw,exec,nosuid,nodev,mode=1777,size=%" PRIu64,
		       disk.tmp_bytes);
	json_set_str(list, "/tmp", text);
	if (!p->scratch_workspace)
		return;
	if (podman)
		(void)snprintf(text, sizeof(text), "rw,exec,nosuid,nodev,mode=0777,size=%" PRIu64,
			       disk.workspace_bytes);
	else
		(void)snprintf(text, sizeof(text),
			       "rw,exec,nosuid,nodev,mode=0755,uid=%u,gid=%u,size=%" PRIu64, p->uid,
			       p->gid, disk.workspace_bytes);
	json_set_str(list, ISLAND_WORKSPACE, text);
}

static bool is_mounted(const struct plan *p, const char *path)
{
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (strcmp(plan_str(p, p->mounts[n].target), path) == 0)
			return true;
	return strcmp(path, "/tmp") == 0 || strcmp(path, ISLAND_WORKSPACE) == 0;
}

/* What an image declares as a volume would be a directory of the host's, without a limit. */
static void shut_volumes(struct json *list, const struct container_config *c)
{
	const struct json *unused;
	const char *path;

	for (void *at = NULL; c->volumes && json_next(c->volumes, &at, &path, &unused);)
		if (!is_mounted(c->plan, path))
			json_set_str(list, path, VOLUME_OPTIONS);
}

static void add_bind(struct json *list, const char *source, const char *target, bool read_only)
{
	struct json *m = json_new_object(), *options = json_new_object();

	json_set_str(m, "Type", "bind");
	json_set_str(m, "Source", source);
	json_set_str(m, "Target", target);
	json_set_bool(m, "ReadOnly", read_only);
	json_set_str(options, "Propagation", "rprivate");
	/* What is mounted below would stay writable, and was not judged. */
	json_set_bool(options, "NonRecursive", true);
	json_set(m, "BindOptions", options);
	json_add(list, m);
}

static struct json *mounts_json(const struct container_config *c)
{
	struct json *list = json_new_array();

	add_bind(list, c->guest, c->guest_at, true);
	for (uint32_t n = 0; n < c->plan->n_mounts; n++)
		add_bind(list, c->sources[n], plan_str(c->plan, c->plan->mounts[n].target),
			 c->plan->mounts[n].access != ACCESS_WRITE);
	return list;
}

static void add_ulimit(struct json *list, const char *name, uint64_t value)
{
	struct json *u = json_new_object();

	json_set_str(u, "Name", name);
	json_set_int(u, "Soft", (int64_t)value);
	json_set_int(u, "Hard", (int64_t)value);
	json_add(list, u);
}

static struct json *list_of(const char *const *words)
{
	struct json *list = json_new_array();

	for (; *words; words++)
		json_add_str(list, *words);
	return list;
}

/* ROOT_CAPS (engine/self.h), by the names that engines have for them. */
static const char *const root_caps[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID",
					"KILL",  "SETGID",       "SETUID", "NET_BIND_SERVICE",
					NULL};

static struct json *host_config(const struct container_config *c)
{
	const struct limits *l = &c->plan->limits;
	struct json *h = json_new_object(), *tmpfs = json_new_object();
	struct json *ulimits = json_new_array(), *o;
	struct container_disk disk;

	container_disk_split(c->plan, &disk);
	add_tmpfs(tmpfs, c->plan, c->podman);
	shut_volumes(tmpfs, c);
	json_set(h, "Tmpfs", tmpfs);
	json_set_int(h, "ShmSize", (int64_t)disk.shm_bytes);
	json_set(h, "Mounts", mounts_json(c));
	json_set_str(h, "NetworkMode", "none");
	json_set_str(h, "IpcMode", "private");
	json_set_str(h, "PidMode", "");
	json_set_bool(h, "ReadonlyRootfs", !c->plan->writable);
	json_set_bool(h, "Privileged", false);
	json_set(h, "CapDrop", list_of((const char *const[]){"ALL", NULL}));
	if (c->plan->uid == 0)
		json_set(h, "CapAdd", list_of(root_caps));
	json_set(h, "SecurityOpt", list_of((const char *const[]){"no-new-privileges", NULL}));
	json_set_int(h, "Memory", (int64_t)l->memory_bytes);
	json_set_int(h, "MemorySwap", (int64_t)l->memory_bytes);
	json_set_int(h, "NanoCpus", (int64_t)l->cpus_milli * 1000000);
	/* PID 1 is beside those that count. */
	json_set_int(h, "PidsLimit", (int64_t)l->pids + 1);
	add_ulimit(ulimits, "nofile", l->open_files);
	add_ulimit(ulimits, "core", 0);
	if (c->user_processes)
		add_ulimit(ulimits, "nproc", c->user_processes);
	json_set(h, "Ulimits", ulimits);
	json_set_bool(h, "Init", false);
	json_set_bool(h, "AutoRemove", false);
	json_set_bool(h, "PublishAllPorts", false);
	o = json_new_object();
	json_set_str(o, "Type", "none");
	json_set(h, "LogConfig", o);
	o = json_new_object();
	json_set_str(o, "Name", "no");
	json_set(h, "RestartPolicy", o);
	if (c->runtime)
		json_set_str(h, "Runtime", c->runtime);
	return h;
}

/* Engines join what they are told into lists of words, and do not quote: Podman, each mount. */
static int check_path(const char *path, struct cay_error *err)
{
	char shown[256];

	if (!path[strcspn(path, ",\"\r\n")])
		return 0;
	(void)snprintf(shown, sizeof(shown), "%s", path);
	text_flatten(shown, strlen(shown));
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "the mount %s can't be had in a container",
		       shown);
	return cay_hint(err, "engines can't be told a path with a comma, a quote or a line break");
}

/* One that is written in another way than paths are would stay open. */
static int check_volumes(const struct json *volumes, struct cay_error *err)
{
	const struct json *unused;
	const char *path;

	for (void *at = NULL; volumes && json_next(volumes, &at, &path, &unused);) {
		char shown[256];

		if (island_path_ok(path) && strcmp(path, "/") != 0 &&
		    !path[strcspn(path, ":,\"\r\n")])
			continue;
		(void)snprintf(shown, sizeof(shown), "%s", path);
		text_flatten(shown, strlen(shown));
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "the image's volume '%s' can't be shut in a container", shown);
		return cay_hint(err, "an image whose volumes are plain absolute paths can be used");
	}
	return 0;
}

static int check(const struct container_config *c, struct cay_error *err)
{
	const struct plan *p = c->plan;

	if (plan_kept(p))
		return cay_fail(err, CAY_E_UNSUPPORTED, 0,
				"a persistent workspace can't be had in a container");
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (p->mounts[n].kind != MOUNT_REQUESTED)
			return cay_fail(err, CAY_E_UNSUPPORTED, 0,
					"a runtime of this machine's can't be had in a container");
	for (uint32_t n = 0; n < p->n_mounts; n++)
		if (check_path(c->sources[n], err) < 0 ||
		    check_path(plan_str(p, p->mounts[n].target), err) < 0)
			return -1;
	return check_path(c->guest, err) < 0 ? -1 : check_volumes(c->volumes, err);
}

struct json *container_config_json(const struct container_config *c, struct cay_error *err)
{
	struct json *o, *labels, *health;
	char user[32];

	if (check(c, err) < 0)
		return NULL;
	o = json_new_object();
	labels = json_new_object();
	health = json_new_object();
	(void)snprintf(user, sizeof(user), "%u:%u", c->plan->uid, c->plan->gid);
	json_set_str(o, "Image", c->image);
	json_set(o, "Entrypoint", list_of((const char *const[]){c->guest_at, NULL}));
	json_set(o, "Cmd", json_new_array());
	json_set_str(o, "User", user);
	json_set_str(o, "Hostname", ISLAND_HOSTNAME);
	json_set_str(o, "WorkingDir", "/");
	json_set_bool(o, "AttachStdin", true);
	json_set_bool(o, "AttachStdout", true);
	json_set_bool(o, "AttachStderr", true);
	json_set_bool(o, "OpenStdin", true);
	json_set_bool(o, "StdinOnce", true);
	json_set_bool(o, "Tty", false);
	json_set(health, "Test", list_of((const char *const[]){"NONE", NULL}));
	json_set(o, "Healthcheck", health);
	json_set_str(labels, CONTAINER_LABEL, c->plan->id);
	json_set_str(labels, CONTAINER_OWNER, c->owner);
	json_set(o, "Labels", labels);
	json_set(o, "HostConfig", host_config(c));
	return o;
}
