/*
 * Theory of operation. Three loops, one inside the other: over the sources (get), over tries at one
 * source (get_from), and over the answers that lead on, to another place or to a token, within one
 * try (ask). Each is bounded. A password goes to the source it is kept for and to whoever that
 * names as giving out tokens; a token to the source alone: neither follows a redirect to another
 * origin.
 */
#include "image/registry.h"

#include "base/attr.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "image/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define SCOPE_SIZE    (IMAGE_REF_REPOSITORY_SIZE + 32)
#define PLAIN         "http://"
#define TLS           "https://"
#define WAIT_FIRST_MS 500
#define NEWS_BYTES    (1ull << 20) /* so much of a blob makes a try count as none */
#define REASON_SIZE   200
#define FORM_MAX      (64u << 10) /* what has to be escaped may be three times as long */

struct seen {
	struct source source;
	char origin[REGISTRY_URL_SIZE]; /* "": not yet known how to ask it */
	bool basic;                     /* it wants name and password themselves */
	char token[AUTH_TOKEN_SIZE];    /* "": none yet */
};

struct registry {
	struct web *web;
	char repository[IMAGE_REF_REPOSITORY_SIZE];
	size_t n;
	struct seen seen[REGISTRY_SOURCES_MAX];
	struct web_answer answer; /* the latest; too large for a stack */
};

/* What becomes of a try. */
enum outcome { OUTCOME_DONE, OUTCOME_AGAIN, OUTCOME_FAILED };

struct registry *registry_new(const struct source *sources, size_t n, const char *repository,
			      struct web *web)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->web = web;
	r->n = size_min(n, REGISTRY_SOURCES_MAX);
	(void)snprintf(r->repository, sizeof(r->repository), "%s", repository);
	for (size_t i = 0; i < r->n; i++)
		r->seen[i].source = sources[i];
	return r;
}

void registry_free(struct registry *r)
{
	free(r);
}

static int body_begin(void *ctx, uint64_t from)
{
	struct body *b = ctx;

	b->have = from;
	if (ftruncate(b->fd, (off_t)from) < 0 || lseek(b->fd, (off_t)from, SEEK_SET) < 0)
		return -errno;
	return 0;
}

static int body_take(void *ctx, const void *data, size_t len)
{
	struct body *b = ctx;
	int r;

	if (len > b->size - b->have)
		return -EFBIG;
	r = fd_write_all(b->fd, data, len);
	if (r < 0)
		return r;
	b->have += len;
	if (b->more)
		b->more(b->ctx, b->have);
	return 0;
}

/* For answers of which only the head counts, or that are small. */
static int text_begin(void *ctx, uint64_t from _unused_)
{
	buf_done(ctx);
	return 0;
}

static int text_take(void *ctx, const void *data, size_t len)
{
	return buf_append(ctx, data, len);
}

/* The host and port in an origin. */
static const char *host_of(const char *origin)
{
	return strstr(origin, "://") + 3;
}

/*
 * Without TLS only where that was said to be fine, or on this machine; and there only where the
 * registry is here too, or a distant one could have this machine's own services asked.
 */
static bool may_go(const struct seen *s, const char *origin)
{
	if (strncmp(origin, TLS, sizeof(TLS) - 1) == 0)
		return true;
	if (registry_is_loopback(host_of(origin)))
		return s->source.plain || registry_is_loopback(host_of(s->origin));
	return s->source.plain && strcasecmp(origin, s->origin) == 0;
}

/* The words of a registry's own error, for people; "" where there are none. */
static void reason_of(const struct web_answer *a, char ret[REASON_SIZE])
{
	_cleanup_(json_freep) struct json *j = NULL;
	struct json_fault fault;
	const char *said;

	ret[0] = '\0';
	if (json_parse(a->said, strlen(a->said), sizeof(a->said), &j, &fault) < 0)
		return;
	said = json_str(json_get(json_at(json_get(j, "errors"), 0), "message"));
	if (!said)
		said = json_str(json_get(j, "details"));
	if (!said)
		return;
	(void)snprintf(ret, REASON_SIZE, ": %s", said);
	text_flatten(ret, strlen(ret));
}

static int fail_denied(const struct seen *s, const struct web_answer *a, struct cay_error *err)
{
	const char *helper = s->source.login.helper;
	char reason[REASON_SIZE];

	reason_of(a, reason);
	(void)cay_fail(err, CAY_E_IMAGE, 0, "%s denies access%s%s", host_of(s->origin),
		       s->source.login.identity[0] ? " with the identity token kept for it"
		       : s->source.login.user[0]   ? " with the name and password kept for it"
						   : "",
		       reason);
	if (helper[0])
		return cay_hint(err,
				"the password is kept by docker-credential-%s, which cay does not "
				"run: put it into a file with `docker login` without a helper, or "
				"`podman login`",
				helper);
	return cay_hint(err, "either the image does not exist, or it takes a login: `docker login` "
			     "or `podman login` keep one where cay finds it");
}

