#include "settings/homes.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_once(struct strv *v, const char *home)
{
	if (!home || home[0] != '/')
		return 0;
	for (size_t i = 0; i < v->len; i++)
		if (strcmp(v->items[i], home) == 0)
			return 0;
	return strv_add(v, home);
}

int homes_add(struct strv *ret, FILE *passwd)
{
	int r = 0;

	/* The end of the file has no errno, or ENOENT; a rule without some homes would be a hole.
	 */
	for (struct passwd *p; r == 0 && (errno = 0, p = fgetpwent(passwd));)
		r = add_once(ret, p->pw_dir);
	if (r == 0 && errno != 0 && errno != ENOENT)
		r = -errno;
	return r;
}

int homes_read(struct strv *ret, struct cay_error *err)
{
	/* The file, not NSS: a static program can't load NSS modules. */
	FILE *f = fopen("/etc/passwd", "re");
	int r = 0;

	if (!f && errno != ENOENT)
		return cay_fail(err, CAY_E_INTERNAL, errno, "read /etc/passwd");
	if (f) {
		r = homes_add(ret, f);
		(void)fclose(f);
	}
	if (r == 0)
		r = add_once(ret, getenv("HOME"));
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "list the homes") : 0;
}
