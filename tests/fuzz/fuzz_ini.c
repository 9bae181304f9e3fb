/* The INI shim: items are made of one line each, in order, and nothing is cut or joined. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/ini.h"

#include <errno.h>

struct seen {
	const char *text;
	int line, refuse; /* the item that is refused; 0: none */
	int n;
	struct buf out;
};

/* The line with that number. */
static void find_line(const char *text, int n, const char **ret, size_t *ret_len)
{
	while (--n > 0) {
		text = strchr(text, '\n');
		CHECK(text++);
	}
	*ret = text;
	*ret_len = strcspn(text, "\n");
}

static void check_word(const char *word, const char *line, size_t len)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < n; i++)
		CHECK((unsigned char)word[i] >= 0x20 || word[i] == '\t');
	CHECK(n <= INI_LINE_MAX);
	CHECK(n == 0 || memmem(line, len, word, n));
}

static int take(void *ctx, const struct cay_ini_item *item)
{
	struct seen *s = ctx;
	const char *line;
	size_t len;

	CHECK(item->line >= s->line && item->line > 0);
	CHECK(strlen(item->section) <= INI_SECTION_MAX && !strchr(item->section, ']'));
	s->line = item->line;
	find_line(s->text, item->line, &line, &len);
	if (item->key) {
		check_word(item->key, line, len);
		check_word(item->value, line, len);
		CHECK(buf_printf(&s->out, "%s=%s\n", item->key, item->value) == 0);
	} else {
		check_word(item->section, line, len);
		CHECK(buf_printf(&s->out, "[%s]\n", item->section) == 0);
	}
	return ++s->n == s->refuse ? -1 : 0;
}

static int parse(struct seen *s)
{
	const char *why = "untouched";
	int r = ini_each(s->text, take, s, &why);

	CHECK(r == 0 || r >= s->line);
	CHECK(r == 0 ? !why : why || r == s->line);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	int refuse = input_u8(&in) % 8;
	_cleanup_(freep) char *text = input_rest(&in);
	struct seen first = {.text = text, .refuse = refuse, .out = BUF(8 << 20)};
	int r;

	/* A first line of its own: a byte order mark means something at the beginning alone. */
	CHECK(buf_append_str(&first.out, "\n") == 0);
	r = parse(&first);

	CHECK(refuse == 0 || first.n <= refuse);
	if (r == 0) {
		/* What was understood, written down, means the same. */
		struct seen again = {.text = buf_str(&first.out), .out = BUF(8 << 20)};

		CHECK(buf_append_str(&again.out, "\n") == 0);
		CHECK(parse(&again) == 0 && again.n == first.n);
		CHECK(strcmp(buf_str(&again.out), buf_str(&first.out)) == 0);
		buf_done(&again.out);
	}
	buf_done(&first.out);
	return 0;
}
