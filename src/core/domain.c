#include "core/domain.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX 63

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter_or_digit(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z');
}

/* A last label of which inet_aton() or a browser would make a number: "1", "0x7f". */
static bool is_number(const char *label, size_t len)
{
	bool hex = len > 1 && label[0] == '0' && label[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < len; i++)
		if (!is_digit(label[i]) && !(hex && label[i] >= 'a' && label[i] <= 'f'))
			return false;
	return true;
}

static bool label_ok(const char *label, size_t len)
{
	if (len == 0 || len > LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (label[i] != '-' && !is_letter_or_digit(label[i]))
			return false;
	return true;
}

int domain_name(const char *text, size_t len, char ret[DOMAIN_SIZE])
{
	size_t begin = 0;

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len >= DOMAIN_SIZE)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		ret[i] = lower(text[i]);
	ret[len] = '\0';
	for (size_t i = 0; i <= len; i++) {
		if (i < len && ret[i] != '.')
			continue;
		if (!label_ok(ret + begin, i - begin))
			return -EINVAL;
		if (i == len && is_number(ret + begin, i - begin))
			return -EINVAL;
		begin = i + 1;
	}
	return 0;
}

static int bad_rule(struct cay_error *err, const char *text)
{
	(void)cay_fail(err, CAY_E_INVALID, 0, "%.300s is no rule for domains", text);
	return cay_hint(err,
			"use example.org, *.example.org or *, with :PORT or :* behind it where "
			"80 and 443 are not meant; other scripts in their xn-- form");
}

static int parse_port(const char *text, int32_t *ret)
{
	uint64_t n = 0;

	*ret = DOMAIN_PORTS_ALL;
	if (strcmp(text, "*") == 0)
		return 0;
	if (parse_u64(text, 1, UINT16_MAX, &n) < 0)
		return -EINVAL;
	*ret = (int32_t)n;
	return 0;
}

int domain_rule_parse(const char *text, struct domain_rule *ret, struct cay_error *err)
{
	const char *colon = strchr(text, ':');
	const char *name = text;
	size_t len = colon ? (size_t)(colon - text) : strlen(text);

	*ret = (struct domain_rule){.port = DOMAIN_PORTS_UNSAID};
	if (colon && parse_port(colon + 1, &ret->port) < 0)
		return bad_rule(err, text);
	ret->below = len > 0 && name[0] == '*';
	if (ret->below && len == 1)
		return 0;
	if (ret->below && name[1] != '.')
		return bad_rule(err, text);
	if (ret->below) {
		name += 2;
		len -= 2;
	}
	return domain_name(name, len, ret->name) < 0 ? bad_rule(err, text) : 0;
}

void domain_rule_text(const struct domain_rule *r, char ret[DOMAIN_RULE_SIZE])
{
	const char *star = !r->below ? "" : r->name[0] ? "*." : "*";
	char port[8] = "";

	if (r->port == DOMAIN_PORTS_ALL)
		(void)snprintf(port, sizeof(port), ":*");
	else if (r->port != DOMAIN_PORTS_UNSAID)
		(void)snprintf(port, sizeof(port), ":%u", (unsigned)r->port & UINT16_MAX);
	(void)snprintf(ret, DOMAIN_RULE_SIZE, "%s%s%s", star, r->name, port);
}

static bool is_below(const char *name, const char *above)
{
	size_t len = strlen(name), n = strlen(above);

	return n == 0 ||
	       (len > n + 1 && name[len - n - 1] == '.' && strcmp(name + len - n, above) == 0);
}

static bool name_matches(const struct domain_rule *r, const char *name)
{
	return r->below ? is_below(name, r->name) : strcmp(name, r->name) == 0;
}

bool domain_rule_allows(const struct domain_rule *r, const char *name, uint16_t port)
{
	if (!name_matches(r, name))
		return false;
	if (r->port == DOMAIN_PORTS_UNSAID)
		return port == 80 || port == 443;
	return r->port == DOMAIN_PORTS_ALL || r->port == port;
}

bool domain_rule_blocks(const struct domain_rule *r, const char *name, uint16_t port)
{
	return name_matches(r, name) &&
	       (r->port == DOMAIN_PORTS_UNSAID || r->port == DOMAIN_PORTS_ALL || r->port == port);
}

static bool ports_cover(int32_t outer, int32_t inner)
{
	return outer == inner || outer == DOMAIN_PORTS_ALL ||
	       (outer == DOMAIN_PORTS_UNSAID && (inner == 80 || inner == 443));
}

bool domain_rule_covers(const struct domain_rule *outer, const struct domain_rule *inner)
{
	bool names = !inner->below ? name_matches(outer, inner->name)
				   : outer->below && (strcmp(outer->name, inner->name) == 0 ||
						      is_below(inner->name, outer->name));

	return names && ports_cover(outer->port, inner->port);
}
