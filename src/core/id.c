#include "core/id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_CHARS 16

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz"; /* Crockford's 32 */

bool id_ok(const char *prefix, const char id[ID_SIZE])
{
	size_t n = strlen(prefix);

	return memchr(id, '\0', ID_SIZE) && strncmp(id, prefix, n) == 0 && id[n] == '_' &&
	       strlen(id + n + 1) == RANDOM_CHARS && strspn(id + n + 1, alphabet) == RANDOM_CHARS;
}

int id_make(const char *prefix, char id[ID_SIZE])
{
	unsigned char random[RANDOM_CHARS];
	char text[RANDOM_CHARS + 1];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -1;
	for (int i = 0; i < RANDOM_CHARS; i++)
		text[i] = alphabet[random[i] % 32];
	text[RANDOM_CHARS] = '\0';
	(void)snprintf(id, ID_SIZE, "%s_%s", prefix, text);
	return 0;
}

bool id_is_kept(const char id[ID_SIZE])
{
	return id_ok("sbx", id) || id_ok("wsp", id);
}
