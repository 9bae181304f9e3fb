#include "engine/container/docker.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 320 /* of an engine's words that we pass on */

/* What engines say in words, as their statuses say little: 500 is anything. The first that fits. */
static const struct {
	const char *says;
	int status; /* 0: any */
	enum cay_code code;
	const char *hint;
} refusals[] = {
	{"no space left on device", 0, CAY_E_AT_CAPACITY,
	 "its disk is full: docker system df and podman system df say of what"},
	{"disk quota exceeded", 0, CAY_E_AT_CAPACITY, "its disk is full"},
	{"too many open files", 0, CAY_E_AT_CAPACITY, ""},
	{"cannot allocate memory", 0, CAY_E_AT_CAPACITY, ""},
	{"is too old. minimum supported api version", 0, CAY_E_ENGINE,
	 "a newer cay is needed for this engine"},
	{"is too new. maximum supported api version", 0, CAY_E_ENGINE,
	 "an older engine answers now than at first: try again"},
	{"runtime name", 400, CAY_E_UNSUPPORTED,
	 "the settings' runtime has to be one that the engine knows: docker info names them"},
	{"unknown runtime", 0, CAY_E_UNSUPPORTED,
	 "the settings' runtime has to be one that the engine knows: docker info names them"},
	{"runtime not found", 0, CAY_E_UNSUPPORTED,
	 "the settings' runtime has to be one that the engine knows: podman info names it"},
	{"invalid runtime name", 0, CAY_E_UNSUPPORTED,
	 "the settings' runtime has to be one that the engine knows: podman info names it"},
	{"access to the resource is denied", 0, CAY_E_IMAGE,
	 "there is no such image, or it needs a login: docker login or podman login"},
	{"pull access denied", 0, CAY_E_IMAGE,
	 "there is no such image, or it needs a login: docker login or podman login"},
	{"unauthorized:", 0, CAY_E_IMAGE, "it needs a login: docker login or podman login"},
	{"no basic auth credentials", 0, CAY_E_IMAGE,
	 "it needs a login: docker login or podman login"},
	{"authentication required", 0, CAY_E_IMAGE,
	 "it needs a login: docker login or podman login"},
	{"no such image", 0, CAY_E_IMAGE, "pull it first: docker pull, podman pull"},
	{"image not known", 0, CAY_E_IMAGE, "pull it first: docker pull, podman pull"},
	{"manifest unknown", 0, CAY_E_IMAGE, "the registry has no such tag"},
	{"manifest for", 404, CAY_E_IMAGE, "the registry has no such tag"},
	{"toomanyrequests", 0, CAY_E_IMAGE, "the registry wants fewer requests: log in, or wait"},
	{"no matching manifest", 0, CAY_E_IMAGE, "there is none for this machine's architecture"},
	{"dial tcp", 0, CAY_E_IMAGE, "the registry can't be reached"},
	{"invalid reference format", 0, CAY_E_INVALID, ""},
};

static const struct {
	int status;
	enum cay_code code;
} codes[] = {
	{400, CAY_E_INVALID},   {401, CAY_E_UNAUTHORIZED}, {403, CAY_E_POLICY},
	{404, CAY_E_NOT_FOUND}, {409, CAY_E_CONFLICT},     {413, CAY_E_TOO_LARGE},
};

static enum cay_code code_of(int status)
{
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return CAY_E_ENGINE;
}

/* Podman's message is the whole chain; Docker's the only text. */
static void words_of(const char *body, size_t len, char text[TEXT_MAX])
{
	_cleanup_(json_freep) struct json *j = NULL;
	const struct json *message = NULL;
	struct json_fault fault;
	const char *words = NULL;

	if (json_parse(body, len, DOCKER_REFUSAL_MAX, &j, &fault) == 0)
		message = json_get(j, "message");
	if (message)
		words = json_str(message);
	if (words)
		(void)snprintf(text, TEXT_MAX, "%s", words);
	else
		(void)snprintf(text, TEXT_MAX, "%.*s", (int)size_min(len, TEXT_MAX), body);
	text_flatten(text, strlen(text));
	text[text_utf8_whole(text, strlen(text))] = '\0';
	for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
		text[n - 1] = '\0';
}

int docker_refused(enum spec_engine engine, const char *what, int status, const char *body,
		   size_t len, struct cay_error *err)
{
	char text[TEXT_MAX];

	words_of(body, len, text);
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		if ((refusals[i].status && refusals[i].status != status) ||
		    !strcasestr(text, refusals[i].says))
			continue;
		(void)cay_fail(err, refusals[i].code, 0, "%s: %s: %s", what, docker_name(engine),
			       text);
		return refusals[i].hint[0] ? cay_hint(err, "%s", refusals[i].hint) : -1;
	}
	return cay_fail(err, code_of(status), 0, "%s: %s answers %d%s%s", what, docker_name(engine),
			status, text[0] ? ": " : "", text);
}
