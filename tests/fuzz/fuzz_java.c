/* The class that a Java source begins with: its name becomes a file's and an argument. */
#include "fuzz.h"

#include "spec/java.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *entry = java_entry((const char *)data, size);
	const char *class;

	if (!entry)
		return 0;
	CHECK(strlen(entry) < 512);
	for (const char *p = entry; *p; p++)
		CHECK((unsigned char)*p > ' ' && *p != '/' && *p != '-' && *p != '"' && *p != '\\');
	class = strrchr(entry, '.') ? strrchr(entry, '.') + 1 : entry;
	CHECK(*class && memmem(data, size, class, strlen(class)));
	return 0;
}
