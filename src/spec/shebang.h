/*
 * shebang.h: the language that a script's first line names.
 */
#pragma once

#include <stddef.h>

#define SHEBANG_MAX       256 /* the kernel reads no more of it either */
#define SHEBANG_NAME_SIZE SHEBANG_MAX

enum shebang {
	SHEBANG_NONE,    /* no such line, or one that leaves the language open */
	SHEBANG_KNOWN,   /* the name is for spec_set_language(): "python", "python@3.11" */
	SHEBANG_UNKNOWN, /* the name is the interpreter's, which is of no language of ours */
};

/*
 * Looks at the beginning of a script: "#!/usr/bin/python3.11", "#!/usr/bin/env -S
 * node --flag". A line that calls cay itself says it by -l. ret_name is "" for
 * SHEBANG_NONE.
 */
enum shebang shebang_read(const char *text, size_t len, char ret_name[SHEBANG_NAME_SIZE]);
