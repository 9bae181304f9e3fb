#include "base/title.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Numbers of fields of /proc/PID/stat, as proc(5) counts them. */
#define ARG_START 48
#define ARG_END   49

static char *area;
static size_t area_size;

void title_init(int argc, char **argv)
{
	if (argc < 1)
		return;
	/* The kernel lays the strings out one behind the other. */
	area = argv[0];
	area_size = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
}

int title_init_own(void)
{
	char text[2048], *field;
	uint64_t first = 0, end = 0;
	ssize_t n = fd_read_text_at(AT_FDCWD, "/proc/self/stat", text, sizeof(text));

	if (n < 0)
		return (int)n;
	field = strrchr(text, ')'); /* the end of field 2, which can have anything in it */
	for (int k = 2; field && k < ARG_END; k++) {
		field = strchr(field + 1, ' ');
		if (field && k + 1 == ARG_START)
			first = strtoull(field + 1, NULL, 10);
	}
	if (field)
		end = strtoull(field + 1, NULL, 10);
	if (first == 0 || end <= first)
		return -EINVAL;
	area = (char *)(uintptr_t)first;
	area_size = (size_t)(end - first);
	return 0;
}

void title_set(const char *title)
{
	if (!area)
		return;
	memset(area, 0, area_size);
	(void)snprintf(area, area_size, "%s", title);
}