static int fail_status(const struct seen *s, const struct web_answer *a, const char *path,
		       struct cay_error *err)
{
	char reason[REASON_SIZE];

	reason_of(a, reason);
	if (a->status == 404 && strncmp(path, "manifests/", 10) == 0)
		return cay_fail(err, CAY_E_IMAGE, 0, "%s has no such image%s", host_of(s->origin),
				reason);
	if (a->status == 429) {
		(void)cay_fail(err, CAY_E_IMAGE, 0, "%s has too many requests (429)%s",
			       host_of(s->origin), reason);
		return cay_hint(err,
				a->retry_after_s ? "it says to wait %llu s"
						 : "wait, or log in to have more",
				(unsigned long long)a->retry_after_s);
	}
	return cay_fail(err, CAY_E_IMAGE, 0, "%s answers %d for %.100s%s", host_of(s->origin),
			a->status, path, reason);
}

static int fail_end(const struct seen *s, const struct web_answer *a, struct cay_error *err)
{
	const char *host = s->origin[0] ? host_of(s->origin) : s->source.url;

	if (a->end == WEB_REFUSED && a->sink_errno == EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, 0, "%s sends more than it may", host);
	if (a->end == WEB_REFUSED)
		return cay_fail(err, a->sink_errno == ENOSPC ? CAY_E_TOO_LARGE : CAY_E_INTERNAL,
				a->sink_errno, "keep what %s sends", host);
	if (a->end == WEB_UNREACHABLE)
		return cay_fail(err, CAY_E_IMAGE, 0, "%s can't be reached: %s", host, a->why);
	if (a->end == WEB_UNTRUSTED) {
		(void)cay_fail(err, CAY_E_IMAGE, 0, "no trusted connection to %s: %s", host,
			       a->why);
		return cay_hint(err, "its certificate has to be one that the system trusts, or "
				     "$SSL_CERT_FILE; a registry without TLS has to be named by "
				     "[images] plain_http in the settings");
	}
	return cay_fail(err, CAY_E_IMAGE, 0, "%s: %s", host, a->why);
}

static bool passes_by_waiting(const struct web_answer *a)
{
	if (a->end != WEB_ANSWERED)
		return a->end == WEB_BROKEN || a->end == WEB_STALLED;
	return a->status == 408 || a->status == 429 || a->status >= 500;
}

static enum outcome failed(int r _unused_)
{
	return OUTCOME_FAILED;
}

/* Of an answer that is not what was asked for. */
static enum outcome judge(const struct seen *s, const struct web_answer *a, const char *path,
			  struct cay_error *err)
{
	if (a->end != WEB_ANSWERED)
		(void)fail_end(s, a, err);
	else if (a->status == 401 || a->status == 403)
		(void)fail_denied(s, a, err);
	else
		(void)fail_status(s, a, path, err);
	return passes_by_waiting(a) ? OUTCOME_AGAIN : OUTCOME_FAILED;
}

/* OAuth2's way, for those who have an identity token: it is never part of a URL. */
static int make_form(const struct seen *s, const struct challenge *c, const char *scope,
		     struct buf *form)
{
	const struct {
		const char *name, *value;
	} fields[] = {{"grant_type", "refresh_token"},
		      {"service", c->service},
		      {"client_id", "cay"},
		      {"scope", scope},
		      {"refresh_token", s->source.login.identity}};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(fields); i++)
		r = web_add_field(form, fields[i].name, fields[i].value);
	return r;
}

static int make_query(const struct challenge *c, const char *scope, char url[WEB_URL_SIZE])
{
	int r = c->service[0] ? web_add_query(url, "service", c->service) : 0;

	return r < 0 ? r : web_add_query(url, "scope", scope);
}

/* A token for the challenge that the latest answer has. */
static enum outcome get_token(struct registry *r, struct seen *s, struct cay_error *err)
{
	const struct challenge c = r->answer.challenge;
	_cleanup_(buf_done) struct buf text = BUF(AUTH_ANSWER_MAX), form = BUF(FORM_MAX);
	char url[WEB_URL_SIZE], origin[REGISTRY_URL_SIZE], own[SCOPE_SIZE];
	const char *scope = c.scope[0] ? c.scope : own;
	struct web_ask ask = {.url = url, .sink = {text_begin, text_take, &text}};

