#include "image/web.h"

#include "base/attr.h"
#include "base/parse.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S     20
#define STALL_BYTES_S 512 /* a second: less is next to nothing */
#define BUFFER_BYTES  (256l << 10)
#define AGENT         "cay/" CAY_VERSION
/* What is on this machine is not asked for by way of another one. */
#define LOCAL_HOSTS "localhost,127.0.0.0/8,::1"

struct web {
	CURL *curl;
	unsigned stall_s;
	const struct buf *authorities;
	char *no_proxy;
};

/* One transfer. */
struct transfer {
	struct web *web;
	const struct web_ask *ask;
	struct web_answer *answer;
	bool begun;
	size_t said;
};

struct web *web_new(unsigned stall_s, const struct buf *authorities)
{
	struct web *w = calloc(1, sizeof(*w));
	const char *no_proxy = getenv("no_proxy");

	if (!w || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(w);
		return NULL;
	}
	if (!no_proxy)
		no_proxy = getenv("NO_PROXY");
	w->stall_s = stall_s;
	w->authorities = authorities;
	w->curl = curl_easy_init();
	if (asprintf(&w->no_proxy, LOCAL_HOSTS "%s%s", no_proxy && *no_proxy ? "," : "",
		     no_proxy ? no_proxy : "") < 0)
		w->no_proxy = NULL;
	if (!w->curl || !w->no_proxy) {
		web_free(w);
		return NULL;
	}
	return w;
}

void web_free(struct web *w)
{
	if (!w)
		return;
	curl_easy_cleanup(w->curl);
	free(w->no_proxy);
	free(w);
	curl_global_cleanup();
}

static const char *header(CURL *curl, const char *name, size_t i)
{
	struct curl_header *h;

	return curl_easy_header(curl, name, i, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value : NULL;
}

/* "bytes FROM-…" of an answer with a part. */
static bool range_begins(CURL *curl, uint64_t from)
{
	const char *range = header(curl, "Content-Range", 0);
	char text[32];

	(void)snprintf(text, sizeof(text), "bytes %llu-", (unsigned long long)from);
	return range && strncmp(range, text, strlen(text)) == 0;
}

static int begin(struct transfer *t)
{
	uint64_t from = t->answer->status == 206 ? t->ask->from : 0;

	t->begun = true;
	if (t->answer->status == 206 && !range_begins(t->web->curl, from))
		return -EPROTO;
	return t->ask->sink.begin(t->ask->sink.ctx, from);
}

static size_t on_body(char *data, size_t one, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	struct web_answer *a = t->answer;
	long status = 0;
	int r = 0;

	(void)one; /* is 1 */
	(void)curl_easy_getinfo(t->web->curl, CURLINFO_RESPONSE_CODE, &status);
	a->status = (int)status;
	if (status != 200 && status != 206) {
		size_t kept = size_min(n, sizeof(a->said) - 1 - t->said);

		memcpy(a->said + t->said, data, kept);
		t->said += kept;
		/* There may be no end to it. */
		return kept == n ? n : 0;
	}
	if (!t->begun)
		r = begin(t);
	if (r == 0)
		r = t->ask->sink.take(t->ask->sink.ctx, data, n);
	a->sink_errno = -r;
	return r == 0 ? n : 0;
}

static CURLcode set_options(struct transfer *t, struct curl_slist *headers, char *why)
{
	const struct web_ask *ask = t->ask;
	CURL *c = t->web->curl;
	CURLcode r = CURLE_OK;
	char range[32];

#define SET(option, value) r = r != CURLE_OK ? r : curl_easy_setopt(c, option, value)
	SET(CURLOPT_ERRORBUFFER, why);
	SET(CURLOPT_URL, ask->url);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_FOLLOWLOCATION, 0l);
	SET(CURLOPT_NOSIGNAL, 1l);
	SET(CURLOPT_NOPROXY, t->web->no_proxy);
	SET(CURLOPT_USERAGENT, AGENT);
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, 1l);
	SET(CURLOPT_SSL_VERIFYHOST, 2l);
	SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	SET(CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_S);
	SET(CURLOPT_LOW_SPEED_TIME, (long)t->web->stall_s);
	SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, t);
	if (t->web->authorities) {
		struct curl_blob blob = {t->web->authorities->data, t->web->authorities->len,
					 CURL_BLOB_COPY};

		SET(CURLOPT_CAINFO_BLOB, &blob);
		SET(CURLOPT_CAPATH, NULL);
	}
	if (ask->from > 0) {
		(void)snprintf(range, sizeof(range), "%llu-", (unsigned long long)ask->from);
		SET(CURLOPT_RANGE, range);
	}
	if (ask->form) {
		SET(CURLOPT_POSTFIELDS, ask->form->data);
		SET(CURLOPT_POSTFIELDSIZE, (long)ask->form->len);
	}
	if (ask->bearer) {
		SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		SET(CURLOPT_XOAUTH2_BEARER, ask->bearer);
	} else if (ask->user) {
		SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		SET(CURLOPT_USERNAME, ask->user);
		SET(CURLOPT_PASSWORD, ask->password);
	}
#undef SET
	return r;
}

static enum web_end end_of(CURLcode code)
{
	switch ((int)code) {
	case CURLE_OK:
		return WEB_ANSWERED;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		return WEB_UNREACHABLE;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CONNECT_ERROR:
		return WEB_UNTRUSTED;
	case CURLE_OPERATION_TIMEDOUT:
		return WEB_STALLED;
	case CURLE_OUT_OF_MEMORY:
	case CURLE_FAILED_INIT:
	case CURLE_NOT_BUILT_IN:
	case CURLE_UNKNOWN_OPTION:
	case CURLE_BAD_FUNCTION_ARGUMENT:
	case CURLE_URL_MALFORMAT:
		return WEB_FAILED;
	default:
		return WEB_BROKEN;
	}
}

