#include "image/images.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/rights.h"
#include "image/naming.h"
#include "image/ref.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Beside the daemon's state and not in it: that directory is the api's, which has no rights and
 * could put another in the place of whatever lies there.
 */
#define ROOTS_STORE "/var/lib/cay-images"
#define PLAIN       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@-"

static const char hex[] = "0123456789ABCDEF";

/* Place and names */

static const char *env_dir(const char *name)
{
	const char *dir = secure_getenv(name);

	return dir && dir[0] == '/' ? dir : NULL;
}

int images_dir(const struct settings *s, char path[PATH_MAX])
{
	const char *data = env_dir("XDG_DATA_HOME"), *home = env_dir("HOME");
	int n;

	if (s->images_store)
		n = snprintf(path, PATH_MAX, "%s", s->images_store);
	else if (geteuid() == 0)
		n = snprintf(path, PATH_MAX, ROOTS_STORE);
	else if (data)
		n = snprintf(path, PATH_MAX, "%s/cay/images", data);
	else if (home)
		n = snprintf(path, PATH_MAX, "%s/.local/share/cay/images", home);
	else
		return -ENOENT;
	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int images_encode(const char *reference, char name[NAME_MAX + 1])
{
	size_t n = 0;

	/* The dot of "." and ".." never comes first: a reference begins with its registry. */
	if (!*reference || *reference == '.')
		return -EINVAL;
	for (const unsigned char *p = (const unsigned char *)reference; *p; p++) {
		if (n + 3 > NAME_MAX)
			return -ENAMETOOLONG;
		if (strchr(PLAIN, *p)) {
			name[n++] = (char)*p;
			continue;
		}
		name[n++] = '%';
		name[n++] = hex[*p >> 4];
		name[n++] = hex[*p & 15];
	}
	name[n] = '\0';
	return 0;
}

int images_decode(const char *name, char reference[NAME_MAX + 1])
{
	char again[NAME_MAX + 1];
	size_t n = 0;

	for (const char *p = name; *p; p++) {
		const char *high, *low;

		if (n >= NAME_MAX)
			return -ENAMETOOLONG;
		if (*p != '%') {
			reference[n++] = *p;
			continue;
		}
		high = p[1] ? strchr(hex, p[1]) : NULL;
		low = high && p[2] ? strchr(hex, p[2]) : NULL;
		if (!low || (high == hex && low == hex))
			return -EINVAL;
		reference[n++] = (char)((high - hex) << 4 | (low - hex));
		p += 2;
	}
	reference[n] = '\0';
	/* One name for one reference: what could be written otherwise is not ours. */
	return images_encode(reference, again) == 0 && strcmp(again, name) == 0 ? 0 : -EINVAL;
}

static int open_dir(const char *dir, const char *name)
{
	char path[PATH_MAX + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void images_guard(const char *dir)
{
	static const char *const parts[] = {"names", "records"};
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (uid == 0)
		rights_of_api(&uid, &gid);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		_cleanup_(fd_closep) int fd = open_dir(dir, parts[i]);

		/* What can't be given away (an id that is not mapped) nobody else gets. */
		if (fd >= 0)
			(void)fchmod(fd, uid != geteuid() && fchown(fd, 0, gid) == 0 ? 0750 : 0700);
	}
}

/* None, or none of our business: as if there was no store. */
static bool is_none(int fd)
{
	return fd == -ENOENT || fd == -EACCES;
}

/* The directory to read, NULL and 0 where there is none, or -errno. */
static int open_list(const char *dir, const char *name, DIR **ret)
{
	int fd = open_dir(dir, name);

	*ret = NULL;
	if (is_none(fd))
		return 0;
	if (fd < 0)
		return fd;
	*ret = fd_opendir(fd);
	return *ret ? 0 : -errno;
}

int images_names(const char *dir, struct strv *ret)
{
	char reference[NAME_MAX + 1];
	const struct dirent *e;
	DIR *names;
	int r = open_list(dir, "names", &names);

	while (r == 0 && names && (e = readdir(names)))
		if (images_decode(e->d_name, reference) == 0)
			r = strv_add(ret, reference);
	if (names)
		(void)closedir(names);
	return r;
}

/* The id that a file in names/ holds. */
static int read_name(int names, const char *file, char id[IMAGE_ID_SIZE])
{
	char text[IMAGE_ID_SIZE + 1];
	ssize_t n = fd_read_text_at(names, file, text, sizeof(text));

	if (n < 0)
		return (int)n;
	text[strcspn(text, "\n")] = '\0';
	if (!image_id_ok(text))
		return -EBADMSG;
	memcpy(id, text, IMAGE_ID_SIZE);
	return 0;
}

/* Records */

static int damaged(const char *what, int r, struct cay_error *err)
{
	(void)cay_fail(err, CAY_E_INTERNAL, -r, "read the image store: %s", what);
	return cay_hint(err, "pull or load the image again");
}

/* CAY_E_NOT_FOUND: there is none of this id. */
static int read_record(int records, const char *id, struct image **ret, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(RECORD_MAX_BYTES);
	_cleanup_(image_freep) struct image *image = calloc(1, sizeof(*image));
	char file[IMAGE_ID_SIZE + 8];
	int r;

	if (!image)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read an image's record");
	(void)snprintf(file, sizeof(file), "%s.json", id);
	r = fd_read_file_at(records, file, &text);
	if (r == -ENOENT)
		return cay_fail(err, CAY_E_NOT_FOUND, 0, "no image %s", id);
	if (r < 0)
		return damaged(file, r, err);
	if (record_parse(buf_str(&text), text.len, image, err) < 0)
		return cay_wrap(err, "%s", file);
	if (strcmp(image->id, id) != 0)
		return damaged(file, -EBADMSG, err);
	strv_done(&image->names); /* names/ says which are in force */
	*ret = take_ptr(&image);
	return 0;
}

/* What is wrong is the record, and not the machine at this moment. */
static bool is_damage(const struct cay_error *err)
{
	static const int passing[] = {ENOMEM, EMFILE, ENFILE, EIO};

	for (size_t i = 0; i < ARRAY_LEN(passing); i++)
		if (err->sys_errno == passing[i])
			return false;
	return err->code != CAY_E_NOT_FOUND;
}

int images_get(const char *dir, const char *id, struct image **ret, struct cay_error *err)
{
	_cleanup_(fd_closep) int records = open_dir(dir, "records");

	return records < 0 ? damaged("records", records, err) : read_record(records, id, ret, err);
}

static int compare_newest(const void *a, const void *b)
{
	const struct image *x = *(struct image *const *)a, *y = *(struct image *const *)b;
	int r = strcmp(y->created ? y->created : "", x->created ? x->created : "");

	return r ? r : strcmp(x->id, y->id);
}

static struct image *find_id(struct image **list, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i]->id, id) == 0)
			return list[i];
	return NULL;
}

