#include "image/docker_config.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strv.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What Docker writes for its own registry. */
#define HUB_KEY "index.docker.io"

/*
 * How well a key names the repository: 0 not at all, else the more the longer it is. Keys are
 * REGISTRY, REGISTRY/PART/OF/REPOSITORY, or a URL whose path says nothing.
 */
static size_t key_covers(const char *key, const char *registry, const char *repository)
{
	const char *scheme = strstr(key, "://"), *host = scheme ? scheme + 3 : key;
	size_t host_len = strcspn(host, "/"), path_len;
	const char *path = host + host_len;
	bool same = host_len == strlen(registry) && strncmp(host, registry, host_len) == 0;

	if (!same && strcmp(registry, IMAGE_REF_HUB) == 0)
		same = host_len == strlen(HUB_KEY) && strncmp(host, HUB_KEY, host_len) == 0;
	if (!same)
		return 0;
	path += *path == '/';
	path_len = strlen(path);
	if (scheme || path_len == 0)
		return 1;
	if (strncmp(repository, path, path_len) != 0 ||
	    (repository[path_len] && repository[path_len] != '/'))
		return 0;
	return 1 + path_len;
}

/* The value of an object's key that names the repository best, or NULL. */
static const struct json *find_key(const struct json *object, const char *registry,
				   const char *repository)
{
	const struct json *value, *best = NULL;
	const char *key;
	size_t most = 0;

	for (void *at = NULL; json_next(object, &at, &key, &value);) {
		size_t covers = key_covers(key, registry, repository);

		if (covers > most) {
			most = covers;
			best = value;
		}
	}
	return best;
}

static bool take(char *ret, size_t size, const char *text, size_t len)
{
	if (len >= size || memchr(text, '\0', len))
		return false;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return true;
}

/* base64 of USER:PASSWORD. */
static bool take_auth(const char *auth, struct login *ret)
{
	_cleanup_(buf_done) struct buf plain = BUF(2 * LOGIN_TEXT_SIZE);
	const char *colon;
	bool ok;

	if (text_decode_base64(&plain, auth, strlen(auth)) < 0 || plain.len == 0)
		return false;
	colon = memchr(plain.data, ':', plain.len);
	ok = colon && colon > plain.data &&
	     take(ret->user, sizeof(ret->user), plain.data, (size_t)(colon - plain.data)) &&
	     take(ret->password, sizeof(ret->password), colon + 1,
		  plain.len - (size_t)(colon + 1 - plain.data));
	explicit_bzero(plain.data, plain.len);
	return ok;
}

static int take_entry(const struct json *entry, struct login *ret, struct cay_error *err)
{
	const char *auth = json_str(json_get(entry, "auth")),
		   *user = json_str(json_get(entry, "username")),
		   *password = json_str(json_get(entry, "password")),
		   *identity = json_str(json_get(entry, "identitytoken"));

	/* What else the entry has then is no password. */
	if (identity && identity[0])
		return take(ret->identity, sizeof(ret->identity), identity, strlen(identity))
			       ? 0
			       : cay_fail(err, CAY_E_INVALID, 0,
					  "the identity token kept for the registry is too long");
	/* An empty entry only says that there was a login, which a helper keeps. */
	if ((!auth || !auth[0]) && (!user || !user[0]))
		return 0;
	if (auth && auth[0]
		    ? !take_auth(auth, ret)
		    : !password || !take(ret->user, sizeof(ret->user), user, strlen(user)) ||
			      !take(ret->password, sizeof(ret->password), password,
				    strlen(password)))
		return cay_fail(err, CAY_E_INVALID, 0,
				"what is kept for the registry is no name and password");
	return 0;
}

static void take_helper(const struct json *j, const char *registry, const char *repository,
			struct login *ret)
{
	const char *helper = json_str(find_key(json_get(j, "credHelpers"), registry, repository));

	if (!helper)
		helper = json_str(json_get(j, "credsStore"));
	if (helper && take(ret->helper, sizeof(ret->helper), helper, strlen(helper)))
		text_flatten(ret->helper, strlen(ret->helper));
}

int docker_config_parse(const char *text, size_t len, const char *registry, const char *repository,
			struct login *ret, struct cay_error *err)
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const struct json *entry;
	struct login login = {0};

	if (json_parse(text, len, DOCKER_CONFIG_MAX, &j, &fault) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "it is no JSON that can be read");
	entry = find_key(json_get(j, "auths"), registry, repository);
	if (entry && take_entry(entry, &login, err) < 0)
		return -1;
	if (!login_is(&login))
		take_helper(j, registry, repository, &login);
	*ret = login;
	return 0;
}

static int add_place(struct strv *places, const char *dir, const char *rest)
{
	return dir && dir[0] == '/' ? strv_addf(places, "%s%s", dir, rest) : 0;
}

static int find_places(struct strv *places)
{
	const char *docker = getenv("DOCKER_CONFIG"), *home = getenv("HOME"),
		   *containers = getenv("REGISTRY_AUTH_FILE");
	int r = docker ? add_place(places, docker, "/config.json")
		       : add_place(places, home, "/.docker/config.json");

	if (r == 0 && containers)
		return add_place(places, containers, "");
	if (r == 0)
		r = add_place(places, getenv("XDG_RUNTIME_DIR"), "/containers/auth.json");
	return r < 0 ? r : add_place(places, home, "/.config/containers/auth.json");
}

int docker_config_find(const char *registry, const char *repository, struct login *ret,
		       struct cay_error *err)
{
	_cleanup_(strv_done) struct strv places = {0};
	struct login login = {0};
	int r = find_places(&places);

	*ret = (struct login){0};
	for (size_t i = 0; r == 0 && i < places.len; i++) {
		_cleanup_(buf_done) struct buf text = BUF(DOCKER_CONFIG_MAX);

		r = fd_read_file_at(AT_FDCWD, places.items[i], &text);
		if (r == -ENOENT || r == -ENOTDIR || r == -EACCES) {
			r = 0;
			continue;
		}
		if (r < 0)
			return cay_fail(err, CAY_E_INVALID, -r, "read %s", places.items[i]);
		r = docker_config_parse(buf_str(&text), text.len, registry, repository, &login,
					err);
		if (text.len > 0)
			explicit_bzero(text.data, text.len);
		if (r < 0)
			return cay_wrap(err, "%s", places.items[i]);
		if (login_is(&login)) {
			*ret = login;
			return 0;
		}
		if (!ret->helper[0])
			*ret = login;
	}
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "look for passwords of registries") : 0;
}
