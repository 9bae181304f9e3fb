#include "spec/driver.h"

#include "base/attr.h"
#include "spec/language.h"

#include <stddef.h>
#include <string.h>

static const char python[] = {
#include "context-python.h"
	0};

static const struct driver {
	const char *language, *text;
	bool plain; /* bash reads up to a NUL, and no JSON */
} drivers[] = {
	{"python", python, false},
};

static const struct driver *find(const struct language *l)
{
	for (size_t n = 0; n < ARRAY_LEN(drivers); n++)
		if (strcmp(drivers[n].language, l->name) == 0)
			return &drivers[n];
	return NULL;
}

const char *driver_text(const struct language *l)
{
	const struct driver *d = find(l);

	return d ? d->text : NULL;
}

bool driver_is_plain(const struct language *l)
{
	const struct driver *d = find(l);

	return d && d->plain;
}
