#include "image/platform.h"

#include "base/attr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define FITS_BEST 100

bool platform_part_ok(const char *part)
{
	size_t n = strspn(part, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	return n > 0 && n < PLATFORM_PART_SIZE && !part[n];
}

int platform_parse(const char *text, struct platform *ret, struct cay_error *err)
{
	struct platform p = {0};
	char *parts[] = {p.os, p.architecture, p.variant};
	const char *at = text;
	size_t n = 0;

	for (;; at++) {
		size_t len = strcspn(at, "/");

		if (n == ARRAY_LEN(parts) || len >= PLATFORM_PART_SIZE)
			break;
		memcpy(parts[n], at, len);
		if (!platform_part_ok(parts[n++]))
			break;
		at += len;
		if (!*at && n >= 2) {
			*ret = p;
			return 0;
		}
		if (!*at)
			break;
	}
	(void)cay_fail(err, CAY_E_INVALID, 0, "%.100s is no platform", text);
	return cay_hint(err, "use OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as linux/amd64 "
			     "or linux/arm/v7");
}

int platform_here(struct platform *ret, struct cay_error *err)
{
	/* The kernel's names of machines, and the registries'. */
	static const struct {
		const char *machine, *architecture, *variant;
	} rows[] = {
		{"x86_64", "amd64", ""},
		{"aarch64", "arm64", ""},
		{"armv7l", "arm", "v7"},
		{"armv6l", "arm", "v6"},
		{"i686", "386", ""},
		{"riscv64", "riscv64", ""},
		{"ppc64le", "ppc64le", ""},
		{"s390x", "s390x", ""},
		{"loongarch64", "loong64", ""},
	};
	struct utsname u;

	if (uname(&u) < 0)
		return cay_fail(err, CAY_E_INTERNAL, errno, "ask which machine this is");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(u.machine, rows[i].machine) == 0) {
			*ret = (struct platform){.os = "linux"};
			(void)snprintf(ret->architecture, sizeof(ret->architecture), "%s",
				       rows[i].architecture);
			(void)snprintf(ret->variant, sizeof(ret->variant), "%s", rows[i].variant);
			return 0;
		}
	(void)cay_fail(err, CAY_E_UNSUPPORTED, 0, "images for a machine of kind %s are not known",
		       u.machine);
	return cay_hint(err, "say which are meant with --platform OS/ARCHITECTURE");
}

void platform_text(const struct platform *p, char ret[PLATFORM_SIZE])
{
	(void)snprintf(ret, PLATFORM_SIZE, "%s/%s%s%s", p->os, p->architecture,
		       p->variant[0] ? "/" : "", p->variant);
}

/* The variant that is meant where none is said. */
static const char *variant_of(const struct platform *p)
{
	if (p->variant[0])
		return p->variant;
	if (strcmp(p->architecture, "arm64") == 0)
		return "v8";
	if (strcmp(p->architecture, "arm") == 0)
		return "v7";
	return strcmp(p->architecture, "amd64") == 0 ? "v1" : "";
}

int platform_fits(const struct platform *wanted, const struct platform *offered)
{
	const char *w = variant_of(wanted), *o = variant_of(offered);

	if (strcmp(wanted->os, offered->os) != 0 ||
	    strcmp(wanted->architecture, offered->architecture) != 0)
		return 0;
	if (strcmp(w, o) == 0)
		return FITS_BEST;
	/* Variants are "v" and a number, and each runs what is for those before it. */
	if (w[0] == 'v' && o[0] == 'v' && strlen(w) == 2 && strlen(o) == 2 && o[1] < w[1])
		return FITS_BEST - (w[1] - o[1]);
	return 0;
}
