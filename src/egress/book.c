#include "egress/book.h"

#include "base/attr.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	const struct book_name *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void name_free(struct book_name *n)
{
	if (!n)
		return;
	free(n->leads_to);
	free(n->name);
	free(n);
}

static void keep_it(void *n _unused_)
{
}

void book_done(struct book *b)
{
	tdestroy(b->by_name, keep_it);
	for (size_t i = 0; i < b->n; i++)
		name_free(b->names[i]);
	free(b->names);
	*b = (struct book){0};
}

struct book_name *book_find(const struct book *b, const char *name)
{
	const struct book_name key = {.name = (char *)name};
	struct book_name *const *found = tfind(&key, &b->by_name, compare);

	return found ? *found : NULL;
}

struct book_name *book_at(const struct book *b, uint32_t address)
{
	return address >= BOOK_FIRST && address - BOOK_FIRST < b->n ? b->names[address - BOOK_FIRST]
								    : NULL;
}

static int make_room(struct book *b)
{
	size_t cap = b->cap ? 2 * b->cap : 16;
	struct book_name **names;

	if (b->n < b->cap)
		return 0;
	names = realloc(b->names, cap * sizeof(struct book_name *));
	if (!names)
		return -ENOMEM;
	b->names = names;
	b->cap = cap;
	return 0;
}

static struct book_name *name_new(const char *name, uint32_t address)
{
	struct book_name *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->address = address;
	n->name = strdup(name);
	if (n->name)
		return n;
	free(n);
	return NULL;
}

int book_enter(struct book *b, const char *name, struct book_name **ret)
{
	struct book_name *n = book_find(b, name);

	if (n) {
		*ret = n;
		return 0;
	}
	if (b->n >= BOOK_MAX)
		return -ENOSPC;
	n = make_room(b) < 0 ? NULL : name_new(name, BOOK_FIRST + (uint32_t)b->n);
	if (!n || !tsearch(n, &b->by_name, compare)) {
		name_free(n);
		return -ENOMEM;
	}
	b->names[b->n++] = n;
	*ret = n;
	return 0;
}

int book_keep(struct book_name *n, const struct address *list, size_t len, uint64_t until_ns)
{
	size_t kept = size_min(len, BOOK_RESULTS);
	struct address *copy = calloc(kept + 1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, list, kept * sizeof(*copy));
	free(n->leads_to);
	n->leads_to = copy;
	n->n_leads_to = kept;
	n->until_ns = until_ns;
	return 0;
}
