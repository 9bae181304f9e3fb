#include "engine/container/keeper_impl.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/json.h"
#include "engine/container/config.h"
#include "engine/container/docker_images.h"
#include "engine/container/docker_login.h"
#include "engine/mount_names.h"
#include "engine/sys.h"
#include "image/naming.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define AUTH_MAX ((size_t)48 << 10)

/*
 * A host path is opened, and what was opened is judged. The engine gets the path that the kernel
 * has for it; that it still leads there is PID 1's to see, before anything runs.
 */
static int judge_mount(struct keeper *k, uint32_t n, struct cay_error *err)
{
	const struct plan_mount *m = &k->plan->mounts[n];
	const char *source = plan_str(k->plan, m->source);
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (m->kind != MOUNT_REQUESTED)
		return 0; /* the configuration refuses it */
	/* /proc/PID/root and the like are doors to elsewhere: no magic links. */
	fd = sys_openat2(AT_FDCWD, source, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
	if (fd < 0 && errno == ELOOP)
		return cay_fail(err, CAY_E_POLICY, 0, "mount of %s goes through a magic link",
				source);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "the mount %s", source);
	if (fd_real_path(fd, k->sources[n], sizeof(k->sources[n])) < 0)
		return cay_fail(err, CAY_E_INVALID, ENAMETOOLONG, "the mount %s", source);
	k->mounts[n] = (struct wire_mount){.dev = st.st_dev, .ino = st.st_ino};
	if (mount_check(k->config->rules, k->sources[n],
			m->access == ACCESS_WRITE ? ACCESS_WRITE : ACCESS_READ, err) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return mount_check_names(k->config->rules, fd, k->sources[n], false, err);
	(void)cay_fail(err, CAY_E_INVALID, 0, "%s is no directory", k->sources[n]);
	return cay_hint(err, "files go in by --put");
}

static int find_guest(char path[PATH_MAX], struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = helper_open("cay-guest");

	if (fd < 0 || fd_real_path(fd, path, PATH_MAX) < 0) {
		(void)cay_fail(err, CAY_E_ENGINE, fd < 0 ? -fd : 0, "find cay-guest");
		return cay_hint(err, "it is installed with cay, in its libexec directory");
	}
	return 0;
}

static int name_guest(char name[CONTAINER_GUEST_SIZE], struct cay_error *err)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return cay_fail(err, CAY_E_INTERNAL, errno, "read random bytes");
	(void)snprintf(name, CONTAINER_GUEST_SIZE, CONTAINER_GUEST, random);
	return 0;
}

static void no_progress(void *ctx _unused_, const struct docker_pull *p _unused_)
{
}

/* Podman knows images by the ends of their names, too: those are other registries'. */
static int inspect_exactly(struct keeper *k, const char *name, struct json **ret,
			   struct cay_error *err)
{
	if (docker_image_inspect(k->docker, name, ret, err) < 0)
		return -1;
	if (!docker_is_podman(k->docker) || !strchr(name, '/') || docker_image_is(*ret, name))
		return 0;
	json_free(*ret);
	*ret = NULL;
	return cay_fail(err, CAY_E_IMAGE, 0, "the engine has no image %.200s", name);
}

/*
 * By the name in full, for that is what was judged. What Podman built or imported itself under a
 * name without a registry it keeps as localhost/NAME.
 */
static int look_for_image(struct keeper *k, const char *full, struct json **ret,
			  struct cay_error *err)
{
	char brief[IMAGE_REF_SIZE], local[sizeof("localhost/") + IMAGE_REF_SIZE];
	struct cay_error none;

	if (inspect_exactly(k, full, ret, err) == 0)
		return 0;
	image_name_short(full, brief);
	if (err->code != CAY_E_IMAGE || !docker_is_podman(k->docker) || strcmp(brief, full) == 0)
		return -1;
	(void)snprintf(local, sizeof(local), "localhost/%s", brief);
	if (inspect_exactly(k, local, ret, &none) == 0)
		return 0;
	if (none.code != CAY_E_IMAGE)
		*err = none;
	return -1;
}

static int find_image(struct keeper *k, struct json **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf auth = BUF(AUTH_MAX);
	const char *full = plan_container_image(k->plan);

	if (look_for_image(k, full, ret, err) == 0)
		return 0;
	if (err->code != CAY_E_IMAGE)
		return -1;
	if (!k->config->may_pull)
		return cay_hint(err, "pull it first, or let cay do it: [images] pull = missing");
	if (docker_login(full, &auth, err) < 0)
		return -1;
	if (docker_image_pull(k->docker, full, auth.len > 0 ? buf_str(&auth) : NULL,
			      k->config->pulled ? k->config->pulled : no_progress, k->config->ctx,
			      err) < 0)
		return -1;
	if (k->config->pulled)
		k->config->pulled(k->config->ctx, NULL); /* it is over */
	return inspect_exactly(k, full, ret, err);
}

