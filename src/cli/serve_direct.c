#include "cli/serve_direct.h"

#include "base/parse.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

/* A number that is nobody's has the group of the same number. */
static int find_user(const char *name, struct bare_rules *ret, struct cay_error *err)
{
	uint64_t number = 0;
	bool is_number = parse_u64(name, 1, UINT32_MAX - 1, &number) == 0;
	const struct passwd *p = is_number ? getpwuid((uid_t)number) : getpwnam(name);

	if (!p && !is_number)
		return cay_fail(err, CAY_E_INVALID, 0, "[serve] direct_user: there is no user %s",
				name);
	ret->uid = p ? p->pw_uid : (uid_t)number;
	ret->gid = p ? p->pw_gid : (gid_t)number;
	ret->has_user = true;
	return 0;
}

int serve_direct_rules(const struct settings *s, const char *socket, uid_t api,
		       struct bare_rules *ret, struct cay_error *err)
{
	const char *name = s->serve_direct_user;

	*ret = (struct bare_rules){
		.mode = s->serve_mode, .over_tcp = s->serve_direct_over_tcp, .api = api};
	(void)snprintf(ret->socket, sizeof(ret->socket), "%s", socket);
	if (!name)
		return 0;
	if (find_user(name, ret, err) < 0)
		return -1;
	if (ret->uid == 0 || ret->gid == 0)
		return cay_fail(err, CAY_E_INVALID, 0,
				"[serve] direct_user: %s is root, or of root's group", name);
	if (geteuid() == 0 ? ret->uid == api : ret->uid != geteuid()) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "[serve] direct_user: can't be %s", name);
		return cay_hint(err, geteuid() == 0 ? "that is the daemon's own user"
						    : "only root's daemon has programs of "
						      "others than the user who started it");
	}
	return 0;
}
