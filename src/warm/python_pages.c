/*
 * python_pages.c: pages that every program writes to. A clone shares the zygote's memory until it
 * writes; each first write to a page is a fault of its own, and they are most of what a small
 * program costs. Most of them are the same for all programs, so the zygote runs one to see which,
 * and clones ask for all of those at once.
 *
 * It is only about speed: where /proc/self/pagemap can't be read, or the kernel (before 5.14) does
 * not know how to, faults come one by one.
 */
#include "warm/python_parts.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { RANGES = 4096, PAGE = 4096, WINDOW = 512 };
#define PAGE_IS_OURS_ALONE (UINT64_C(1) << 56)
#define PAGE_IS_THERE      (UINT64_C(1) << 63)

/* In memory that the zygote shares with the clone that it learns from. */
struct hot {
	size_t count;
	struct {
		uintptr_t start;
		size_t size;
	} range[RANGES];
};

static struct hot own;  /* in memory of each clone's own: it is for programs that trust nobody */
static struct hot *hot; /* where it is being learnt */
static bool learning;

static void add(struct hot *h, uintptr_t page)
{
	if (h->count && h->range[h->count - 1].start + h->range[h->count - 1].size == page) {
		h->range[h->count - 1].size += PAGE;
	} else if (h->count < RANGES) {
		h->range[h->count].start = page;
		h->range[h->count++].size = PAGE;
	}
}

static void note_range(int pagemap, uintptr_t start, uintptr_t stop)
{
	uint64_t entries[WINDOW];

	for (uintptr_t at = start; at < stop; at += WINDOW * PAGE) {
		size_t n = (stop - at) / PAGE < WINDOW ? (stop - at) / PAGE : WINDOW;
		ssize_t got = pread(pagemap, entries, n * 8, (off_t)(at / PAGE * 8));

		for (size_t i = 0; got > 0 && i < (size_t)got / 8; i++)
			if ((entries[i] & PAGE_IS_THERE) && (entries[i] & PAGE_IS_OURS_ALONE))
				add(hot, at + i * PAGE);
	}
}

void pages_note(void)
{
	int pagemap = learning ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;
	FILE *maps = pagemap < 0 ? NULL : fopen("/proc/self/maps", "re");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long start, stop;
		char *rest;

		start = strtoul(line, &rest, 16);
		stop = strtoul(rest + 1, &rest, 16);
		if (strncmp(rest, " rw-p", 5) == 0 && !strstr(rest, "[stack]"))
			note_range(pagemap, start, stop);
	}
}

void pages_learn(pid_t (*clone)(void), void (*example)(void))
{
	pid_t pid;

	hot = mmap(NULL, sizeof(*hot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (hot == MAP_FAILED)
		return;
	pid = clone();
	if (pid == 0) {
		learning = true;
		example();
		_exit(1);
	}
	if (pid > 0 && waitpid(pid, NULL, 0) == pid && hot->count <= RANGES)
		own = *hot;
	(void)munmap(hot, sizeof(*hot));
	hot = NULL;
}

void pages_ask(void)
{
	for (size_t i = 0; !learning && i < own.count; i++)
		if (madvise((void *)own.range[i].start, own.range[i].size, MADV_POPULATE_WRITE) < 0)
			break;
	own.count = 0; /* once is enough */
}
