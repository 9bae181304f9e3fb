#include "cli/serve_live.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/handover.h"
#include "base/log.h"
#include "cli/serve_direct.h"
#include "egress/start.h"
#include "engine/native/hostdir.h"
#include "policy/mode.h"
#include "settings/homes.h"
#include "settings/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* What is made of one text. */
struct made {
	struct service_rules rules;
	int egress_settings;
};

static void made_done(struct made *m)
{
	service_rules_done(&m->rules);
	fd_closep(&m->egress_settings);
}

static int make(const struct serve_live *l, const struct settings *s, struct made *ret,
		struct cay_error *err)
{
	_cleanup_(strv_done) struct strv homes = {0};

	if (mode_check_settings(s, err) < 0 || homes_read(&homes, err) < 0 ||
	    mount_rules_make(s, &homes, NULL, &ret->rules.mounts, err) < 0 ||
	    hostdir_resolve_rules(&ret->rules.mounts, err) < 0 ||
	    serve_direct_rules(s, l->socket_path, l->api_uid, &ret->rules.bare, err) < 0)
		return -1;
	ret->rules.maximum = s->maximum;
	ret->rules.may_degrade = s->may_degrade;
	ret->egress_settings = egress_settings(s);
	return ret->egress_settings < 0 ? cay_fail(err, CAY_E_INTERNAL, -ret->egress_settings,
						   "hand the settings on")
					: 0;
}

/* What it was is in *m then. */
static void swap(struct serve_live *l, struct made *m)
{
	struct made was = {l->rules, l->egress_settings};

	l->rules = m->rules;
	l->egress_settings = m->egress_settings;
	*m = was;
}

int serve_live_begin(struct serve_live *l, struct cay_error *err)
{
	_cleanup_(made_done) struct made m = {.egress_settings = -1};

	if (make(l, l->base, &m, err) < 0)
		return -1;
	swap(l, &m);
	return 0;
}

static int forbid_own(const struct serve_live *l, struct mount_rules *rules, struct cay_error *err)
{
	_cleanup_(fd_closep) int socket = open(l->socket_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char path[PATH_MAX];
	int r = socket < 0 ? -errno : fd_real_path(socket, path, sizeof(path));

	if (r >= 0)
		r = strv_add(&rules->forbid, path);
	if (r >= 0)
		r = fd_real_path(l->state_dir, path, sizeof(path));
	if (r >= 0)
		r = strv_add(&rules->forbid, path);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "forbid the daemon's own directories") : 0;
}

int serve_live_forbid_own(struct serve_live *l, struct cay_error *err)
{
	return forbid_own(l, &l->rules.mounts, err);
}

static int give_launcher(const struct serve_live *l, const struct service_rules *rules,
			 struct cay_error *err)
{
	_cleanup_(fd_closep) int packed = service_rules_pack(rules);
	int r = packed < 0 ? packed : handover_give(l->launcher, packed);

	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "hand the settings to the launcher") : 0;
}

/* The launcher first: without its word nothing is. */
static int hand_on(struct serve_live *l, const char *text, bool *ret_egress, struct cay_error *err)
{
	_cleanup_(settings_done) struct settings now;
	_cleanup_(made_done) struct made m = {.egress_settings = -1};

	if (live_lay(&l->parts, l->base, text, 0, &now, err) < 0 || make(l, &now, &m, err) < 0 ||
	    forbid_own(l, &m.rules.mounts, err) < 0 || give_launcher(l, &m.rules, err) < 0)
		return -1;
	*ret_egress = handover_give(l->egress, m.egress_settings) == 0;
	swap(l, &m);
	return 0;
}

bool serve_live_hear(struct serve_live *l)
{
	static char text[LIVE_TEXT_MAX + 1];
	struct cay_error err = {0};
	bool egress = true;
	size_t n_fds = 0;
	ssize_t n = msg_recv(l->api, text, LIVE_TEXT_MAX, NULL, 0, &n_fds);

	if (n < 0 && n != -EMSGSIZE)
		return false;
	if (n == 0) { /* its end is heard of as that of a child */
		fd_closep(&l->api);
		return false;
	}
	if (n < 0 || text[n - 1] != '\0' || strlen(text) != (size_t)n - 1)
		(void)cay_fail(&err, CAY_E_INVALID, 0, "no text of settings");
	else if (hand_on(l, text, &egress, &err) == 0)
		err = (struct cay_error){0};
	if (err.code != CAY_OK)
		log_warning("settings at run time are refused", "why", err.text);
	(void)msg_send(l->api, &err, sizeof(err), NULL, 0);
	return !egress;
}

void serve_live_done(struct serve_live *l)
{
	service_rules_done(&l->rules);
	buf_done(&l->parts);
	fd_closep(&l->egress_settings);
	fd_closep(&l->api);
	fd_closep(&l->launcher);
	fd_closep(&l->egress);
}
