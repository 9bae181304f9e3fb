/* What a terminal's client says in text. */
#include "fuzz.h"

#include "api/pty.h"
#include "api/terminal_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct terminal_message m;

	if (terminal_message_read((const char *)data, size, &m) < 0)
		return 0;
	if (m.word == WORD_RESIZE)
		CHECK(m.columns >= 1 && m.columns <= PTY_SIDE_MAX && m.rows >= 1 &&
		      m.rows <= PTY_SIDE_MAX);
	else
		CHECK(m.word == WORD_SIGNAL && m.signal > 0 && m.signal < 32);
	return 0;
}
