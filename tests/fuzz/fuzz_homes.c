/* passwd files: homes are absolute, and each is there once. */
#include "fuzz.h"

#include "settings/homes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(strv_done) struct strv homes = {0};
	FILE *f;

	if (size == 0)
		return 0;
	f = fmemopen((void *)(uintptr_t)data, size, "r");
	CHECK(f && homes_add(&homes, f) == 0);
	(void)fclose(f);
	for (size_t i = 0; i < homes.len; i++) {
		const char *home = homes.items[i];

		CHECK(home[0] == '/' && !strpbrk(home, ":\n"));
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(homes.items[k], home) != 0);
	}
	return 0;
}