static void take_headers(CURL *c, struct web_answer *a)
{
	const char *digest = header(c, "Docker-Content-Digest", 0), *said;
	char *type = NULL, *redirect = NULL;
	curl_off_t retry_after = 0;

	(void)curl_easy_getinfo(c, CURLINFO_CONTENT_TYPE, &type);
	(void)curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &redirect);
	(void)curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &retry_after);
	if (type)
		(void)snprintf(a->type, sizeof(a->type), "%.*s", (int)strcspn(type, "; \t"), type);
	if (digest)
		(void)snprintf(a->digest, sizeof(a->digest), "%s", digest);
	if (redirect && strlen(redirect) < sizeof(a->redirect))
		(void)snprintf(a->redirect, sizeof(a->redirect), "%s", redirect);
	a->retry_after_s = retry_after > 0 ? (uint64_t)retry_after : 0;
	for (size_t i = 0; (said = header(c, "WWW-Authenticate", i)); i++) {
		struct challenge one;

		if (challenge_parse(said, &one) == 0 && one.kind > a->challenge.kind)
			a->challenge = one;
	}
}

static void conclude(struct transfer *t, CURLcode code, const char *why)
{
	struct web_answer *a = t->answer;
	CURL *c = t->web->curl;
	long status = 0;

	(void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	a->status = (int)status;
	/* An answer that is none was heard enough of. */
	if (code == CURLE_WRITE_ERROR && a->sink_errno == 0)
		code = CURLE_OK;
	a->end = a->sink_errno != 0 ? WEB_REFUSED : end_of(code);
	if (a->sink_errno == EPROTO)
		a->end = WEB_BROKEN;
	(void)snprintf(a->why, sizeof(a->why), "%s",
		       a->end == WEB_ANSWERED    ? ""
		       : a->sink_errno == EPROTO ? "it sends another part than was asked for"
		       : why[0]                  ? why
						 : curl_easy_strerror(code));
	a->has_body = a->end == WEB_ANSWERED && (status == 200 || status == 206);
	take_headers(c, a);
	if (a->has_body && !t->begun) {
		a->sink_errno = -begin(t);
		a->end = a->sink_errno ? WEB_REFUSED : a->end;
	}
}

void web_get(struct web *w, const struct web_ask *ask, struct web_answer *ret)
{
	struct transfer t = {.web = w, .ask = ask, .answer = ret};
	struct curl_slist *headers = NULL;
	char why[CURL_ERROR_SIZE] = "", accept[1024];
	CURLcode r = CURLE_OK;

	memset(ret, 0, sizeof(*ret));
	curl_easy_reset(w->curl); /* connections stay */
	(void)snprintf(accept, sizeof(accept), "Accept: %s", ask->accept ? ask->accept : "*/*");
	headers = curl_slist_append(NULL, accept);
	if (!headers)
		r = CURLE_OUT_OF_MEMORY;
	if (r == CURLE_OK)
		r = set_options(&t, headers, why);
	if (r == CURLE_OK)
		r = curl_easy_perform(w->curl);
	conclude(&t, r, why);
	curl_slist_free_all(headers);
}

static int part_of(CURLU *u, CURLUPart part, unsigned flags, char *ret, size_t size)
{
	char *text = NULL;
	int r = 0;

	if (curl_url_get(u, part, &text, flags) != CURLUE_OK || !text || strlen(text) >= size)
		r = -EINVAL;
	else
		(void)snprintf(ret, size, "%s", text);
	curl_free(text);
	return r;
}

int web_origin(const char *url, char ret[REGISTRY_URL_SIZE])
{
	char scheme[8] = "", host[DOMAIN_SIZE + 2] = "", port[8] = "";
	CURLU *u = curl_url();
	int r = -ENOMEM;

	if (u && curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) != CURLUE_OK)
		r = -EINVAL;
	else if (u)
		r = part_of(u, CURLUPART_SCHEME, 0, scheme, sizeof(scheme)) < 0 ||
				    part_of(u, CURLUPART_HOST, 0, host, sizeof(host)) < 0 ||
				    part_of(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, port,
					    sizeof(port)) < 0
			    ? -EINVAL
			    : 0;
	if (r == 0 && strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
		r = -EINVAL;
	if (r == 0)
		(void)snprintf(ret, REGISTRY_URL_SIZE, "%s://%s:%s", scheme, host, port);
	curl_url_cleanup(u);
	return r;
}

int web_add_field(struct buf *form, const char *name, const char *value)
{
	char *escaped = curl_easy_escape(NULL, value, 0);
	int r = escaped ? buf_printf(form, "%s%s=%s", form->len ? "&" : "", name, escaped)
			: -ENOMEM;

	if (escaped)
		explicit_bzero(escaped, strlen(escaped));
	curl_free(escaped);
	return r;
}

int web_add_query(char url[WEB_URL_SIZE], const char *name, const char *value)
{
	_cleanup_(buf_done) struct buf pair = BUF(WEB_URL_SIZE);
	CURLU *u = curl_url();
	int r = u ? buf_printf(&pair, "%s=%s", name, value) : -ENOMEM;

	if (r == 0 && (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
		       curl_url_set(u, CURLUPART_QUERY, buf_str(&pair),
				    CURLU_APPENDQUERY | CURLU_URLENCODE) != CURLUE_OK ||
		       part_of(u, CURLUPART_URL, 0, url, WEB_URL_SIZE) < 0))
		r = -EINVAL;
	curl_url_cleanup(u);
	return r;
}
