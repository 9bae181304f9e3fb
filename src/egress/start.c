#include "egress/start.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/rights.h"
#include "egress/wire.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SECTION "network"

struct writer {
	struct buf text;
	int error;
};

static void write_line(void *ctx, const char *section, const char *key, const char *value,
		       const char *origin _unused_)
{
	struct writer *w = ctx;

	if (w->error == 0 && strcmp(section, SECTION) == 0)
		w->error = buf_printf(&w->text, "%s = %s\n", key, value);
}

int egress_settings(const struct settings *s)
{
	struct writer w = {.text = BUF(SETTINGS_MAX_BYTES)};
	int r;

	w.error = buf_append_str(&w.text, "[" SECTION "]\n");
	settings_show(s, write_line, &w);
	r = w.error < 0 ? w.error : fd_sealed("network-settings", w.text.data, w.text.len);
	buf_done(&w.text);
	return r;
}

_noreturn_ void egress_become(int program, int channel, int settings, int news, pid_t parent)
{
	int fds[EGRESS_FDS_END] = {[EGRESS_FD_CHANNEL] = channel,
				   [EGRESS_FD_SETTINGS] = settings,
				   [EGRESS_FD_NEWS] = news};
	char *argv[] = {(char *)"cay-egress", NULL};
	char *env[] = {(char *)"LANG=C.UTF-8", NULL};

	/* The next one reads it from its beginning, too. */
	if (lseek(settings, 0, SEEK_SET) < 0 ||
	    fd_place(fds, EGRESS_FD_CHANNEL, EGRESS_FDS_END, &program) < 0 ||
	    fd_close_others((int[]){EGRESS_FD_CHANNEL, EGRESS_FD_SETTINGS, program,
				    news < 0 ? program : EGRESS_FD_NEWS},
			    news < 0 ? 3 : 4) < 0 ||
	    rights_drop(RIGHTS_ID_EGRESS, RIGHTS_ID_EGRESS) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(126);
	(void)fexecve(program, argv, env);
	_exit(127);
}
