#include "image/bars.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "image/call.h"

#include <stdio.h>
#include <unistd.h>

#define EVERY_NS   100000000ull
#define LINE_BYTES 512
#define WIDTH      24 /* of the bar itself */
#define ERASE      "\r\033[K"
#define NS_A_S     1000000000ull

static const char *const phase_names[] = {
	[BARS_WAITING] = "waiting",
	[BARS_DOWNLOADING] = "downloading",
	[BARS_UNPACKING] = "unpacking",
	[BARS_DONE] = "done",
};

static void write_err(const struct buf *text)
{
	/* Nobody may be looking any more, which is no reason to stop. */
	(void)fd_write_all(STDERR_FILENO, text->data, text->len);
}

struct sums {
	uint64_t done, total;
	size_t whole;
};

static uint64_t unpacked(const struct bars *b, const struct bar *bar)
{
	return b->local ? bar->done : (bar->total + bar->done) / 2;
}

/* A layer is half done when it is here, if it was not before, and done when it is unpacked. */
static struct sums add_up(const struct bars *b)
{
	struct sums s = {0};

	for (size_t i = 0; i < b->n; i++) {
		const struct bar *bar = &b->bars[i];

		s.total += bar->total;
		s.whole += bar->phase == BARS_DONE;
		s.done += bar->phase == BARS_DONE          ? bar->total
			  : bar->phase == BARS_UNPACKING   ? unpacked(b, bar)
			  : bar->phase == BARS_DOWNLOADING ? bar->done / 2
							   : 0;
	}
	return s;
}

static void draw(struct bars *b, uint64_t now)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_BYTES);
	struct sums s = add_up(b);
	uint64_t full = s.total ? s.done * WIDTH / s.total : 0;
	char size[32], rate[32];

	(void)buf_printf(&line, ERASE "%.40s [", b->title);
	for (uint64_t i = 0; i < WIDTH; i++)
		(void)buf_append_str(&line, i < full ? "=" : i == full ? ">" : " ");
	(void)buf_append_str(&line, "] ");
	if (!b->local)
		(void)buf_printf(&line, "%zu/%zu layers, ", s.whole, b->n);
	(void)buf_printf(&line, "%s, %s/s",
			 format_size(s.total ? s.total : s.done, size, sizeof(size)),
			 format_size(now > b->since_ns ? (uint64_t)((double)b->came * NS_A_S /
								    (double)(now - b->since_ns))
						       : 0,
				     rate, sizeof(rate)));
	b->drawn = true;
	write_err(&line);
}

static void tell_plainly(const struct bar *bar)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_BYTES);
	char size[32];

	(void)buf_printf(&line, "layer %.12s, %s: %s\n", bar->digest,
			 format_size(bar->total, size, sizeof(size)), phase_names[bar->phase]);
	write_err(&line);
}

static void tell_event(const struct bar *bar)
{
	_cleanup_(json_freep) struct json *j = json_new_object();

	json_set_str(j, "event", "progress");
	json_set_str(j, "layer", bar->digest);
	json_set_str(j, "phase", phase_names[bar->phase]);
	json_set_int(j, "done", (int64_t)bar->done);
	json_set_int(j, "total", (int64_t)bar->total);
	call_event(j);
}

void bars_begin(struct bars *b, const char *title, struct bar *list, size_t n, bool json)
{
	_cleanup_(buf_done) struct buf line = BUF(LINE_BYTES);

	*b = (struct bars){.title = title,
			   .json = json,
			   .terminal = !json && isatty(STDERR_FILENO) == 1,
			   .bars = list,
			   .n = n,
			   .since_ns = clock_now_ns()};
	if (json || b->terminal || n == 0)
		return;
	(void)buf_printf(&line, "pulling %.400s: %zu layers\n", title, n);
	write_err(&line);
}

void bars_begin_local(struct bars *b, const char *title, struct bar *list, size_t n, bool json)
{
	*b = (struct bars){.title = title,
			   .terminal = !json && isatty(STDERR_FILENO) == 1,
			   .local = true,
			   .bars = list,
			   .n = n,
			   .since_ns = clock_now_ns()};
}

static void on_progress(void *to, const char *what _unused_, uint64_t done, uint64_t total _unused_)
{
	struct bars *b = to;

	bars_set(b, b->at, BARS_UNPACKING, done);
}

struct progress bars_progress(struct bars *b)
{
	return (struct progress){on_progress, b};
}

void bars_set(struct bars *b, size_t i, enum bars_phase phase, uint64_t done)
{
	struct bar *bar = &b->bars[i];
	bool turned = bar->phase != phase;
	uint64_t now = clock_now_ns();

	if (phase == (b->local ? BARS_UNPACKING : BARS_DOWNLOADING) && (b->local || !turned) &&
	    done > bar->done)
		b->came += done - bar->done;
	bar->phase = phase;
	bar->done = done;
	if (!b->json && !b->terminal) {
		if (turned && phase == BARS_DONE && !b->local)
			tell_plainly(bar);
		return;
	}
	if (!turned && now < b->told_ns + EVERY_NS)
		return;
	b->told_ns = now;
	if (b->json)
		tell_event(bar);
	else
		draw(b, now);
}

void bars_end(struct bars *b)
{
	if (b->drawn)
		(void)fd_write_all(STDERR_FILENO, ERASE, sizeof(ERASE) - 1);
	b->drawn = false;
}
