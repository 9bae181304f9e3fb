/* /proc/self/cgroup: the path of a controller is a part of one line. */
#include "fuzz.h"

#include "engine/native/cgroup_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const controllers[] = {"", "memory", "pids", "cpu"};
	struct input in = INPUT(data, size);
	size_t room = input_u8(&in) + 1u;
	_cleanup_(freep) char *text = input_rest(&in);
	_cleanup_(freep) char *path = malloc(room);

	CHECK(path);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		if (!cgroup_own_path(text, controllers[i], path, room))
			continue;
		CHECK(strlen(path) < room && !strchr(path, '\n'));
		CHECK(!*path || strstr(text, path));
		CHECK(strstr(text, controllers[i]));
	}
	return 0;
}
