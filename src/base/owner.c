#include "base/owner.h"

#include "base/parse.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

bool owner_is_gone(const char *name, const char *prefix)
{
	size_t skip = strlen(prefix), n;
	char number[16];
	uint64_t pid;

	if (strncmp(name, prefix, skip) != 0)
		return false;
	n = strcspn(name + skip, "-");
	if (name[skip + n] != '-' || n >= sizeof(number))
		return false;
	(void)snprintf(number, sizeof(number), "%.*s", (int)n, name + skip);
	return parse_u64(number, 1, 1u << 30, &pid) == 0 && kill((pid_t)pid, 0) < 0 &&
	       errno == ESRCH;
}
