/* The first line of scripts. */
#include "fuzz.h"

#include "spec/shebang.h"
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) struct spec *spec = calloc(1, sizeof(*spec));
	char name[SHEBANG_NAME_SIZE];
	struct cay_error err = {0};
	enum shebang r;

	CHECK(spec);
	memset(name, 'x', sizeof(name));
	r = shebang_read((const char *)data, size, name);
	CHECK(memchr(name, '\0', sizeof(name)));
	CHECK(!strpbrk(name, " \t\r\n"));
	CHECK(r != SHEBANG_NONE || !name[0]);
	CHECK(r == SHEBANG_NONE || (size >= 2 && data[0] == '#' && data[1] == '!'));
	CHECK(r != SHEBANG_UNKNOWN || (!strchr(name, '/') && !language_find(name)));
	/* What it says is for this, which may find the name wrong, but not choke on it. */
	if (r == SHEBANG_KNOWN && spec_set_language(spec, name, &err) < 0)
		CHECK(err.code == CAY_E_RUNTIME || err.code == CAY_E_INVALID);
	spec_done(spec);
	return 0;
}
