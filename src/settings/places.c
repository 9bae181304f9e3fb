#include "settings/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *env_dir(const char *name)
{
	const char *dir = secure_getenv(name);

	return dir && dir[0] == '/' ? dir : NULL;
}

int place_socket(char path[PATH_MAX], struct cay_error *err)
{
	const char *runtime = env_dir("XDG_RUNTIME_DIR");

	if (geteuid() == 0) {
		(void)snprintf(path, PATH_MAX, "/run/cay/cay.sock");
		return 0;
	}
	if (!runtime) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "XDG_RUNTIME_DIR is not set");
		return cay_hint(err,
				"say where the socket is: --socket PATH, or CAY_HOST=unix:PATH");
	}
	(void)snprintf(path, PATH_MAX, "%s/cay.sock", runtime);
	return 0;
}

int place_state(char path[PATH_MAX], struct cay_error *err)
{
	const char *state = env_dir("XDG_STATE_HOME"), *home = env_dir("HOME");

	if (geteuid() == 0) {
		(void)snprintf(path, PATH_MAX, "/var/lib/cay");
		return 0;
	}
	if (!state && !home) {
		(void)cay_fail(err, CAY_E_INVALID, 0, "neither XDG_STATE_HOME nor HOME is set");
		return cay_hint(err, "say where to keep state: --state DIR");
	}
	if (state)
		(void)snprintf(path, PATH_MAX, "%s/cay", state);
	else
		(void)snprintf(path, PATH_MAX, "%s/.local/state/cay", home);
	return 0;
}