/* Gives each image the names that lead to it, in order. */
static int give_names(const char *dir, struct image **list, size_t n, struct cay_error *err)
{
	_cleanup_(fd_closep) int names = open_dir(dir, "names");
	_cleanup_(strv_done) struct strv all = {0};
	char file[NAME_MAX + 1], id[IMAGE_ID_SIZE];
	int r = images_names(dir, &all);

	strv_sort(&all);
	for (size_t i = 0; r == 0 && i < all.len; i++) {
		struct image *image;

		/* One that is gone by now, or of an image that is, is none. */
		if (images_encode(all.items[i], file) < 0 || read_name(names, file, id) < 0)
			continue;
		image = find_id(list, n, id);
		if (image)
			r = strv_add(&image->names, all.items[i]);
	}
	return r < 0 ? damaged("names", r, err) : 0;
}

void image_list_free(struct image **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		image_free(list[i]);
	free(list);
}

/* 1: one more. 0: it was removed meanwhile, or is damaged, which is added to bad. */
static int list_record(int records, const char *id, struct image **ret, struct strv *bad,
		       struct cay_error *err)
{
	if (read_record(records, id, ret, err) == 0)
		return 1;
	if (err->code == CAY_E_NOT_FOUND)
		return 0;
	if (!is_damage(err))
		return -1;
	if (bad && strv_add(bad, err->text) < 0)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "list the images");
	return 0;
}

