#include "api/metrics.h"

#include "api/api.h"
#include "api/exchange.h"
#include "api/runs.h"
#include "api/server.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "session/quota.h"
#include "spec/language.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX_BYTES (1u << 20)
#define LANGUAGES_MAX  64 /* of the table, and "none" for a bare argv */
#define OPERATIONS_MAX 128
#define STARTS_MAX     32 /* cold, and by which set of the operator's; those behind are the last's */

/* Upper ends in ms; behind the last is infinity. */
static const double ends_ms[] = {1,   2.5,  5,    10,   25,    50,    100,   250,
				 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000};

struct histogram {
	uint64_t counts[ARRAY_LEN(ends_ms) + 1];
	double sum_ms;
	uint64_t count;
};

struct operation {
	const struct route *route;
	struct histogram times;
	uint64_t classes[6]; /* by the first digit of the status; 0: the client left */
};

struct start {
	char name[RESULT_START_SIZE];
	uint64_t count;
};

struct metrics {
	uint64_t runs[STATUSES][LANGUAGES_MAX];
	struct start starts[STARTS_MAX];
	size_t n_starts;
	struct histogram run_times, waits;
	struct operation operations[OPERATIONS_MAX];
	size_t n_operations;
	uint64_t rejected[CAY_CODES];
};

struct metrics *metrics_new(void)
{
	return calloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *m)
{
	free(m);
}

static void observe(struct histogram *h, double ms)
{
	size_t n = 0;

	while (n < ARRAY_LEN(ends_ms) && ms > ends_ms[n])
		n++;
	h->counts[n]++;
	h->sum_ms += ms;
	h->count++;
}

/* From 1 on; 0: none, or one that there is no room for. */
static size_t language_number(const char *name)
{
	for (size_t i = 0; name && i < n_languages && i + 1 < LANGUAGES_MAX; i++)
		if (strcmp(languages[i].name, name) == 0)
			return i + 1;
	return 0;
}

static struct start *start_of(struct metrics *m, const char *name)
{
	struct start *s = m->starts;

	while (s < m->starts + m->n_starts && strcmp(s->name, name) != 0)
		s++;
	if (s == m->starts + STARTS_MAX)
		return s - 1;
	if (s == m->starts + m->n_starts) {
		(void)snprintf(s->name, sizeof(s->name), "%s", name);
		m->n_starts++;
	}
	return s;
}

void metrics_run(struct metrics *m, const struct run_record *r, const char *start)
{
	m->runs[r->status][language_number(r->language)]++;
	observe(&m->run_times, r->wall_ms);
	if (start)
		start_of(m, start)->count++;
}

void metrics_waited(struct metrics *m, double ms)
{
	observe(&m->waits, ms);
}

static struct operation *operation_of(struct metrics *m, const struct route *route)
{
	for (size_t i = 0; i < m->n_operations; i++)
		if (m->operations[i].route == route)
			return &m->operations[i];
	if (m->n_operations == OPERATIONS_MAX)
		return NULL;
	m->operations[m->n_operations].route = route;
	return &m->operations[m->n_operations++];
}

void metrics_exchange(struct metrics *m, const struct exchange *x)
{
	const struct route *route = exchange_request(x)->match.route;
	struct operation *o = route ? operation_of(m, route) : NULL;
	int class = exchange_status(x) / 100;

	m->rejected[exchange_code(x)]++;
	if (!o)
		return;
	o->classes[class > 0 && class < 6 ? class : 0]++;
	/* How long somebody listened says nothing. */
	if (!(route->flags & ROUTE_STREAMS_ANSWER) && exchange_status(x) != 101)
		observe(&o->times, clock_ms_since(exchange_began_ns(x)));
}

/* A text being written: the first failure is kept. */
struct page_text {
	struct buf text;
	int failed;
};

static void _printf_(2, 3) put(struct page_text *p, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&p->text, fmt, ap);
	va_end(ap);
	if (r < 0)
		p->failed = r;
}

