#include "engine/native/bare_user.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
}

/*
 * Whether it was accepted from our listener: that alone has our address as its own. Not
 * the listener itself, whose peer the kernel says is whoever listens, nor the other end.
 */
static bool is_callers(int fd, const char *path)
{
	struct sockaddr_un at = {0};
	socklen_t len = sizeof(at);

	if (option(fd, SO_DOMAIN) != AF_UNIX || option(fd, SO_TYPE) != SOCK_STREAM ||
	    option(fd, SO_ACCEPTCONN) != 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return false;
	return path[0] && len > offsetof(struct sockaddr_un, sun_path) &&
	       strncmp(at.sun_path, path, sizeof(at.sun_path)) == 0;
}

static int denied(struct cay_error *err, const char *what, const char *hint)
{
	(void)cay_fail(err, CAY_E_POLICY, 0, "without a sandbox: %s", what);
	return cay_hint(err, "%s", hint);
}

static int configured(const struct bare_rules *rules, const char *who, struct bare_user *ret,
		      struct cay_error *err)
{
	if (!rules->has_user || rules->uid == 0 || rules->gid == 0) {
		(void)cay_fail(err, CAY_E_POLICY, 0,
			       "without a sandbox: %s, and there is no user to run it as", who);
		return cay_hint(err, "[serve] direct_user in the settings names one; or ask for "
				     "mode all");
	}
	*ret = (struct bare_user){.uid = rules->uid, .gid = rules->gid, .change = true};
	return 0;
}

static int for_peer(const struct bare_rules *rules, int peer, struct bare_user *ret,
		    struct cay_error *err)
{
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);

	if (!is_callers(peer, rules->socket) ||
	    getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof(cred))
		return denied(err, "what came along is no caller's connection",
			      "the daemon's own mistake, or worse: see its log");
	if (geteuid() != 0 && cred.uid != geteuid())
		return denied(err, "the daemon is another user's",
			      "it runs programs for that user alone; or ask for mode all");
	if (geteuid() != 0) {
		*ret = (struct bare_user){.uid = geteuid(), .gid = getegid()};
		return 0;
	}
	if (cred.uid == 0)
		return configured(rules, "the caller is root", ret, err);
	if (cred.uid == rules->api)
		return denied(err, "the caller is the daemon's own user",
			      "ask as another user, or for mode all");
	if (cred.gid == 0)
		return denied(err, "the caller's group is root's",
			      "ask with another group, or for mode all");
	*ret = (struct bare_user){.uid = cred.uid, .gid = cred.gid, .change = true};
	return 0;
}

int bare_user_find(const struct bare_rules *rules, int peer, struct bare_user *ret,
		   struct cay_error *err)
{
	if (!rules || (rules->mode != MODE_OFF && rules->mode != MODE_SELECTIVE))
		return denied(err, "the operator's mode is all",
			      "[serve] mode in the settings says what is sandboxed");
	if (peer >= 0)
		return for_peer(rules, peer, ret, err);
	if (!rules->over_tcp)
		return denied(err, "not for callers by TCP",
			      "[serve] direct_over_tcp in the settings allows it");
	if (geteuid() == 0)
		return configured(rules, "the caller came by TCP", ret, err);
	*ret = (struct bare_user){.uid = geteuid(), .gid = getegid()};
	return 0;
}
