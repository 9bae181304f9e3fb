/*
 * What a daemon answers with, and where it would be: the first byte says which. An error
 * that comes of it is one of ours, whatever the bytes were.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/json.h"
#include "cli/remote.h"

static void check_place(const char *text)
{
	struct remote_place p;
	struct cay_error err;
	char shown[300];

	if (remote_place_parse(text, &p, &err) < 0) {
		CHECK(err.text[0] && err.hint[0] | (err.code == CAY_E_INVALID));
		return;
	}
	remote_place_text(&p, shown);
	CHECK(p.tcp ? p.host[0] && p.port[0] : p.path[0] == '/');
	/* It stands in a header. */
	CHECK(!p.tcp || !strpbrk(shown, " \r\n\t@?#"));
}

static void check_refusal(const char *body, size_t len, int status)
{
	struct cay_error err;

	CHECK(remote_refusal(status, body, len, &err) == -1);
	CHECK(err.code > CAY_OK && err.code < CAY_CODES && err.text[0]);
	CHECK(err.exit_code >= 125 && err.exit_code <= 127);
	CHECK(memchr(err.text, '\0', sizeof(err.text)) && memchr(err.hint, '\0', sizeof(err.hint)));
}

static void check_path(const char *text)
{
	_cleanup_(buf_done) struct buf path = {0};
	struct cay_error err;

	if (remote_sandbox_path(&path, text, "/files", &err) < 0)
		return;
	CHECK(strncmp(buf_str(&path), "/v1/sandboxes/", 14) == 0);
	CHECK(strchr(buf_str(&path) + 14, '/') == strstr(buf_str(&path) + 14, "/files"));
	CHECK(!strpbrk(buf_str(&path), " \r\n?#&"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	uint8_t first = input_u8(&in);
	size_t len = in.len;
	_cleanup_(freep) char *text = input_rest(&in);

	if (first % 3 == 0)
		check_place(text);
	else if (first % 3 == 1)
		check_refusal(text, len, 400 + first / 3);
	else
		check_path(text);
	return 0;
}
