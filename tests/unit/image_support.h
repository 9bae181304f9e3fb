/*
 * image_support.h: image stores that tests write by hand, as cay-image would.
 */
#pragma once

#include "image/images.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "engine/tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PYTHON_312 "docker.io/library/python:3.12-slim"

/* Of n of the same digit. */
static inline const char *image_id(char digit)
{
	static char ids[4][IMAGE_ID_SIZE];
	static int turn;

	turn = (turn + 1) % 4;
	memset(ids[turn], digit, IMAGE_ID_SIZE - 1);
	return ids[turn];
}

static inline void image_store_make(char dir[PATH_MAX])
{
	char path[PATH_MAX + 16];

	(void)snprintf(dir, PATH_MAX, "/tmp/images-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (const char *const *name = (const char *const[]){"names", "records", NULL}; *name;
	     name++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, *name);
		assert_int_equal(mkdir(path, 0755), 0);
	}
}

static inline void image_store_remove(const char *dir)
{
	_cleanup_(fd_closep) int fd = tree_open(AT_FDCWD, dir);

	assert_true(fd >= 0);
	tree_empty(fd);
	assert_int_equal(rmdir(dir), 0);
}

static inline void image_put_text(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX + NAME_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, file);
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), 0644), 0);
}

static inline void image_put_name(const char *dir, const char *reference, const char *id)
{
	char name[NAME_MAX + 1], file[NAME_MAX + 16], text[IMAGE_ID_SIZE + 1];

	assert_int_equal(images_encode(reference, name), 0);
	(void)snprintf(file, sizeof(file), "names/%s", name);
	(void)snprintf(text, sizeof(text), "%s\n", id);
	image_put_text(dir, file, text);
}

/* members: what the record has behind its id, beginning with a comma; or "". */
static inline void image_put_record(const char *dir, const char *id, const char *members)
{
	char file[128];
	_cleanup_(buf_done) struct buf text = BUF(RECORD_MAX_BYTES);

	(void)snprintf(file, sizeof(file), "records/%s.json", id);
	assert_int_equal(buf_printf(&text, "{\"id\":\"%s\"%s}\n", id, members), 0);
	image_put_text(dir, file, buf_str(&text));
}

/* An image of that name whose only interpreter is this one. */
static inline void image_put(const char *dir, const char *reference, const char *id,
			     const char *language, const char *version, const char *program)
{
	char members[512];

	(void)snprintf(
		members, sizeof(members),
		",\"runtimes\":[{\"language\":\"%s\",\"version\":\"%s\",\"program\":\"%s\"}]",
		language, version, program);
	image_put_record(dir, id, members);
	image_put_name(dir, reference, id);
}
