/*
 * Workspaces that outlive their islands, by the launcher as a process of its own: what
 * is limited, what is refused, and that neither mounts nor loop devices are left. Needs
 * root and loop devices.
 */
#include "service_client.h"

#include "base/attr.h"
#include "base/fd.h"
#include "engine/native/kept.h"
#include "engine/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST  "sbx_0123456789abcdef"
#define SECOND "sbx_fedcba9876543210"

static char place[64];
static int state_dir, kept_dir;

static int start(void **state _unused_)
{
	struct cay_error err;

	(void)snprintf(place, sizeof(place), "/var/tmp/cay-kept-XXXXXX");
	assert_non_null(mkdtemp(place));
	state_dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(kept_open_dir(state_dir, &kept_dir, &err), 0);
	client_start(kept_dir, NULL, NULL);
	return 0;
}

/* How many loop devices have a file in our place. */
static int loops(void)
{
	int n = 0;

	for (int k = 0; k < 256; k++) {
		char file[64], text[256];

		(void)snprintf(file, sizeof(file), "/sys/block/loop%d/loop/backing_file", k);
		if (fd_read_text_at(AT_FDCWD, file, text, sizeof(text)) > 0 && strstr(text, place))
			n++;
	}
	return n;
}

static void no_loops_soon(void)
{
	for (int tries = 0; loops() > 0 && tries < 500; tries++)
		(void)usleep(10000);
	assert_int_equal(loops(), 0);
}

static int stop(void **state _unused_)
{
	client_stop();
	no_loops_soon();
	tree_empty(state_dir);
	(void)close(kept_dir);
	(void)close(state_dir);
	assert_int_equal(rmdir(place), 0);
	return 0;
}

static bool is_there(const char *name)
{
	return faccessat(kept_dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct plan *plan_of(const char *kept, const char *line, uint64_t disk_bytes)
{
	return client_plan((struct spec){.kept = kept, .limits.disk_bytes = disk_bytes}, line);
}

static void ask(struct service_request q, const void *more, size_t more_len, const int *fds)
{
	client_ask(q, more, more_len, fds, fds ? 3 : 0);
}

#define DISK (8ull << 20)

static void ask_make(uint32_t island, const char *name)
{
	struct plan *p = plan_of(name, "true", DISK);

	ask((struct service_request){.kind = SERVICE_MAKE, .island = island}, p, p->size, NULL);
	free(p);
}

static void make(uint32_t island, const char *name)
{
	struct service_report r;

	ask_make(island, name);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_READY);
	assert_int_equal(r.island, island);
	assert_int_equal(r.isolation.disk, HOLD_LOOP);
	assert_int_equal(r.isolation.degraded, 0);
}

static void tell_end(uint32_t island)
{
	ask((struct service_request){.kind = SERVICE_KILL,
				     .island = island,
				     .cause = CAUSE_CANCELLED},
	    NULL, 0, NULL);
}

static void end(uint32_t island)
{
	struct service_report r;

	tell_end(island);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_GONE);
	assert_int_equal(r.island, island);
}

/* What the command prints, both streams. */
static int command(uint32_t island, uint32_t number, const char *name, const char *line, char *out,
		   size_t size)
{
	_cleanup_(pipes_done) struct pipes pipes = PIPES_NONE;
	struct plan *p = plan_of(name, line, DISK);
	struct service_report r;
	struct cay_error err;

	assert_int_equal(pipes_open(&pipes, 0, &err), 0);
	ask((struct service_request){.kind = SERVICE_COMMAND, .island = island, .command = number},
	    p, p->size, pipes.theirs);
	pipes_close_theirs(&pipes);
	client_read(&pipes, out, size);
	free(p);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_EXITED);
	return r.status;
}

static void discard(const char *name)
{
	char names[1][ID_SIZE] = {""};

	(void)snprintf(names[0], ID_SIZE, "%s", name);
	ask((struct service_request){.kind = SERVICE_DISCARD}, names, sizeof(names), NULL);
}

