#include "spec/version.h"

#include <stddef.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool version_valid(const char *version)
{
	const char *p = version;

	do {
		if (!is_digit(*p))
			return false;
		p += strspn(p, "0123456789");
	} while (*p == '.' && p++);
	p += strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789+");
	return *p == '\0' && p - version < VERSION_SIZE;
}

bool version_is_request(const char *version)
{
	const char *p = version;

	if (strlen(version) >= VERSION_SIZE)
		return false;
	do {
		if (!is_digit(*p))
			return false;
		p += strspn(p, "0123456789");
	} while (*p++ == '.');
	return p[-1] == '\0';
}

bool version_matches(const char *version, const char *request)
{
	size_t n = strlen(request);

	/* 3.12.1+ is a 3.12.1. */
	return strncmp(version, request, n) == 0 &&
	       (version[n] == '\0' || version[n] == '.' || version[n] == '+');
}

/* What stands behind equal numbers: rc1 < nothing < + < one more number. */
static int tail_rank(char c)
{
	return c == '\0' ? 1 : c == '+' ? 2 : c == '.' ? 3 : 0;
}

int version_compare(const char *a, const char *b)
{
	for (;;) {
		size_t n, m;

		/* A number beats none, and without leading zeros the longer one the shorter. */
		if (is_digit(*a) != is_digit(*b))
			return is_digit(*a) ? 1 : -1;
		a += strspn(a, "0");
		b += strspn(b, "0");
		n = strspn(a, "0123456789");
		m = strspn(b, "0123456789");
		if (n != m)
			return n < m ? -1 : 1;
		if (strncmp(a, b, n) != 0)
			return strncmp(a, b, n);
		a += n;
		b += m;
		if (*a != '.' || *b != '.')
			break;
		a++;
		b++;
	}
	if (tail_rank(*a) != tail_rank(*b))
		return tail_rank(*a) - tail_rank(*b);
	return strverscmp(a, b);
}
