/* A file that `docker login` wrote, behind a line with a registry. */
#include "fuzz.h"

#include "image/docker_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *registry = input_line(&in);
	size_t len = in.len;
	_cleanup_(freep) char *text = input_rest(&in);
	struct cay_error err;
	struct login l;

	if (docker_config_parse(text, len, registry, "team/app", &l, &err) < 0) {
		CHECK(err.code == CAY_E_INVALID || err.code == CAY_E_UNSUPPORTED);
		return 0;
	}
	CHECK(strlen(l.user) < sizeof(l.user) && strlen(l.password) < sizeof(l.password));
	CHECK(strlen(l.helper) < sizeof(l.helper));
	CHECK(l.user[0] || !l.password[0]);
	CHECK(!l.user[0] || !l.helper[0]);
	return 0;
}