static void keeps_files(void **state _unused_)
{
	char out[512];

	make(1, FIRST);
	assert_int_equal(loops(), 1);
	assert_int_equal(command(1, 1, FIRST, "echo here >file; mkdir d; ls -A; stat -c '%u %a' .",
				 out, sizeof(out)),
			 0);
	assert_string_equal(out, "d\nfile\n1000 755\n");
	end(1);
	assert_int_equal(loops(), 0);
	assert_true(is_there(FIRST ".img"));
	assert_false(is_there(FIRST ".new"));
	make(2, FIRST);
	(void)command(2, 1, FIRST, "cat file; stat -c %u file d", out, sizeof(out));
	assert_string_equal(out, "here\n1000\n1000\n");
	end(2);
}

/* It is asked for again while its last island is still ending. */
static void waits_for_the_last_island(void **state _unused_)
{
	char out[64];

	make(1, FIRST);
	for (uint32_t n = 1; n <= 10; n++) {
		struct service_report r;

		(void)command(n, 1, FIRST,
			      "dd if=/dev/zero of=f bs=1M count=4 2>/dev/null; "
			      "echo x >>count; wc -l <count",
			      out, sizeof(out));
		assert_int_equal(strtoul(out, NULL, 10), n);
		tell_end(n);
		ask_make(n + 1, FIRST);
		r = client_hear();
		assert_int_equal(r.kind, REPORT_GONE);
		r = client_hear();
		assert_int_equal(r.kind, REPORT_READY);
	}
	end(11);
}

static void only_one_island_at_a_time(void **state _unused_)
{
	struct pollfd wait = {.fd = client_sock, .events = POLLIN};

	make(1, FIRST);
	ask_make(2, FIRST);
	wait.fd = client_sock;
	assert_int_equal(poll(&wait, 1, 300), 0);
	assert_int_equal(loops(), 1);
	tell_end(2);
	assert_int_equal(client_hear().kind, REPORT_GONE);
	end(1);
}

static void limits_bytes_and_files(void **state _unused_)
{
	char out[512];
	unsigned long bytes, files;

	make(1, FIRST);
	(void)command(1, 1, FIRST, "cat /dev/zero >f 2>/dev/null; stat -c %s f; rm f", out,
		      sizeof(out));
	bytes = strtoul(out, NULL, 10);
	assert_in_range(bytes, DISK - (1 << 20), DISK);
	(void)command(1, 2, FIRST,
		      "i=0; while true >f$i; do i=$((i+1)); done 2>/dev/null; ls | wc -l", out,
		      sizeof(out));
	files = strtoul(out, NULL, 10);
	assert_in_range(files, 2000, 2100); /* 256 a MiB */
	end(1);
}

static void is_no_way_to_rights(void **state _unused_)
{
	char out[512];

	make(1, FIRST);
	(void)command(1, 1, FIRST,
		      "cp /usr/bin/id id; chmod 6755 id; ./id -u; mknod dev b 7 0 2>&1 | grep -c "
		      "permitted; grep ' /workspace ' /proc/self/mountinfo | cut -d' ' -f6",
		      out, sizeof(out));
	assert_string_equal(out, "1000\n1\nrw,nosuid,nodev,relatime,idmapped\n");
	end(1);
}