static void head(struct page_text *p, const char *name, const char *kind, const char *help)
{
	put(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void gauge(struct page_text *p, const char *name, const char *help, uint64_t value)
{
	head(p, name, "gauge", help);
	put(p, "%s %" PRIu64 "\n", name, value);
}

/* labels: "" or `a="b"`. */
static void put_histogram(struct page_text *p, const char *name, const char *labels,
			  const struct histogram *h)
{
	const char *comma = labels[0] ? "," : "";
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_LEN(ends_ms); i++) {
		sum += h->counts[i];
		put(p, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
		    ends_ms[i] / 1000, sum);
	}
	put(p, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, h->count);
	put(p, "%s_sum{%s} %.6f\n%s_count{%s} %" PRIu64 "\n", name, labels, h->sum_ms / 1000, name,
	    labels, h->count);
}

static void put_runs(struct page_text *p, const struct metrics *m)
{
	head(p, "cay_runs_total", "counter", "Runs that have ended.");
	for (int s = 0; s < STATUSES; s++)
		for (size_t l = 0; l < LANGUAGES_MAX; l++)
			if (m->runs[s][l])
				put(p,
				    "cay_runs_total{status=\"%s\",language=\"%s\"} %" PRIu64 "\n",
				    status_name((enum status)s), l ? languages[l - 1].name : "none",
				    m->runs[s][l]);
	head(p, "cay_runs_started_total", "counter",
	     "Programs that have run, by what started them.");
	for (size_t i = 0; i < m->n_starts; i++)
		put(p, "cay_runs_started_total{start=\"%s\"} %" PRIu64 "\n", m->starts[i].name,
		    m->starts[i].count);
	head(p, "cay_run_seconds", "histogram", "How long runs took, from start to end.");
	put_histogram(p, "cay_run_seconds", "", &m->run_times);
	head(p, "cay_run_queue_seconds", "histogram",
	     "How long runs waited for room, of those that had to.");
	put_histogram(p, "cay_run_queue_seconds", "", &m->waits);
}

static void put_operations(struct page_text *p, const struct metrics *m)
{
	static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
	char labels[64];

	head(p, "cay_http_requests_total", "counter", "Requests, by operation and kind of answer.");
	for (size_t i = 0; i < m->n_operations; i++)
		for (size_t c = 0; c < ARRAY_LEN(classes); c++)
			if (m->operations[i].classes[c])
				put(p,
				    "cay_http_requests_total{operation=\"%s\",status=\"%s\"} "
				    "%" PRIu64 "\n",
				    m->operations[i].route->name, classes[c],
				    m->operations[i].classes[c]);
	head(p, "cay_http_request_seconds", "histogram", "How long answers took.");
	for (size_t i = 0; i < m->n_operations; i++) {
		(void)snprintf(labels, sizeof(labels), "operation=\"%s\"",
			       m->operations[i].route->name);
		if (m->operations[i].times.count)
			put_histogram(p, "cay_http_request_seconds", labels,
				      &m->operations[i].times);
	}
	head(p, "cay_rejected_total", "counter", "Answers that were errors of ours, by code.");
	for (int c = CAY_OK + 1; c < CAY_CODES; c++)
		put(p, "cay_rejected_total{code=\"%s\"} %" PRIu64 "\n",
		    cay_code_name((enum cay_code)c), m->rejected[c]);
}

static void put_pools(struct page_text *p, const struct service_stock *stock)
{
	const struct {
		const char *name;
		uint32_t n;
	} pools[] = {
		{"islands", stock->islands},
		{"networks", stock->networks},
		{"cgroups", stock->cgroups},
	};

	head(p, "cay_pool_size", "gauge", "What stands ready for the next runs.");
	for (size_t i = 0; i < ARRAY_LEN(pools); i++)
		put(p, "cay_pool_size{pool=\"%s\"} %" PRIu32 "\n", pools[i].name, pools[i].n);
}

static void put_egress(struct page_text *p, const struct egress_totals *t)
{
	const struct {
		const char *name;
		uint64_t n;
	} verdicts[] = {{"allowed", t->allowed}, {"denied", t->denied}, {"failed", t->failed}},
	  bytes[] = {{"in", t->bytes_in}, {"out", t->bytes_out}};

	gauge(p, "cay_egress_networks", "Sandboxes that have a network.", t->networks);
	gauge(p, "cay_egress_connections", "Connections of sandboxes.", t->connections);
	head(p, "cay_egress_connections_total", "counter",
	     "What sandboxes asked for on the network.");
	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++)
		put(p, "cay_egress_connections_total{verdict=\"%s\"} %" PRIu64 "\n",
		    verdicts[i].name, verdicts[i].n);
	head(p, "cay_egress_bytes_total", "counter", "Bytes to sandboxes and from them.");
	for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
		put(p, "cay_egress_bytes_total{direction=\"%s\"} %" PRIu64 "\n", bytes[i].name,
		    bytes[i].n);
}

static uint64_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 3 ? n - 3 : 0; /* ".", "..", and the one that reads this */
}

static void put_process(struct page_text *p)
{
	char text[128];
	unsigned long long size, pages;

	if (fd_read_text_at(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) > 0 &&
	    sscanf(text, "%llu %llu", &size, &pages) == 2)
		gauge(p, "process_resident_memory_bytes", "Memory of the api process.",
		      pages * (uint64_t)sysconf(_SC_PAGESIZE));
	gauge(p, "process_open_fds", "File descriptors of the api process.", open_fds());
}

static void metrics_get(struct exchange *x)
{
	struct api *api = api_of(x);
	struct page_text p = {.text = BUF(TEXT_MAX_BYTES)};
	struct quota_use all = quota_used_total(api->quota);
	struct service_stock stock = islands_stock(api->place.islands);
	struct cay_error err;

	put_runs(&p, api->metrics);
	put_operations(&p, api->metrics);
	gauge(&p, "cay_runs_active", "Runs under way.",
	      runs_active(api->runs) - runs_waiting(api->runs));
	gauge(&p, "cay_runs_queued", "Runs that wait for room.", runs_waiting(api->runs));
	gauge(&p, "cay_sandboxes_live", "Sandboxes that live.", (uint64_t)all.sandboxes);
	gauge(&p, "cay_http_connections", "Connections of clients.",
	      server_connections(api->server));
	put_pools(&p, &stock);
	put_egress(&p, outlets_totals(api->outlets));
	put_process(&p);
	if (p.failed) {
		(void)cay_fail(&err, CAY_E_INTERNAL, -p.failed, "write the metrics");
		exchange_fail(x, &err);
	} else {
		exchange_respond(x, 200, "text/plain; version=0.0.4; charset=utf-8", p.text.data,
				 p.text.len);
	}
	buf_done(&p.text);
}

const struct route route_metrics = {
	.method = "GET", .pattern = "/metrics", .handle = metrics_get, .name = "metrics"};
