#include "cli/run_language.h"

#include "base/attr.h"
#include "base/fd.h"
#include "spec/shebang.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file's beginning; nothing of pipes, whose bytes are gone once they are read. */
static size_t peek(const char *file, char *text, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	ssize_t n;

	/* Not even opened: that would be an answer to a writer who waits for its reader. */
	if (stat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	n = pread(fd, text, size, 0);
	return n > 0 ? (size_t)n : 0;
}

static bool has_extension(const char *file)
{
	const char *slash = strrchr(file, '/');

	return strchr(slash ? slash : file, '.') != NULL;
}

static bool is_directory(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && S_ISDIR(st.st_mode);
}

static int choose_by_first_line(struct spec *s, struct cay_error *err)
{
	char text[SHEBANG_MAX], name[SHEBANG_NAME_SIZE];

	switch (shebang_read(text, peek(s->file, text, sizeof(text)), name)) {
	case SHEBANG_KNOWN:
		return spec_set_language(s, name, err) < 0 ? cay_wrap(err, "%.256s", s->file) : 0;
	case SHEBANG_UNKNOWN:
		(void)cay_fail(err, CAY_E_RUNTIME, 0,
			       "%.256s is for %.64s, which is no language here", s->file, name);
		return cay_hint(err, "say which: cay run -l NAME FILE");
	case SHEBANG_NONE:
		break;
	}
	/* Also a directory, which is no script in any language. */
	if (!has_extension(s->file) || is_directory(s->file))
		return spec_set_language(s, LANGUAGE_DEFAULT, err);
	(void)cay_fail(err, CAY_E_RUNTIME, 0, "no language has the extension of %.256s", s->file);
	return cay_hint(err, "say which: cay run -l NAME FILE");
}

int run_language_choose(struct spec *s, struct cay_error *err)
{
	if (s->language || s->kind == SPEC_ARGV)
		return 0;
	if (!s->file)
		return spec_set_language(s, LANGUAGE_DEFAULT, err);
	s->language = language_by_extension(s->file);
	return s->language ? 0 : choose_by_first_line(s, err);
}
