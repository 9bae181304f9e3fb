#include "spec/driver.h"

#include "base/attr.h"
#include "spec/language.h"

#include <stddef.h>
#include <string.h>

static const char python[] = {
#include "context-python.h"
	0};
static const char node[] = {
#include "context-node.h"
	0};
static const char bash[] = {
#include "context-bash.h"
	0};

/* Node can't move its standard input, which programs that it starts would inherit. */
static const char *const node_words[] = {
	"/bin/sh", "-c",
	"exec 3<&0 </dev/null; exec \"$0\" --no-force-async-hooks-checks -e \"$1\"", "{program}",
	NULL};

static const struct driver {
	const char *language, *text;
	const char *const *words;
	bool plain; /* bash reads up to a NUL, and no JSON */
} drivers[] = {
	{"python", python, NULL, false},
	{"javascript", node, node_words, false},
	{"bash", bash, NULL, true},
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

const char *const *driver_words(const struct language *l)
{
	const struct driver *d = find(l);

	return d ? d->words : NULL;
}

bool driver_is_plain(const struct language *l)
{
	const struct driver *d = find(l);

	return d && d->plain;
}