static void discards_and_sweeps(void **state _unused_)
{
	static char others[SERVICE_NAMES_MAX][ID_SIZE];
	char names[1][ID_SIZE] = {FIRST};
	int file;

	make(1, FIRST);
	make(2, SECOND);
	end(2);
	discard(SECOND);
	end(1);
	assert_false(is_there(SECOND ".img"));
	make(3, SECOND);
	end(3);
	file = openat(kept_dir, SECOND ".new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	(void)close(file);
	assert_int_equal(mkdirat(kept_dir, "sbx_0000000000000000", 0700), 0);
	assert_int_equal(mkdirat(kept_dir, "other", 0700), 0);
	/* In as many packets as it takes. */
	ask((struct service_request){.kind = SERVICE_SWEEP, .flags = FLAG_MORE}, names,
	    sizeof(names), NULL);
	for (size_t n = 0; n < SERVICE_NAMES_MAX; n++)
		(void)snprintf(others[n], ID_SIZE, "sbx_1111111111111111");
	ask((struct service_request){.kind = SERVICE_SWEEP}, others, sizeof(others), NULL);
	make(4, FIRST); /* by now it is done */
	end(4);
	assert_true(is_there(FIRST ".img"));
	assert_false(is_there(SECOND ".img"));
	assert_false(is_there(SECOND ".new"));
	for (int tries = 0; is_there("sbx_0000000000000000.gone") && tries < 500; tries++)
		(void)usleep(10000);
	assert_false(is_there("sbx_0000000000000000"));
	assert_false(is_there("sbx_0000000000000000.gone"));
	assert_true(is_there("other"));
}

/* Also one whose image is made right now. */
static void can_be_cancelled(void **state _unused_)
{
	for (uint32_t n = 1; n <= 20; n++) {
		struct service_report r;

		ask_make(n, SECOND);
		tell_end(n);
		r = client_hear();
		if (r.kind == REPORT_READY)
			r = client_hear();
		assert_int_equal(r.kind, REPORT_GONE);
		discard(SECOND);
	}
	make(100, FIRST);
	end(100);
	assert_false(is_there(SECOND ".new"));
	assert_false(is_there(SECOND ".img"));
}

static void refuses(void **state _unused_)
{
	struct plan *p = plan_of(FIRST, "true", DISK);
	struct service_report r;
	char bad[ID_SIZE] = "sbx_../../../etc/passwd";
	const int fds[3] = {client_sock, client_sock, client_sock};

	ask((struct service_request){.kind = SERVICE_RUN, .island = 1}, p, p->size, fds);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask((struct service_request){.kind = SERVICE_AHEAD, .command = 1}, p, p->size, NULL);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask((struct service_request){.kind = SERVICE_DISCARD}, bad, sizeof(bad), NULL);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask((struct service_request){.kind = SERVICE_DISCARD}, FIRST, 7, NULL);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	free(p);
	p = plan_of(FIRST, "true", 1ull << 43);
	ask((struct service_request){.kind = SERVICE_MAKE, .island = 2}, p, p->size, NULL);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.error.code, CAY_E_AT_CAPACITY);
	free(p);
	/* Not ours: whatever somebody else could have written. */
	make(3, FIRST);
	end(3);
	assert_int_equal(fchownat(kept_dir, FIRST ".img", 1234, 1234, 0), 0);
	ask_make(4, FIRST);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	assert_int_equal(renameat(kept_dir, FIRST ".img", kept_dir, "x"), 0);
	assert_int_equal(symlinkat("x", kept_dir, FIRST ".img"), 0);
	ask_make(5, FIRST);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	assert_int_equal(loops(), 0);
}

static void nothing_outlives_the_launcher(void **state _unused_)
{
	char out[64];

	for (uint32_t n = 1; n <= 20; n++) {
		make(1, FIRST);
		(void)command(1, 1, FIRST, "echo x >>count; sync; wc -l <count", out, sizeof(out));
		assert_int_equal(strtoul(out, NULL, 10), n);
		ask_make(2, SECOND); /* is being made */
		assert_int_equal(kill(client_launcher, SIGKILL), 0);
		assert_int_equal(waitpid(client_launcher, NULL, 0), client_launcher);
		(void)close(client_sock);
		client_start(kept_dir, NULL, NULL);
	}
	discard(SECOND);
	make(1, FIRST);
	end(1);
}

#define COPY "wsp_0123456789abcdef"

