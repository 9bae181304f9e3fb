/*
 * tax CALLS LOOPS FILE: what a sandbox takes from a program that runs in it.
 * Prints "NAME NANOSECONDS" a line, for one operation each. Built static by
 * bench.py, so that the same bytes run bare and on an island.
 *
 * Each kind of work is timed in short pieces, and the lower quartile of them is
 * told: where another program had the CPU in between, only few pieces show it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OWN_FILE "tax.data"
#define PIECES   200

static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compute(const char *unused, unsigned long n)
{
	static volatile uint64_t seed = 88172645463325252ull;
	uint64_t x = seed;

	(void)unused;
	for (; n > 0; n--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	seed = x;
	return 0;
}

static int open_read_close(const char *path, unsigned long n)
{
	char text[256];

	for (; n > 0; n--) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || read(fd, text, sizeof(text)) <= 0 || close(fd) < 0) {
			perror(path);
			return -1;
		}
	}
	return 0;
}

static int call_getpid(const char *unused, unsigned long n)
{
	(void)unused;
	for (; n > 0; n--)
		(void)syscall(SYS_getpid);
	return 0;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int time_work(const char *name, int (*work)(const char *, unsigned long), const char *path,
		     unsigned long times)
{
	double ns[PIECES];
	unsigned long n = times / PIECES + 1;

	for (int k = 0; k < PIECES; k++) {
		double start = now_ns();

		if (work(path, n) < 0)
			return -1;
		ns[k] = (now_ns() - start) / (double)n;
	}
	qsort(ns, PIECES, sizeof(ns[0]), order);
	return printf("%s %.4f\n", name, ns[PIECES / 4]) < 0 ? -1 : 0;
}

static int make_own_file(void)
{
	int fd = open(OWN_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd < 0 || write(fd, OWN_FILE, sizeof(OWN_FILE)) < 0 || close(fd) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	unsigned long calls = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long loops = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;

	if (calls == 0 || loops == 0 || make_own_file() < 0)
		return 2;
	if (time_work("cpu", compute, NULL, loops) < 0 ||
	    time_work("own file", open_read_close, OWN_FILE, calls) < 0 ||
	    time_work("system file", open_read_close, argv[3], calls) < 0 ||
	    time_work("getpid", call_getpid, NULL, calls * 5) < 0)
		return 1;
	return unlink(OWN_FILE) < 0;
}
