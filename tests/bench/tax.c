/*
 * tax CALLS LOOPS FILE: what a sandbox takes from a program that runs in it.
 * Times itself and prints "NAME NANOSECONDS" a line, per operation. Built static
 * by bench.py, so that the same bytes run bare and on an island.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OWN_FILE "tax.data"

static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int time_cpu(unsigned long loops)
{
	double start = now_ns();
	uint64_t x = 88172645463325252ull;

	for (unsigned long n = 0; n < loops; n++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	/* x is used, or the loop would be left out */
	return printf("cpu %.4f\n", (now_ns() - start) / (double)loops + (x == 0)) < 0;
}

static int time_files(const char *name, const char *path, unsigned long calls)
{
	double start = now_ns();
	char text[256];

	for (unsigned long n = 0; n < calls; n++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || read(fd, text, sizeof(text)) <= 0 || close(fd) < 0) {
			perror(path);
			return 1;
		}
	}
	return printf("%s %.2f\n", name, (now_ns() - start) / (double)calls) < 0;
}

static int time_getpid(unsigned long calls)
{
	double start = now_ns();

	for (unsigned long n = 0; n < calls; n++)
		(void)syscall(SYS_getpid);
	return printf("getpid %.2f\n", (now_ns() - start) / (double)calls) < 0;
}

static int make_own_file(void)
{
	int fd = open(OWN_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd < 0 || write(fd, OWN_FILE, sizeof(OWN_FILE)) < 0 || close(fd) < 0;
}

int main(int argc, char **argv)
{
	unsigned long calls, loops;

	if (argc != 4)
		return 2;
	calls = strtoul(argv[1], NULL, 10);
	loops = strtoul(argv[2], NULL, 10);
	if (calls == 0 || loops == 0 || make_own_file())
		return 2;
	return time_cpu(loops) || time_files("own file", OWN_FILE, calls) ||
	       time_files("system file", argv[3], calls) || time_getpid(calls * 5) ||
	       unlink(OWN_FILE) < 0;
}