/*
 * Of all processes of the user's, on the whole machine. Podman would set what it finds in its own
 * settings, and may not; what it has itself is this, or more.
 */
#define USER_PROCESSES_MAX 32768u

static uint64_t user_processes(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_NPROC, &r) < 0 || r.rlim_max > USER_PROCESSES_MAX
		       ? USER_PROCESSES_MAX
		       : r.rlim_max;
}

static int create(struct keeper *k, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *image = NULL, *config = NULL;
	char guest[PATH_MAX], name[sizeof("cay-") + ID_SIZE];
	struct container_config c = {
		.plan = k->plan,
		.guest = guest,
		.owner = k->config->owner,
		.runtime = k->config->runtime,
		.user_processes = user_processes(),
		.podman = docker_is_podman(k->docker),
	};

	/* A pull may last. What is made is made, or nobody would know whether it was. */
	docker_cancel_by(k->docker, k->asker.fd);
	if (find_guest(guest, err) < 0 || name_guest(c.guest_at, err) < 0 ||
	    find_image(k, &image, err) < 0)
		return -1;
	docker_cancel_by(k->docker, -1);
	c.image = json_str(json_get(image, "Id"));
	if (!c.image)
		return cay_fail(err, CAY_E_ENGINE, 0, "the engine does not say which image it is");
	c.volumes = json_get(json_get(image, "Config"), "Volumes");
	for (uint32_t n = 0; n < k->plan->n_mounts; n++)
		c.sources[n] = k->sources[n];
	config = container_config_json(&c, err);
	if (!config)
		return -1;
	(void)snprintf(name, sizeof(name), "cay-%s", k->plan->id);
	if (container_create(k->docker, name, config, &k->id, err) < 0)
		return -1;
	k->made = true;
	return 0;
}

static int say_setup(struct keeper *k, struct cay_error *err)
{
	char head[sizeof(struct wire_setup) + sizeof(k->mounts)];
	size_t mounts = k->plan->n_mounts * sizeof(k->mounts[0]);

	k->who = (struct wire_setup){
		.uid = k->plan->uid, .gid = k->plan->gid, .n_mounts = k->plan->n_mounts};
	memcpy(head, &k->who, sizeof(k->who));
	memcpy(head + sizeof(k->who), k->mounts, mounts);
	return relay_say(&k->wire, WIRE_SETUP, 0, head, sizeof(k->who) + mounts, k->plan,
			 k->plan->size) < 0
		       ? cay_fail(err, CAY_E_ENGINE, 0, "talk to the container")
		       : 0;
}

int keeper_make(struct keeper *k, struct cay_error *err)
{
	int r;

	if (!plan_container_image(k->plan))
		return cay_fail(err, CAY_E_INVALID, 0, "a container without an image");
	if (k->plan->network != NETWORK_NONE) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, 0,
			       "a network can't be had in a container of %s",
			       docker_name(k->config->place.engine));
		return cay_hint(err, "the native engine has it");
	}
	for (uint32_t n = 0; n < k->plan->n_mounts; n++)
		if (judge_mount(k, n, err) < 0)
			return -1;
	if (docker_open(&k->config->place, &k->docker, err) < 0)
		return -1;
	if (create(k, err) < 0 || container_attach(k->docker, &k->id, &k->stream, err) < 0)
		return -1;
	r = relay_init(&k->wire, k->loop, k->stream.fd, k->stream.fd, true);
	if (r < 0)
		return cay_fail(err, CAY_E_ENGINE, -r, "talk to the container");
	/* What is said before the start waits there for PID 1. */
	if (say_setup(k, err) < 0 || container_start(k->docker, &k->id, err) < 0)
		return -1;
	if (k->stream.early.len > 0)
		relay_take(&k->wire, k->stream.early.data, k->stream.early.len);
	return 0;
}

int keeper_remove(struct keeper *k, struct cay_error *err)
{
	struct cay_error unused;

	if (!k->made)
		return 0;
	docker_cancel_by(k->docker, -1);
	if (k->frozen)
		(void)container_unpause(k->docker, &k->id, &unused);
	if (container_remove(k->docker, &k->id, err) < 0)
		return -1;
	k->made = false;
	return 0;
}
