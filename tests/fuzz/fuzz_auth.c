/* A challenge, a line of it, and an answer with a token. */
#include "fuzz.h"

#include "image/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char token[AUTH_TOKEN_SIZE];
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *header = input_line(&in);
	size_t len = in.len;
	_cleanup_(freep) char *text = input_rest(&in);
	struct challenge c;

	if (challenge_parse(header, &c) == 0) {
		CHECK(c.kind <= AUTH_BEARER);
		CHECK(c.kind != AUTH_BEARER || c.realm[0]);
		CHECK(strlen(c.realm) < AUTH_TEXT_SIZE && strlen(c.scope) < AUTH_TEXT_SIZE);
		for (const char *s = c.realm; *s; s++)
			CHECK((unsigned char)*s >= ' ');
	}
	if (token_parse(text, len, token) == 0)
		for (const char *s = token; *s; s++)
			CHECK((unsigned char)*s > ' ' && (unsigned char)*s < 0x7f);
	return 0;
}