	(void)snprintf(url, sizeof(url), "%s", c.realm);
	(void)snprintf(own, sizeof(own), "repository:%s:pull", r->repository);
	if (web_origin(url, origin) < 0 || !may_go(s, origin))
		return failed(cay_fail(err, CAY_E_IMAGE, 0,
				       "%s sends for a token to where none is asked for: %.100s",
				       host_of(s->origin), c.realm));
	if ((s->source.login.identity[0] ? make_form(s, &c, scope, &form)
					 : make_query(&c, scope, url)) < 0)
		return failed(cay_fail(err, CAY_E_INTERNAL, 0, "ask for a token"));
	if (s->source.login.identity[0]) {
		ask.form = &form;
	} else if (s->source.login.user[0]) {
		ask.user = s->source.login.user;
		ask.password = s->source.login.password;
	}
	web_get(r->web, &ask, &r->answer);
	if (form.len > 0)
		explicit_bzero(form.data, form.len);
	if (!r->answer.has_body)
		return judge(s, &r->answer, "a token", err);
	if (token_parse(buf_str(&text), text.len, s->token) < 0)
		return failed(cay_fail(err, CAY_E_IMAGE, 0, "%s gives no token that can be used",
				       host_of(origin)));
	return OUTCOME_DONE;
}

/* After a 401: what the next asking needs. */
static enum outcome authenticate(struct registry *r, struct seen *s, struct cay_error *err)
{
	if (r->answer.challenge.kind == AUTH_BEARER) {
		s->token[0] = '\0';
		return get_token(r, s, err);
	}
	if (r->answer.challenge.kind == AUTH_BASIC && s->source.login.user[0] && !s->basic) {
		s->basic = true;
		return OUTCOME_DONE;
	}
	(void)fail_denied(s, &r->answer, err);
	return OUTCOME_FAILED;
}

static void add_credentials(const struct seen *s, const char *origin, struct web_ask *ask)
{
	if (strcasecmp(origin, s->origin) != 0)
		return;
	if (s->token[0]) {
		ask->bearer = s->token;
	} else if (s->basic) {
		ask->user = s->source.login.user;
		ask->password = s->source.login.password;
	}
}

/* To where the latest answer leads, if that may be. */
static int follow(struct registry *r, const struct seen *s, char url[WEB_URL_SIZE],
		  char origin[REGISTRY_URL_SIZE], struct cay_error *err)
{
	bool was_tls = strncmp(origin, TLS, sizeof(TLS) - 1) == 0;
	char next[REGISTRY_URL_SIZE];

	if (web_origin(r->answer.redirect, next) < 0 || !may_go(s, next) ||
	    (was_tls && strncmp(next, TLS, sizeof(TLS) - 1) != 0)) {
		text_flatten(r->answer.redirect, strlen(r->answer.redirect));
		return cay_fail(err, CAY_E_IMAGE, 0,
				"%s redirects to where cay does not go: %.100s", host_of(s->origin),
				r->answer.redirect);
	}
	(void)snprintf(url, WEB_URL_SIZE, "%s", r->answer.redirect);
	(void)snprintf(origin, REGISTRY_URL_SIZE, "%s", next);
	return 0;
}

static bool is_redirect(const struct web_answer *a)
{
	return a->end == WEB_ANSWERED && a->status >= 300 && a->status < 400 && a->redirect[0];
}

/* One try: until there is a body, or none is to be had. */
static enum outcome ask(struct registry *r, struct seen *s, const char *path, const char *accept,
			struct body *body, struct cay_error *err)
{
	char url[WEB_URL_SIZE], origin[REGISTRY_URL_SIZE];
	bool authenticated = false;
	int redirects = 0;

	for (;;) {
		struct web_ask get = {.url = url,
				      .accept = accept,
				      .from = body->have,
				      .sink = {body_begin, body_take, body}};

		if (redirects == 0) {
			(void)snprintf(url, sizeof(url), "%s/v2/%s/%s", s->source.url,
				       r->repository, path);
			(void)snprintf(origin, sizeof(origin), "%s", s->origin);
		}
		add_credentials(s, origin, &get);
		web_get(r->web, &get, &r->answer);
		if (r->answer.has_body)
			return OUTCOME_DONE;
		if (is_redirect(&r->answer)) {
			if (redirects++ == REGISTRY_REDIRECTS_MAX)
				return failed(cay_fail(err, CAY_E_IMAGE, 0,
						       "%s redirects on and on",
						       host_of(s->origin)));
			if (follow(r, s, url, origin, err) < 0)
				return OUTCOME_FAILED;
			continue;
		}
		if (r->answer.end == WEB_ANSWERED && r->answer.status == 416 && body->have > 0) {
			body->have = 0;
			redirects = 0;
			continue;
		}
		if (r->answer.end != WEB_ANSWERED || r->answer.status != 401 || authenticated ||
		    redirects > 0)
			return judge(s, &r->answer, path, err);
		authenticated = true;
		switch (authenticate(r, s, err)) {
		case OUTCOME_DONE:
			break;
		case OUTCOME_AGAIN:
			return OUTCOME_AGAIN;
		case OUTCOME_FAILED:
			return OUTCOME_FAILED;
		}
	}
}

