#include "cli/remote_output.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

void remote_output_init(struct remote_output *o, struct remote *r, uint64_t limit_bytes)
{
	*o = (struct remote_output){.remote = r};
	output_init(&o->out, false, limit_bytes);
	o->sink = output_sink(&o->out);
}

void remote_output_done(struct remote_output *o)
{
	output_done(&o->out);
}

int remote_output_stream(const char *name)
{
	if (!name)
		return -1;
	return strcmp(name, "stdout") == 0   ? STREAM_STDOUT
	       : strcmp(name, "stderr") == 0 ? STREAM_STDERR
					     : -1;
}

static int wait_writable(struct remote_output *o, enum stream which, struct cay_error *err)
{
	struct pollfd f[] = {{.fd = o->sink.wait_fd[which], .events = POLLOUT},
			     {.fd = remote_signal_fd(o->remote), .events = POLLIN}};

	if (poll(f, ARRAY_LEN(f), -1) < 0 && errno != EINTR)
		return cay_fail(err, CAY_E_INTERNAL, errno, "wait for the output's reader");
	return f[1].revents ? remote_interrupted(o->remote, err) : 0;
}

int remote_output_text(struct remote_output *o, enum stream which, const char *data, size_t len,
		       struct cay_error *err)
{
	while (len > 0) {
		ssize_t n = o->sink.output(o->sink.ctx, which, data, len);

		/* A flood: the daemon has the same limit, and ends it. */
		if (n == -EFBIG)
			return 0;
		if (n == -EPIPE) {
			o->unread = true;
			return 1;
		}
		if (n < 0)
			return cay_fail(err, CAY_E_INTERNAL, (int)-n, "keep the output");
		data += n;
		len -= (size_t)n;
		if (len > 0 && wait_writable(o, which, err) < 0)
			return -1;
	}
	return 0;
}

int remote_output_pass(struct remote_output *o, enum stream which, const struct json *data,
		       struct cay_error *err)
{
	_cleanup_(buf_done) struct buf bytes = BUF(REMOTE_EVENT_MAX);
	size_t len = 0;
	const char *text = json_bytes(json_get(data, "text"), &len);

	if (text)
		return remote_output_text(o, which, text, len, err);
	text = json_str(json_get(data, "base64"));
	if (!text || text_decode_base64(&bytes, text, strlen(text)) < 0)
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer is no output");
	return remote_output_text(o, which, bytes.data, bytes.len, err);
}

void remote_output_finish(struct remote_output *o)
{
	/* Who cancels does not wait for a reader. */
	if (!remote_signal(o->remote))
		output_finish(&o->out);
}
