#include "base/leftover.h"

#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* Dead, also where nobody has taken note of it yet: whoever that is up to may be slow. */
static bool is_dead(pid_t pid)
{
	char path[32], text[128];
	const char *end;

	if (kill(pid, 0) < 0)
		return errno == ESRCH;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	end = strrchr(text, ')'); /* "12 (name) Z …": a name may have anything in it */
	return end && (strncmp(end, ") Z ", 4) == 0 || strncmp(end, ") X ", 4) == 0);
}

bool leftover_is_orphan(const char *name, const char *prefix)
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
	return parse_u64(number, 1, 1u << 30, &pid) == 0 && is_dead((pid_t)pid);
}
