/*
 * floor_bench RUNS PARALLEL MIB PAGES
 *
 * What no warm start can do without: a process with MIB of memory is cloned into namespaces of its
 * own, writes to PAGES of its pages, and ends; PARALLEL at a time. No mounts, limits, filter or
 * interpreter. Prints JSON.
 */
#include "base/attr.h"
#include "base/clock.h"
#include "engine/sys.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static char *memory;
static size_t n_pages, n_written;

_noreturn_ static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void one(void)
{
	struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
					   CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
					   CLONE_NEWCGROUP,
				  .exit_signal = SIGCHLD};
	int status = -1;
	pid_t pid = (pid_t)sys_clone3(&args);

	if (pid < 0)
		die("clone3");
	if (pid == 0) {
		for (size_t n = 0; n < n_written; n++)
			memory[n * (n_pages / n_written) * PAGE] = 2;
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		die("waitpid");
}

int main(int argc, char **argv)
{
	unsigned long runs = argc == 5 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long parallel = argc == 5 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t start;
	int status;

	n_pages = argc == 5 ? strtoul(argv[3], NULL, 10) * (1024 * 1024 / PAGE) : 0;
	n_written = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	if (runs == 0 || parallel == 0 || n_written == 0 || n_written > n_pages) {
		(void)fprintf(stderr, "usage: floor_bench RUNS PARALLEL MIB PAGES\n");
		return 2;
	}
	memory = mmap(NULL, n_pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (memory == MAP_FAILED || madvise(memory, n_pages * PAGE, MADV_NOHUGEPAGE) < 0)
		die("mmap");
	memset(memory, 1, n_pages * PAGE);
	start = clock_now_ns();
	for (unsigned long k = 0; k < parallel; k++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			for (unsigned long n = 0; n < runs / parallel; n++)
				one();
			_exit(0);
		}
	}
	for (unsigned long k = 0; k < parallel; k++)
		if (wait(&status) < 0 || status != 0)
			die("wait");
	(void)printf("{\"per_second\":%.1f}\n",
		     (double)(runs / parallel * parallel) * 1e9 / (double)(clock_now_ns() - start));
	return 0;
}
