/*
 * cay-scope PID: has the user's systemd put process PID into a scope of its own
 * that is delegated, so that cay may make cgroups in it. systemd removes the
 * scope when its last process is gone. The main process of a service that is
 * delegated stays where it is: the service would lose it otherwise.
 *
 * Says nothing and exits with 0 when PID is there; else one line, and 1. A
 * program of its own, because it needs libsystemd and cay shall not: see
 * systemd_scope.c, which runs it with nothing in the environment but
 * XDG_RUNTIME_DIR.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>

#define DESTINATION "org.freedesktop.systemd1"
#define OBJECT      "/org/freedesktop/systemd1"
#define MANAGER     "org.freedesktop.systemd1.Manager"
#define SERVICE     "org.freedesktop.systemd1.Service"

#define DEADLINE_US 5000000ull

struct job {
	char path[256];  /* "" until systemd has told it */
	char result[64]; /* "" until it is over; "done" is what we want */
};

static uint64_t now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)putchar('\n');
	return -1;
}

static int on_job_removed(sd_bus_message *m, void *ctx, sd_bus_error *e)
{
	struct job *job = ctx;
	const char *path, *result;
	uint32_t id;

	(void)e;
	if (sd_bus_message_read(m, "uoss", &id, &path, NULL, &result) >= 0 &&
	    strcmp(path, job->path) == 0)
		(void)snprintf(job->result, sizeof(job->result), "%s", result);
	return 0;
}

/* As systemctl does: straight to the manager, or by the bus where that is not to be had. */
static int connect_to(const char *path, bool is_bus, sd_bus **ret)
{
	char address[PATH_MAX + 16];
	sd_bus *bus = NULL;
	int r;

	/* A D-Bus address has an escape for everything but these. */
	if (path[strspn(path,
			"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_/.")])
		return -EINVAL;
	(void)snprintf(address, sizeof(address), "unix:path=%s", path);
	r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_address(bus, address);
	if (r >= 0)
		r = sd_bus_set_bus_client(bus, is_bus);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r < 0) {
		sd_bus_unref(bus);
		return r;
	}
	*ret = bus;
	return 0;
}

static int connect_manager(sd_bus **ret)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	int r;

	if (!dir)
		return fail("XDG_RUNTIME_DIR is not set");
	(void)snprintf(path, sizeof(path), "%s/systemd/private", dir);
	r = connect_to(path, false, ret);
	if (r < 0) {
		(void)snprintf(path, sizeof(path), "%s/bus", dir);
		r = connect_to(path, true, ret);
	}
	return r < 0 ? fail("connect to the user's systemd: %s", strerror(-r)) : 0;
}

static bool is_main_of_delegated(sd_bus *bus, const char *unit, uint32_t pid)
{
	uint32_t main_pid = 0;
	int delegated = 0;

	return sd_bus_get_property_trivial(bus, DESTINATION, unit, SERVICE, "MainPID", NULL, 'u',
					   &main_pid) >= 0 &&
	       sd_bus_get_property_trivial(bus, DESTINATION, unit, SERVICE, "Delegate", NULL, 'b',
					   &delegated) >= 0 &&
	       main_pid == pid && delegated;
}

/* Whatever else it is in (a session, a scope), the answer is no. */
static bool is_in_delegated(sd_bus *bus, uint32_t pid)
{
	sd_bus_message *reply = NULL;
	const char *unit;
	bool yes = sd_bus_call_method(bus, DESTINATION, OBJECT, MANAGER, "GetUnitByPID", NULL,
				      &reply, "u", pid) >= 0 &&
		   sd_bus_message_read(reply, "o", &unit) >= 0 &&
		   is_main_of_delegated(bus, unit, pid);

	sd_bus_message_unref(reply);
	return yes;
}

static int fill(sd_bus_message *m, uint32_t pid)
{
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "cay-%u.scope", pid);
	r = sd_bus_message_append(m, "ss", name, "fail");
	if (r >= 0)
		r = sd_bus_message_append(m, "a(sv)", 4, "Description", "s", "A sandbox of cay",
					  "Delegate", "b", 1, "CollectMode", "s",
					  "inactive-or-failed", "PIDs", "au", 1, pid);
	if (r >= 0)
		r = sd_bus_message_append(m, "a(sa(sv))", 0);
	return r;
}

static int start_unit(sd_bus *bus, uint32_t pid, struct job *job)
{
	sd_bus_message *m = NULL, *reply = NULL;
	sd_bus_error error = SD_BUS_ERROR_NULL;
	const char *path;
	int r;

	r = sd_bus_message_new_method_call(bus, &m, DESTINATION, OBJECT, MANAGER,
					   "StartTransientUnit");
	if (r >= 0)
		r = fill(m, pid);
	if (r >= 0)
		r = sd_bus_call(bus, m, DEADLINE_US, &error, &reply);
	if (r >= 0)
		r = sd_bus_message_read(reply, "o", &path);
	if (r >= 0)
		(void)snprintf(job->path, sizeof(job->path), "%s", path);
	else
		(void)fail("ask systemd for a scope: %s",
			   error.message ? error.message : strerror(-r));
	sd_bus_error_free(&error);
	sd_bus_message_unref(reply);
	sd_bus_message_unref(m);
	return r < 0 ? -1 : 0;
}

static int await_job(sd_bus *bus, const struct job *job, uint64_t end_us)
{
	while (!job->result[0]) {
		uint64_t now = now_us();
		int r = sd_bus_process(bus, NULL);

		if (r == 0 && now >= end_us)
			return fail("systemd did not make the scope in time");
		if (r == 0)
			r = sd_bus_wait(bus, end_us - now);
		if (r < 0 && r != -EINTR)
			return fail("wait for systemd: %s", strerror(-r));
	}
	return strcmp(job->result, "done") == 0 ? 0
						: fail("systemd made no scope: %s", job->result);
}

static int make_scope(sd_bus *bus, uint32_t pid)
{
	uint64_t end_us = now_us() + DEADLINE_US;
	struct job job = {0};
	int r = sd_bus_match_signal(bus, NULL, NULL, OBJECT, MANAGER, "JobRemoved", on_job_removed,
				    &job);

	if (r < 0)
		return fail("listen to systemd: %s", strerror(-r));
	if (start_unit(bus, pid, &job) < 0)
		return -1;
	return await_job(bus, &job, end_us);
}

int main(int argc, char **argv)
{
	sd_bus *bus = NULL;
	unsigned long pid;
	char *end;
	int r;

	errno = 0;
	pid = argc == 2 ? strtoul(argv[1], &end, 10) : 0;
	if (argc != 2 || *end || errno || pid == 0 || pid > INT_MAX) {
		(void)fail("usage: cay-scope PID");
		return 1;
	}
	r = connect_manager(&bus);
	if (r == 0 && !is_in_delegated(bus, (uint32_t)pid))
		r = make_scope(bus, (uint32_t)pid);
	sd_bus_unref(bus);
	return r == 0 ? 0 : 1;
}
