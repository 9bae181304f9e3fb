#include "base/title.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

void title_set(const char *title)
{
	if (!area)
		return;
	memset(area, 0, area_size);
	(void)snprintf(area, area_size, "%s", title);
}
