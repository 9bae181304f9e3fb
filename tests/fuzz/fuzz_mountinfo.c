/* The list of mounts: lines are taken whole and in order, or not at all. */
#include "fuzz.h"

#include "engine/mountinfo.h"

#include <errno.h>

/* As the kernel writes it. */
static void escape(const char *path, char *out, size_t size)
{
	size_t len = 0;

	for (; *path; path++) {
		bool special = strchr(" \t\n\\", *path);
		int n = snprintf(out + len, size - len, special ? "\\%03o" : "%c",
				 (unsigned char)*path);

		CHECK(n > 0 && (len += (size_t)n) < size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mount_line m, again;
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *text = input_rest(&in);
	const char *at = text, *before = at;
	int r;

	for (; (r = mountinfo_next(&at, &m)) > 0; before = at) {
		static char line[10 * PATH_MAX], root[4 * PATH_MAX], point[4 * PATH_MAX];
		const char *p = line;

		CHECK(at > before && at <= text + strlen(text) && (!*at || at[-1] == '\n'));
		CHECK(m.root[0] && m.point[0]);
		escape(m.root, root, sizeof(root));
		escape(m.point, point, sizeof(point));
		(void)snprintf(line, sizeof(line), "%u 1 %u:%u %s %s rw - x y rw\n", m.id, m.major,
			       m.minor, root, point);
		CHECK(mountinfo_next(&p, &again) == 1 && !*p);
		CHECK(again.id == m.id && again.major == m.major && again.minor == m.minor);
		CHECK(strcmp(again.root, m.root) == 0 && strcmp(again.point, m.point) == 0);
	}
	CHECK(at == before);
	CHECK(r == 0 ? !*at : r == -EINVAL);
	return 0;
}