static void ask_copy(uint32_t number, const char *from, const char *to)
{
	char names[2][ID_SIZE] = {"", ""};

	(void)snprintf(names[0], ID_SIZE, "%s", from);
	(void)snprintf(names[1], ID_SIZE, "%s", to);
	ask((struct service_request){.kind = SERVICE_COPY, .island = number}, names, sizeof(names),
	    NULL);
}

static void copy(uint32_t number, const char *from, const char *to)
{
	struct service_report r;

	ask_copy(number, from, to);
	r = client_hear();
	assert_int_equal(r.kind, REPORT_GONE);
	assert_int_equal(r.island, number);
	assert_int_equal(r.status, 0);
}

/* Also over what is there; and it is a workspace like any other. */
static void copies(void **state _unused_)
{
	struct stat st, copied;
	char out[64];

	make(1, FIRST);
	(void)command(1, 1, FIRST, "echo one >f", out, sizeof(out));
	end(1);
	copy(2, FIRST, COPY);
	assert_false(is_there(COPY ".new"));
	assert_int_equal(fstatat(kept_dir, FIRST ".img", &st, 0), 0);
	assert_int_equal(fstatat(kept_dir, COPY ".img", &copied, 0), 0);
	assert_int_equal(st.st_size, copied.st_size);
	assert_int_equal(copied.st_mode & 0777, 0600);
	assert_true(copied.st_blocks * 512 < copied.st_size); /* its holes are holes */
	make(3, FIRST);
	(void)command(3, 1, FIRST, "echo two >f", out, sizeof(out));
	end(3);
	make(4, COPY);
	(void)command(4, 1, COPY, "cat f", out, sizeof(out));
	assert_string_equal(out, "one\n");
	end(4);
	copy(5, COPY, FIRST);
	make(6, FIRST);
	(void)command(6, 1, FIRST, "cat f", out, sizeof(out));
	assert_string_equal(out, "one\n");
	end(6);
}

/* For so long there is no answer; how much stands ready is none. */
static void stays_silent(int ms)
{
	struct pollfd wait = {.fd = client_sock, .events = POLLIN};
	struct service_report r;
	size_t n_fds;

	while (poll(&wait, 1, ms) > 0) {
		assert_int_equal(msg_recv(client_sock, &r, sizeof(r), NULL, 0, &n_fds), sizeof(r));
		assert_int_equal(r.kind, REPORT_STOCK);
	}
}

/* Neither from nor to what an island has: it waits for its end. */
static void no_copy_of_what_is_in_use(void **state _unused_)
{
	make(1, FIRST);
	make(2, COPY);
	end(2);
	for (int n = 0; n < 2; n++) {
		ask_copy(10, n ? COPY : FIRST, n ? FIRST : COPY);
		stays_silent(100);
		tell_end(10); /* no longer wanted */
		assert_int_equal(client_hear().status, -1);
	}
	ask_copy(11, FIRST, COPY);
	stays_silent(50);
	end(1);
	assert_int_equal(client_hear().kind, REPORT_GONE);
	assert_false(is_there(COPY ".new"));
}

