#include "cli/table.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TABLE_BYTES_MAX (16u << 20)
#define CELL_BYTES_MAX  (64u << 10)

void table_done(struct table *t)
{
	strv_done(&t->cells);
}

int table_add(struct table *t, const char *cell, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(CELL_BYTES_MAX),
				       harmless = BUF(4 * CELL_BYTES_MAX);
	int r = buf_append_str(&text, cell && cell[0] ? cell : "-");

	if (r == 0)
		r = text_append_harmless(&harmless, text.data, text.len);
	if (r == 0)
		r = strv_add(&t->cells, buf_str(&harmless));
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE, -r, "make the table") : 0;
}

static void measure(const struct table *t, int width[TABLE_COLUMNS_MAX])
{
	for (size_t i = 0; i < t->cells.len; i++) {
		int n = (int)strlen(t->cells.items[i]);

		if (n > width[i % t->columns])
			width[i % t->columns] = n;
	}
}

/* The last column is not filled up. */
static int append_cell(const struct table *t, size_t i, const int *width, struct buf *out)
{
	bool last = i % t->columns == t->columns - 1;
	const char *end = !last            ? "  "
			  : i < t->columns ? cli_style(STDOUT_FILENO, STYLE_PLAIN)
					   : "";

	return buf_printf(out, "%-*s%s%s", last ? 0 : width[i % t->columns], t->cells.items[i], end,
			  last ? "\n" : "");
}

int table_print(const struct table *t, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf out = BUF(TABLE_BYTES_MAX);
	int width[TABLE_COLUMNS_MAX] = {0}, r;

	assert(t->columns > 0 && t->columns <= TABLE_COLUMNS_MAX);
	measure(t, width);
	r = buf_append_str(&out, cli_style(STDOUT_FILENO, STYLE_STRONG));
	for (size_t i = 0; i < t->cells.len && r == 0; i++)
		r = append_cell(t, i, width, &out);
	if (r == 0)
		r = fd_write_all(STDOUT_FILENO, out.data, out.len);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "write to standard output") : 0;
}

const char *table_age(int64_t ms, char text[24])
{
	static const struct {
		int64_t ms;
		const char *name;
	} units[] = {{86400000, "days"}, {3600000, "h"}, {60000, "min"}, {1000, "s"}};
	size_t i = 0;

	if (ms < 0)
		ms = 0;
	while (i + 1 < ARRAY_LEN(units) && ms < 2 * units[i].ms)
		i++;
	(void)snprintf(text, 24, "%lld %s", (long long)(ms / units[i].ms), units[i].name);
	return text;
}
