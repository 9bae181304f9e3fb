#include "cli/picture.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX   10000
#define KITTY_CHUNK 4096
#define BASE64_MAX  (64u << 20)

const struct picture_type picture_types[PICTURE_TYPES] = {
	{.mime = "image/png",
	 .extension = "png",
	 .begins = {"\x89PNG\r\n\x1a\n"},
	 .kitty = true,
	 .iterm = true,
	 .sixel = true},
	{.mime = "image/jpeg", .extension = "jpg", .begins = {"\xff\xd8\xff"}, .iterm = true},
	{.mime = "image/gif", .extension = "gif", .begins = {"GIF87a", "GIF89a"}, .iterm = true},
	{.mime = "image/svg+xml",
	 .extension = "svg",
	 .begins = {"<svg", "<?xml", "<!DOCTYPE svg", "<!--"},
	 .has = "<svg",
	 .is_text = true},
};

bool picture_is(const struct picture_type *type, const void *data, size_t len)
{
	const char *bytes = data;
	bool begins = false;

	while (type->is_text && len > 0 && bytes[0] && strchr(" \t\r\n", bytes[0])) {
		bytes++;
		len--;
	}
	for (size_t i = 0; !begins && i < PICTURE_BEGINNINGS_MAX && type->begins[i]; i++) {
		size_t n = strlen(type->begins[i]);

		begins = len >= n && memcmp(bytes, type->begins[i], n) == 0;
	}
	return begins && (!type->has || memmem(bytes, len, type->has, strlen(type->has)));
}

static bool env_is(const char *name, const char *value)
{
	const char *is = getenv(name);

	return is && strcmp(is, value) == 0;
}

static bool env_set(const char *name)
{
	const char *is = getenv(name);

	return is && is[0];
}

/* Variables don't tell what is behind a multiplexer. */
static bool is_direct(void)
{
	const char *term = getenv("TERM");

	return !env_set("TMUX") && !env_set("STY") && term && strncmp(term, "screen", 6) != 0 &&
	       strncmp(term, "tmux", 4) != 0;
}

static bool is_kitty(void)
{
	return env_set("KITTY_WINDOW_ID") || env_is("TERM", "xterm-kitty") ||
	       env_is("TERM", "xterm-ghostty") || env_is("TERM_PROGRAM", "ghostty");
}

static bool is_iterm(void)
{
	return env_is("TERM_PROGRAM", "iTerm.app") || env_is("TERM_PROGRAM", "WezTerm");
}

/* q=2: no answers, which would be read as if they were typed. */
static int append_kitty(struct buf *out, const char *text, size_t len)
{
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += KITTY_CHUNK) {
		size_t n = size_min(len - at, KITTY_CHUNK);

		r = buf_printf(out, "\033_G%sm=%d;", at == 0 ? "a=T,f=100,q=2," : "q=2,",
			       at + n < len);
		if (r == 0)
			r = buf_append(out, text + at, n);
		if (r == 0)
			r = buf_append_str(out, "\033\\");
	}
	return r < 0 ? r : buf_append_str(out, "\n");
}

static int append_iterm(struct buf *out, const char *text, size_t len, size_t bytes)
{
	int r = buf_printf(out, "\033]1337;File=inline=1;size=%zu:", bytes);

	if (r == 0)
		r = buf_append(out, text, len);
	return r < 0 ? r : buf_append_str(out, "\a\n");
}

int picture_append(struct buf *out, const struct picture_type *type, const void *data, size_t len,
		   struct screen *screen)
{
	_cleanup_(buf_done) struct buf text = BUF(BASE64_MAX);
	bool kitty = type->kitty && is_kitty(), iterm = type->iterm && is_iterm();
	int r;

	if (len == 0 || isatty(STDOUT_FILENO) != 1)
		return 1;
	if (!is_direct() || !(kitty || iterm))
		return type->sixel && screen && screen_ask(screen)
			       ? picture_sixel(out, screen, data, len)
			       : 1;
	r = text_append_base64(&text, data, len);
	if (r < 0)
		return r;
	return kitty ? append_kitty(out, text.data, text.len)
		     : append_iterm(out, text.data, text.len, len);
}

int picture_save(int dir_fd, const struct picture_type *type, const void *data, size_t len,
		 char ret_name[32], struct cay_error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	for (int n = 1; fd < 0 && n <= NAMES_MAX; n++) {
		(void)snprintf(ret_name, 32, "cay-%d.%s", n, type->extension);
		fd = openat(dir_fd, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return cay_fail(err, CAY_E_INVALID, errno, "save a picture as %s", ret_name);
	r = fd_write_all(fd, data, len);
	if (r == 0)
		return 0;
	(void)unlinkat(dir_fd, ret_name, 0);
	return cay_fail(err, CAY_E_INVALID, -r, "write %s", ret_name);
}
