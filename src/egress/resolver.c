#include "egress/resolver.h"

#include "base/attr.h"
#include "base/clock.h"

#include <ares.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

/* Of one attempt; the second has twice as long. */
#define TIMEOUT_MS 2000
#define TRIES      2

/* How often it is looked whether the host has other name servers by now. */
#define RELOAD_MS 5000

#define RESOLV_CONF "/etc/resolv.conf"

/* A socket of c-ares's. */
struct watch {
	struct loop_fd f;
	struct resolver *resolver;
	struct watch *next;
};

struct resolver {
	struct loop *loop;
	ares_channel channel; /* NULL: there is none */
	struct loop_timer timer;
	struct watch *watches;
	size_t n_questions;
	uint64_t looked_ns;
	struct timespec changed; /* of RESOLV_CONF */
};

/* answered is called from a timer, as c-ares may have the answer before we return. */
struct question {
	struct resolver *resolver;
	answered_fn *answered; /* NULL: nobody wants to know any more */
	void *ctx;
	struct loop_timer ready;
	struct answer answer;
};

static void set_timer(struct resolver *r);

static void on_socket(struct loop_fd *f, uint32_t events)
{
	struct watch *w = f->ctx;
	struct resolver *r = w->resolver;
	bool broken = events & (EPOLLERR | EPOLLHUP);

	/* The watch may be gone after this. */
	ares_process_fd(r->channel, events & EPOLLIN || broken ? f->fd : ARES_SOCKET_BAD,
			events & EPOLLOUT ? f->fd : ARES_SOCKET_BAD);
	set_timer(r);
}

static void on_timer(struct loop_timer *t)
{
	struct resolver *r = t->ctx;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(r);
}

static void set_timer(struct resolver *r)
{
	struct timeval tv;

	if (ares_timeout(r->channel, NULL, &tv))
		(void)loop_after(r->loop, &r->timer,
				 (uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000 + 1);
	else
		loop_cancel(r->loop, &r->timer);
}

static void watch_remove(struct resolver *r, struct watch **at)
{
	struct watch *w = *at;

	*at = w->next;
	loop_remove(r->loop, &w->f);
	free(w);
}

/* c-ares says what it waits for. */
static void on_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = ctx;
	struct watch **at = &r->watches, *w;
	uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);

	while (*at && (*at)->f.fd != fd)
		at = &(*at)->next;
	if (*at && events == 0)
		watch_remove(r, at);
	else if (*at)
		(void)loop_change(r->loop, &(*at)->f, events);
	if (*at || events == 0)
		return;
	/* One that can't be watched is as one that nobody answers on. */
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	*w = (struct watch){.f = {.fd = fd, .ready = on_socket}, .resolver = r, .next = r->watches};
	w->f.ctx = w;
	r->watches = w;
	(void)loop_add(r->loop, &w->f, events);
}

static int open_channel(struct resolver *r)
{
	struct ares_options options = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = TIMEOUT_MS,
		.tries = TRIES,
		.lookups = (char[]){"fb"}, /* the hosts file, then name servers */
		.sock_state_cb = on_state,
		.sock_state_cb_data = r,
	};
	struct stat st = {0};

	/* A name is what it says: never with the host's own domain behind it (no domains). */
	if (ares_init_options(&r->channel, &options,
			      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
				      ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
				      ARES_OPT_DOMAINS) != ARES_SUCCESS) {
		r->channel = NULL;
		return -1;
	}
	(void)stat(RESOLV_CONF, &st);
	r->changed = st.st_mtim;
	return 0;
}

static void close_channel(struct resolver *r)
{
	loop_cancel(r->loop, &r->timer);
	if (r->channel)
		ares_destroy(r->channel);
	r->channel = NULL;
	while (r->watches)
		watch_remove(r, &r->watches);
}

/* Networks come and go, and name servers with them. */
static void reload(struct resolver *r)
{
	uint64_t now = clock_now_ns();
	struct stat st = {0};

	if (r->n_questions > 0 || now - r->looked_ns < RELOAD_MS * 1000000ull)
		return;
	r->looked_ns = now;
	(void)stat(RESOLV_CONF, &st);
	if (r->channel && memcmp(&st.st_mtim, &r->changed, sizeof(r->changed)) == 0)
		return;
	close_channel(r);
	(void)open_channel(r);
}

struct resolver *resolver_new(struct loop *l)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->loop = l;
	r->timer = (struct loop_timer){.fire = on_timer, .ctx = r};
	if (ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS && open_channel(r) == 0)
		return r;
	free(r);
	return NULL;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	close_channel(r);
	ares_library_cleanup();
	free(r);
}

static void add_address(struct answer *a, const struct ares_addrinfo_node *node)
{
	struct address *to = &a->list[a->n];

	*to = (struct address){0};
	if (node->ai_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)node->ai_addr;

		to->bytes[10] = to->bytes[11] = 0xff;
		memcpy(to->bytes + 12, &in->sin_addr, 4);
	} else if (node->ai_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)node->ai_addr;

		memcpy(to->bytes, &in6->sin6_addr, 16);
	} else {
		return;
	}
	if (a->n == 0 || (unsigned)node->ai_ttl < a->ttl_s)
		a->ttl_s = node->ai_ttl > 0 ? (unsigned)node->ai_ttl : 0;
	a->n++;
}

static void read_answer(struct answer *a, int status, const struct ares_addrinfo *info)
{
	const struct ares_addrinfo_node *node = info ? info->nodes : NULL;

	for (; status == ARES_SUCCESS && node && a->n < RESOLVER_ADDRESSES; node = node->ai_next)
		add_address(a, node);
	if (status == ARES_SUCCESS || status == ARES_ENODATA)
		a->outcome = a->n > 0 ? RESOLVED : RESOLVED_NOTHING;
	else
		a->outcome = status == ARES_ENOTFOUND ? RESOLVED_NO_NAME : RESOLVED_FAILED;
}

static void on_ready(struct loop_timer *t)
{
	struct question *q = t->ctx;

	if (q->answered)
		q->answered(q->ctx, &q->answer);
	free(q);
}

static void on_answer(void *ctx, int status, int timeouts _unused_, struct ares_addrinfo *info)
{
	struct question *q = ctx;
	struct resolver *r = q->resolver;

	read_answer(&q->answer, status, info);
	if (info)
		ares_freeaddrinfo(info);
	r->n_questions--;
	if (status == ARES_EDESTRUCTION) {
		loop_cancel(r->loop, &q->ready);
		free(q);
	} else {
		(void)loop_after(r->loop, &q->ready, 0);
	}
}

struct question *resolver_ask(struct resolver *r, const char *name, answered_fn *answered,
			      void *ctx)
{
	const struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC,
						  .ai_socktype = SOCK_STREAM};
	struct question *q;

	reload(r);
	q = r->n_questions >= RESOLVER_QUESTIONS || !r->channel ? NULL : calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	*q = (struct question){.resolver = r, .answered = answered, .ctx = ctx};
	q->ready = (struct loop_timer){.fire = on_ready, .ctx = q};
	/* It has a place from now on, so that setting it to now can't fail. */
	if (loop_at(r->loop, &q->ready, UINT64_MAX) < 0) {
		free(q);
		return NULL;
	}
	r->n_questions++;
	ares_getaddrinfo(r->channel, name, NULL, &hints, on_answer, q);
	set_timer(r);
	return q;
}

void resolver_forget(struct question *q)
{
	q->answered = NULL;
}