/* Whether a file is a record, and of an id that begins so; id is its own then. */
static bool is_record(const char *file, const char *prefix, char id[IMAGE_ID_SIZE])
{
	char own[IMAGE_ID_SIZE];

	(void)snprintf(own, sizeof(own), "%.64s", file);
	if (!image_id_ok(own) || strcmp(file + IMAGE_ID_SIZE - 1, ".json") != 0 ||
	    strncmp(own, prefix, strlen(prefix)) != 0)
		return false;
	memcpy(id, own, sizeof(own));
	return true;
}

/* prefix: only images whose ids begin so. */
static int list_records(const char *dir, const char *prefix, struct image ***ret, size_t *ret_n,
			struct strv *bad, struct cay_error *err)
{
	struct image **list = NULL, **more;
	const struct dirent *e;
	char id[IMAGE_ID_SIZE];
	size_t n = 0;
	DIR *records;
	int r = open_list(dir, "records", &records);

	if (r < 0)
		return damaged("records", r, err);
	while (r >= 0 && records && (e = readdir(records))) {
		if (!is_record(e->d_name, prefix, id))
			continue;
		more = n < IMAGES_MAX ? reallocarray(list, n + 1, sizeof(*more)) : NULL;
		if (!more) {
			r = cay_fail(err, CAY_E_INTERNAL, n < IMAGES_MAX ? ENOMEM : E2BIG,
				     "list the images");
			break;
		}
		list = more;
		r = list_record(dirfd(records), id, &list[n], bad, err);
		n += r > 0;
	}
	if (records)
		(void)closedir(records);
	if (r >= 0 && n > 0)
		qsort(list, n, sizeof(*list), compare_newest);
	if (r >= 0 && n > 0)
		r = give_names(dir, list, n, err);
	if (r < 0) {
		image_list_free(list, n);
		return -1;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int images_list(const char *dir, struct image ***ret, size_t *ret_n, struct strv *bad,
		struct cay_error *err)
{
	return list_records(dir, "", ret, ret_n, bad, err);
}

/* Choice */

const char *image_id_prefix(const char *text)
{
	const char *digits = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
	size_t n = strspn(digits, "0123456789abcdef");

	return n >= IMAGE_ID_PREFIX_MIN && n < IMAGE_ID_SIZE && !digits[n] ? digits : NULL;
}

/* 1: found; 0: not there. */
static int find_by_id(const char *dir, const char *prefix, struct image **ret,
		      struct cay_error *err)
{
	_cleanup_(strv_done) struct strv bad = {0};
	struct image **list;
	size_t n;
	int r;

	if (list_records(dir, prefix, &list, &n, &bad, err) < 0)
		return -1;
	r = n > 0;
	if (n == 0 && bad.len > 0)
		r = cay_fail(err, CAY_E_INTERNAL, 0, "%s", bad.items[0]);
	if (n > 1)
		r = cay_fail(err, CAY_E_INVALID, 0, "'%s' is the beginning of %zu images' ids",
			     prefix, n);
	else if (n == 1)
		*ret = take_ptr(&list[0]);
	image_list_free(list, n);
	return r;
}

/* Whether it goes by a name of the same repository. */
static bool is_of(const struct image *image, const struct image_ref *ref)
{
	struct image_ref own;
	struct cay_error err;

	for (size_t i = 0; i < image->names.len; i++)
		if (image_ref_parse(image->names.items[i], &own, &err) == 0 &&
		    strcmp(own.registry, ref->registry) == 0 &&
		    strcmp(own.repository, ref->repository) == 0)
			return true;
	return false;
}

/*
 * By the digest alone, whatever the tag it was pulled by. Not of another repository: who may use
 * some images by their names must not have all others by their digests.
 */
static int find_by_manifest(const char *dir, const struct image_ref *ref, struct image **ret,
			    struct cay_error *err)
{
	struct image **list;
	size_t n;
	int r = 0;

	if (list_records(dir, "", &list, &n, NULL, err) < 0)
		return -1;
	for (size_t i = 0; i < n && r == 0; i++)
		if (strcmp(list[i]->manifest, ref->digest) == 0 && is_of(list[i], ref)) {
			*ret = take_ptr(&list[i]);
			r = 1;
		}
	image_list_free(list, n);
	return r;
}

/* The same for a reference in full. */
static int find_by_name(const char *dir, const char *reference, struct image **ret,
			struct cay_error *err)
{
	_cleanup_(fd_closep) int names = open_dir(dir, "names"), records = open_dir(dir, "records");
	char file[NAME_MAX + 1], id[IMAGE_ID_SIZE];
	int r;

	if (is_none(names) || is_none(records) || images_encode(reference, file) < 0)
		return 0;
	if (names < 0 || records < 0)
		return damaged("names and records", names < 0 ? names : records, err);
	r = read_name(names, file, id);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return damaged(reference, r, err);
	if (read_record(records, id, ret, err) < 0)
		return err->code == CAY_E_NOT_FOUND ? 0 : -1;
	return give_names(dir, ret, 1, err) < 0 ? -1 : 1;
}

int images_fail_missing(const char *name_or_id, struct cay_error *err)
{
	char full[IMAGE_REF_SIZE], brief[IMAGE_REF_SIZE];
	struct image_ref ref;

	(void)snprintf(brief, sizeof(brief), "%s", name_or_id);
	if (image_ref_parse(name_or_id, &ref, err) == 0) {
		image_ref_text(&ref, full);
		image_name_short(full, brief);
	}
	(void)cay_fail(err, CAY_E_IMAGE, 0, "the image %.200s is not here", brief);
	return image_id_prefix(name_or_id) ? cay_hint(err, "`cay image list` shows those that are")
					   : cay_hint(err, "cay image pull %.200s", brief);
}

int images_find(const char *dir, const char *name_or_id, struct image **ret, struct cay_error *err)
{
	_cleanup_(image_freep) struct image *image = NULL;
	const char *prefix = image_id_prefix(name_or_id);
	char full[IMAGE_REF_SIZE];
	struct image_ref ref = {0};
	bool is_ref = image_ref_parse(name_or_id, &ref, err) == 0;
	int r = 0;

	if (!is_ref && !prefix)
		return -1;
	if (is_ref) {
		image_ref_text(&ref, full);
		r = find_by_name(dir, full, &image, err);
		if (r == 0 && ref.digest[0])
			r = find_by_manifest(dir, &ref, &image, err);
	}
	if (r == 0 && prefix)
		r = find_by_id(dir, prefix, &image, err);
	if (r == 0)
		return images_fail_missing(name_or_id, err);
	if (r > 0)
		*ret = take_ptr(&image);
	return r > 0 ? 0 : -1;
}

/* The one of whose record the name begins so. */
static int find_record(const char *dir, const char *prefix, char id[IMAGE_ID_SIZE])
{
	const struct dirent *e;
	size_t n = 0;
	DIR *records;
	int r = open_list(dir, "records", &records);

	while (r == 0 && records && (e = readdir(records)))
		if (is_record(e->d_name, prefix, id))
			n++;
	if (records)
		(void)closedir(records);
	return r < 0 ? r : n == 1 ? 0 : -ENOENT;
}

int images_find_damaged(const char *dir, const char *name_or_id, struct image **ret,
			const struct cay_error *why)
{
	_cleanup_(image_freep) struct image *image = calloc(1, sizeof(*image)), *sound = NULL;
	_cleanup_(fd_closep) int names = open_dir(dir, "names");
	const char *prefix = image_id_prefix(name_or_id);
	char full[IMAGE_REF_SIZE], file[NAME_MAX + 1];
	struct image_ref ref;
	struct cay_error err;
	int r = -ENOENT;

	if (!image || why->code != CAY_E_INTERNAL || !is_damage(why))
		return -1;
	if (image_ref_parse(name_or_id, &ref, &err) == 0) {
		image_ref_text(&ref, full);
		r = names < 0 || images_encode(full, file) < 0 ? -ENOENT
							       : read_name(names, file, image->id);
	}
	if (r == -ENOENT && prefix)
		r = find_record(dir, prefix, image->id);
	if (r == -EBADMSG)
		r = strv_add(&image->names, full);
	else if (r == 0 && images_get(dir, image->id, &sound, &err) < 0 && is_damage(&err))
		r = give_names(dir, &image, 1, &err);
	else
		return -1;
	if (r == 0)
		*ret = take_ptr(&image);
	return r < 0 ? -1 : 0;
}
