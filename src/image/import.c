/*
 * import.c: `cay image import NAME PATH`: a root directory, or a tar of one, becomes an image
 * of one layer, with a configuration that says nothing but for whom it is.
 */
#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "image/bars.h"
#include "image/call.h"
#include "image/digest.h"
#include "image/layer_add.h"
#include "image/pack.h"
#include "image/platform.h"
#include "image/ref.h"
#include "image/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int make_config(const struct platform *p, const char *diff_id, struct buf *ret)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	struct json *rootfs = json_new_object(), *ids = json_new_array();
	char text[sizeof(DIGEST_PREFIX) + IMAGE_ID_SIZE], now[32];
	time_t t = time(NULL);
	struct tm tm;

	(void)strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	(void)snprintf(text, sizeof(text), DIGEST_PREFIX "%s", diff_id);
	json_set_str(j, "created", now);
	json_set_str(j, "architecture", p->architecture);
	if (p->variant[0])
		json_set_str(j, "variant", p->variant);
	json_set_str(j, "os", p->os);
	json_set(j, "config", json_new_object());
	json_set_str(rootfs, "type", "layers");
	json_add_str(ids, text);
	json_set(rootfs, "diff_ids", ids);
	json_set(j, "rootfs", rootfs);
	return json_text(j, ret);
}

/* An fd with a tar: of the file, or of what a process makes of the directory; *ret_bytes of it,
 * where that is known. */
static int open_tar(const char *path, struct packing *packing, int *ret_fd, uint64_t *ret_bytes,
		    struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = strcmp(path, "-") == 0
					      ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					      : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, errno, "open %s", path);
	if (S_ISDIR(st.st_mode))
		return pack_start(packing, path, ret_fd, err);
	*ret_bytes = (uint64_t)st.st_size;
	*ret_fd = take_fd(&fd);
	return 0;
}

static int find_platform(const struct image_call *call, struct platform *ret, struct cay_error *err)
{
	return call->platform ? platform_parse(call->platform, ret, err) : platform_here(ret, err);
}

static int add(struct image_call *call, const struct platform *platform, const char *diff_id,
	       const char *name, struct cay_error *err)
{
	struct image_parts parts = {.config = BUF(IMAGE_CONFIG_MAX)};
	char id[IMAGE_ID_SIZE];
	int r = make_config(platform, diff_id, &parts.config);

	if (r < 0)
		(void)cay_fail(err, CAY_E_INTERNAL, -r, "write the image's configuration");
	else
		r = store_add_image(call->store, &parts, name, id, err);
	buf_done(&parts.config);
	if (r == 0)
		call_say(call, "imported", id, name, store_image_size(call->store, id));
	return r < 0 ? -1 : 0;
}

int import_main(struct image_call *call, struct cay_error *err)
{
	struct image_layer layer = {.fd = -1, .size = IMAGE_SIZE_UNKNOWN};
	struct packing packing = PACKING_NONE;
	char name[IMAGE_REF_SIZE], diff_id[IMAGE_ID_SIZE];
	struct image_ref ref;
	struct platform platform;
	struct cay_error packed;
	struct bar bar = {0};
	struct progress progress;
	struct bars bars;
	int r;

	if (image_ref_parse(call->args[0], &ref, err) < 0 ||
	    find_platform(call, &platform, err) < 0)
		return -1;
	image_ref_text(&ref, name);
	if (open_tar(call->args[1], &packing, &layer.fd, &bar.total, err) < 0)
		return -1;
	bars_begin_local(&bars, name, &bar, 1, call->json);
	progress = bars_progress(&bars);
	r = layer_add(call->store, &layer, &progress, diff_id, err);
	bars_end(&bars);
	fd_closep(&layer.fd);
	/* What could not be read there is why there was no whole tar here. */
	if (pack_end(&packing, &packed) < 0 && packed.sys_errno != EPIPE) {
		*err = packed;
		r = -1;
	}
	return r < 0 ? -1 : add(call, &platform, diff_id, name, err);
}
