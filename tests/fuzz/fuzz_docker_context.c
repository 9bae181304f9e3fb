/* What `docker context` writes: a name and an address are short, whatever the files say. */
#include "fuzz.h"

#include "engine/container/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	char name[128], host[256];
	int r = place_current_context(text, size, name);

	CHECK(r <= 0 && (r < 0 || strlen(name) < sizeof(name)));
	r = place_context_host(text, size, r < 0 ? "mine" : name, host);
	CHECK(r <= 1 && (r != 0 || strlen(host) < sizeof(host)));
	return 0;
}