/*
 * How a registry of which only the name is known is asked: with TLS; without where that is said;
 * and on this machine whichever it has.
 */
static int find_url(struct registry *r, struct seen *s, struct cay_error *err)
{
	_cleanup_(buf_done) struct buf text = BUF(WEB_SAID_MAX);
	char name[REGISTRY_URL_SIZE], url[WEB_URL_SIZE];
	struct web_ask ask = {.url = url, .sink = {text_begin, text_take, &text}};
	bool plain = s->source.plain;

	if (s->origin[0])
		return 0;
	memcpy(name, s->source.url, sizeof(name));
	if (!strstr(name, "://")) {
		if (!plain && registry_is_loopback(name)) {
			(void)snprintf(url, sizeof(url), PLAIN "%s/v2/", name);
			web_get(r->web, &ask, &r->answer);
			if (r->answer.end == WEB_UNREACHABLE)
				return fail_end(s, &r->answer, err);
			/* One with TLS ends the connection, or says 400. */
			plain = r->answer.end == WEB_ANSWERED && r->answer.status != 400;
		}
		if ((size_t)snprintf(s->source.url, sizeof(s->source.url), "%s%s",
				     plain ? PLAIN : TLS, name) >= sizeof(s->source.url))
			return cay_fail(err, CAY_E_INVALID, 0, "the name %s is too long", name);
	}
	if (web_origin(s->source.url, s->origin) < 0)
		return cay_fail(err, CAY_E_INVALID, 0, "%s can't be asked", s->source.url);
	return 0;
}

static void wait_ms(uint64_t ms)
{
	struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* Whether it is worth waiting; *failures: tries in a row that brought nothing. */
static bool wait_for_next(const struct web_answer *a, int failures)
{
	if (failures >= REGISTRY_TRIES_MAX || a->retry_after_s > REGISTRY_WAIT_MAX_S)
		return false;
	/* A byte now and then is what it would send the next time, too. */
	if (a->end == WEB_STALLED && failures > 0)
		return false;
	wait_ms(a->retry_after_s ? a->retry_after_s * 1000
				 : (uint64_t)WAIT_FIRST_MS << (failures > 0 ? failures - 1 : 0));
	return true;
}

static int get_from(struct registry *r, struct seen *s, const char *path, const char *accept,
		    struct body *body, struct cay_error *err)
{
	if (find_url(r, s, err) < 0)
		return -1;
	for (int failures = 0;;) {
		uint64_t before = body->have;
		enum outcome o = ask(r, s, path, accept, body, err);

		if (o == OUTCOME_DONE && (body->at_most || body->have == body->size))
			return 0;
		if (o == OUTCOME_FAILED)
			return -1;
		if (o == OUTCOME_DONE) {
			r->answer.end = WEB_BROKEN;
			(void)cay_fail(err, CAY_E_IMAGE, 0,
				       "%s ends %.100s after %llu of %llu bytes",
				       host_of(s->origin), path, (unsigned long long)body->have,
				       (unsigned long long)body->size);
		}
		if (body->at_most)
			body->have = 0;
		failures = body->have >= before + NEWS_BYTES ? 0 : failures + 1;
		if (!wait_for_next(&r->answer, failures))
			return -1;
	}
}

static int get(struct registry *r, const char *path, const char *accept, struct body *body,
	       struct cay_error *err)
{
	for (size_t i = 0; i < r->n; i++) {
		if (get_from(r, &r->seen[i], path, accept, body, err) == 0)
			return 0;
		/* What can't be kept, from whomever it comes. */
		if (r->answer.end == WEB_REFUSED && r->answer.sink_errno != EFBIG)
			return -1;
	}
	return -1;
}

int registry_manifest(struct registry *r, const char *reference, struct body *body,
		      char ret_type[WEB_TYPE_SIZE], char ret_digest[WEB_DIGEST_SIZE],
		      struct cay_error *err)
{
	char path[IMAGE_REF_SIZE];

	(void)snprintf(path, sizeof(path), "manifests/%s", reference);
	if (get(r, path, MANIFEST_TYPES, body, err) < 0)
		return -1;
	memcpy(ret_type, r->answer.type, WEB_TYPE_SIZE);
	memcpy(ret_digest, r->answer.digest, WEB_DIGEST_SIZE);
	return 0;
}

int registry_blob(struct registry *r, const char *digest, struct body *body, struct cay_error *err)
{
	char path[sizeof("blobs/sha256:") + IMAGE_ID_SIZE];

	(void)snprintf(path, sizeof(path), "blobs/sha256:%s", digest);
	return get(r, path, NULL, body, err);
}
