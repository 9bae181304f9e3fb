/*
 * What a command that goes on has taken until now. Where its cgroup is of v2, the kernel has
 * counted CPU time of all that ever was in it. On v1 joining such a one costs milliseconds, so
 * there it is the sum over those that live, with what those have waited for: what a process left
 * behind that nobody waited for is lost with its end. A number that became another's since it was
 * listed would be counted once, wrongly; it is too rare to look twice.
 */
#include "engine/native/cgroup.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS_BYTES (1u << 20)
#define MEMBERS_MAX   1024
#define STATUS_PEAK   "\nVmHWM:"
#define WAITED_AT     14 /* words behind the name, in /proc/PID/stat: first cutime, then cstime */

/* Of all its threads, living and dead. */
static uint64_t own_cpu_us(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static const char *word(const char *text, int n)
{
	while (n-- > 0 && text) {
		text = strchr(text, ' ');
		if (text)
			text++;
	}
	return text;
}

/* Its name may be anything, also ") 1 2 3". */
static uint64_t waited_cpu_us(int dir)
{
	uint64_t ticks_each = (uint64_t)sysconf(_SC_CLK_TCK);
	char text[1024], *end;
	const char *at;
	uint64_t ticks;

	if (fd_read_text_at(dir, "stat", text, sizeof(text)) < 0)
		return 0;
	end = strrchr(text, ')');
	at = end ? word(end, WAITED_AT) : NULL;
	if (!at)
		return 0;
	ticks = strtoull(at, &end, 10);
	ticks += strtoull(end, NULL, 10);
	return ticks * 1000000 / ticks_each;
}

/*
 * In its life. Setting the mark back for each code would wait for the lock on its memory, which it
 * can hold for long, and with us all islands would.
 */
static uint64_t read_peak(int dir)
{
	char text[4096];
	const char *at;

	if (fd_read_text_at(dir, "status", text, sizeof(text)) < 0)
		return 0;
	at = strstr(text, STATUS_PEAK);
	return at ? strtoull(at + strlen(STATUS_PEAK), NULL, 10) * 1024 : 0;
}

static void add(pid_t pid, struct command_spent *sum)
{
	_cleanup_(fd_closep) int dir = -1;
	char path[32];
	uint64_t peak;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return;
	sum->cpu_us += own_cpu_us(pid) + waited_cpu_us(dir);
	peak = read_peak(dir);
	if (peak > sum->peak_bytes)
		sum->peak_bytes = peak;
}

bool command_cgroup_spent(const struct command_cgroup *m, struct command_spent *ret)
{
	_cleanup_(buf_done) struct buf members = BUF(MEMBERS_BYTES);
	const char *line;

	*ret = (struct command_spent){.cpu_us = 0};
	if (m->dir < 0 || fd_read_file_at(m->dir, "cgroup.procs", &members) < 0)
		return false;
	line = buf_str(&members);
	for (int n = 0; *line && n < MEMBERS_MAX; n++) {
		unsigned long pid = strtoul(line, NULL, 10);

		if (pid > 0 && pid <= INT32_MAX)
			add((pid_t)pid, ret);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	if (m->meter >= 0)
		ret->cpu_us = cgroup_dir_cpu_usec(m->meter);
	return ret->peak_bytes > 0;
}