static void refuses_copies(void **state _unused_)
{
	char names[3][ID_SIZE] = {FIRST, SECOND, COPY};

	for (size_t n = 0; n <= 3; n++) {
		if (n == 2)
			continue;
		ask((struct service_request){.kind = SERVICE_COPY, .island = 1}, names, n * ID_SIZE,
		    NULL);
		assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	}
	ask_copy(1, FIRST, FIRST);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask_copy(1, FIRST, "../../etc/passwd");
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask_copy(0, FIRST, SECOND);
	assert_int_equal(client_hear().error.code, CAY_E_INVALID);
	ask_copy(1, FIRST, SECOND); /* nothing is there */
	assert_int_equal(client_hear().error.code, CAY_E_CONFLICT);
	assert_int_equal(mkdirat(kept_dir, FIRST, 0700), 0);
	ask_copy(1, FIRST, SECOND);
	assert_int_equal(client_hear().error.code, CAY_E_UNSUPPORTED);
	assert_int_equal(unlinkat(kept_dir, FIRST, AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("/etc/passwd", kept_dir, FIRST ".img"), 0);
	ask_copy(1, FIRST, SECOND);
	assert_int_equal(client_hear().kind, REPORT_FAILED);
	assert_false(is_there(SECOND ".new") || is_there(SECOND ".img"));
}

/* What was there before is there after it, and what is half made does not count. */
static void copies_and_crashes(void **state _unused_)
{
	char names[2][ID_SIZE] = {FIRST, COPY}, out[64];

	make(1, FIRST);
	(void)command(1, 1, FIRST, "dd if=/dev/urandom of=f bs=1M count=6 2>/dev/null", out,
		      sizeof(out));
	end(1);
	copy(2, FIRST, COPY);
	for (int n = 0; n < 10; n++) {
		ask_copy(3, FIRST, COPY);
		(void)usleep((unsigned)n * 300);
		assert_int_equal(kill(client_launcher, SIGKILL), 0);
		assert_int_equal(waitpid(client_launcher, NULL, 0), client_launcher);
		(void)close(client_sock);
		client_start(kept_dir, NULL, NULL);
		assert_true(is_there(COPY ".img"));
	}
	ask((struct service_request){.kind = SERVICE_SWEEP}, names, sizeof(names), NULL);
	make(4, COPY);
	assert_false(is_there(COPY ".new"));
	assert_int_equal(command(4, 1, COPY, "test $(stat -c %s f) = 6291456", out, sizeof(out)),
			 0);
	end(4);
}

static void the_directory_is_ours(void **state _unused_)
{
	struct cay_error err;
	int dir;

	assert_int_equal(renameat(state_dir, KEPT_DIR, state_dir, "away"), 0);
	assert_int_equal(symlinkat("away", state_dir, KEPT_DIR), 0);
	assert_int_equal(kept_open_dir(state_dir, &dir, &err), -1);
	assert_int_equal(unlinkat(state_dir, KEPT_DIR, 0), 0);
	assert_int_equal(mkdirat(state_dir, KEPT_DIR, 0700), 0);
	assert_int_equal(fchownat(state_dir, KEPT_DIR, 1234, 1234, 0), 0);
	assert_int_equal(kept_open_dir(state_dir, &dir, &err), -1);
	assert_int_equal(err.code, CAY_E_POLICY);
	assert_int_equal(fchownat(state_dir, KEPT_DIR, 0, 0, 0), 0);
	assert_int_equal(fchmodat(state_dir, KEPT_DIR, 0770, 0), 0);
	assert_int_equal(kept_open_dir(state_dir, &dir, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keeps_files, start, stop),
		cmocka_unit_test_setup_teardown(waits_for_the_last_island, start, stop),
		cmocka_unit_test_setup_teardown(only_one_island_at_a_time, start, stop),
		cmocka_unit_test_setup_teardown(limits_bytes_and_files, start, stop),
		cmocka_unit_test_setup_teardown(is_no_way_to_rights, start, stop),
		cmocka_unit_test_setup_teardown(discards_and_sweeps, start, stop),
		cmocka_unit_test_setup_teardown(can_be_cancelled, start, stop),
		cmocka_unit_test_setup_teardown(refuses, start, stop),
		cmocka_unit_test_setup_teardown(nothing_outlives_the_launcher, start, stop),
		cmocka_unit_test_setup_teardown(copies, start, stop),
		cmocka_unit_test_setup_teardown(no_copy_of_what_is_in_use, start, stop),
		cmocka_unit_test_setup_teardown(refuses_copies, start, stop),
		cmocka_unit_test_setup_teardown(copies_and_crashes, start, stop),
		cmocka_unit_test_setup_teardown(the_directory_is_ours, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
