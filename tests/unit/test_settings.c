#include "settings/settings.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "core/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "must_work.h"
#include "settings_support.h"

static void defaults(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	assert_int_equal(s.limits.memory_bytes, 512 << 20);
	assert_int_equal(s.limits.cpus_milli, 1000);
	assert_int_equal(s.limits.pids, 50);
	assert_int_equal(s.limits.disk_bytes, 100 << 20);
	assert_int_equal(s.limits.timeout_ms, 60000);
	assert_int_equal(s.limits.cpu_time_ms, 0);
	assert_int_equal(s.limits.output_bytes, 1 << 20);
	assert_int_equal(s.limits.file_size_bytes, 0);
	for (size_t i = 0; i < n_limit_rows; i++)
		assert_int_equal(limit_get(&s.maximum, &limit_rows[i]), 0);
	assert_false(s.allow_degraded);
	assert_true(s.may_degrade);
	assert_true(s.allow_direct);
	assert_int_equal(s.mount_read.len + s.mount_write.len + s.mount_forbid.len, 0);
	assert_int_equal(s.n_languages, 0);
	assert_int_equal(s.serve_history_size, 1 << 30);
	assert_int_equal(s.warm_memory, 256 << 20);
	assert_string_equal(settings_origin(&s, "limits.memory"), "default");
}

static void every_key_lands_in_its_field(void **state)
{
	_cleanup_(settings_done) struct settings s;
	const struct language_settings *python;

	(void)state;
	settings_init(&s);
	parse(&s, "F",
	      "[limits]\nmemory=1g\ncpus=1.5\npids=10\ndisk=1m\ntimeout=5m\ncpu_time=2\n"
	      "output=64k\nopen_files=100\nfile_size=3k\n"
	      "[maximum]\nmemory=2g\ncpus=2\npids=11\ndisk=2m\ntimeout=1h\ncpu_time=3\n"
	      "output=65k\nopen_files=101\nfile_size=4k\n"
	      "[mounts]\nread=/r\nread=~/r2/\nwrite=/w\nforbid=/f\n"
	      "[isolation]\nallow_degraded=yes\nmay_degrade=no\n[engine]\ndirect=no\n"
	      "[serve]\nhistory_size=512m\n[warm]\nmemory=64m\n"
	      "[language python]\nprefer=3.11\npath=/opt/a\npath=/opt/b\n");
	assert_int_equal(s.limits.memory_bytes, 1 << 30);
	assert_int_equal(s.limits.cpus_milli, 1500);
	assert_int_equal(s.limits.pids, 10);
	assert_int_equal(s.limits.disk_bytes, 1 << 20);
	assert_int_equal(s.limits.timeout_ms, 300000);
	assert_int_equal(s.limits.cpu_time_ms, 2000);
	assert_int_equal(s.limits.output_bytes, 64 << 10);
	assert_int_equal(s.limits.open_files, 100);
	assert_int_equal(s.limits.file_size_bytes, 3 << 10);
	assert_true(s.maximum.memory_bytes == 2ull << 30);
	assert_int_equal(s.maximum.cpus_milli, 2000);
	assert_int_equal(s.maximum.pids, 11);
	assert_int_equal(s.maximum.disk_bytes, 2 << 20);
	assert_int_equal(s.maximum.timeout_ms, 3600000);
	assert_int_equal(s.maximum.cpu_time_ms, 3000);
	assert_int_equal(s.maximum.output_bytes, 65 << 10);
	assert_int_equal(s.maximum.open_files, 101);
	assert_int_equal(s.maximum.file_size_bytes, 4 << 10);
	assert_int_equal(s.mount_read.len, 2);
	assert_string_equal(s.mount_read.items[0], "/r");
	assert_string_equal(s.mount_read.items[1], "~/r2/");
	assert_string_equal(s.mount_write.items[0], "/w");
	assert_string_equal(s.mount_forbid.items[0], "/f");
	assert_true(s.allow_degraded);
	assert_false(s.may_degrade);
	assert_false(s.allow_direct);
	assert_int_equal(s.serve_history_size, 512 << 20);
	assert_int_equal(s.warm_memory, 64 << 20);
	python = settings_language(&s, "python");
	assert_non_null(python);
	assert_string_equal(python->prefer, "3.11");
	assert_int_equal(python->paths.len, 2);
	assert_string_equal(python->paths.items[1], "/opt/b");
	assert_null(settings_language(&s, "sh"));
}

static void zero_where_it_is_allowed(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	parse(&s, "F", "[limits]\ncpu_time=5\nfile_size=1m\n[maximum]\nmemory=1g\n");
	parse(&s, "G", "[limits]\ncpu_time=0\nfile_size=0\n[maximum]\nmemory=0\n");
	assert_int_equal(s.limits.cpu_time_ms, 0);
	assert_int_equal(s.limits.file_size_bytes, 0);
	assert_int_equal(s.maximum.memory_bytes, 0);
	check_refused("[serve]\nhistory_size=17t\n",
		      "F:2: history_size can't be '17t': expected a size such as 512m, from 0 to "
		      "17592186044416",
		      "");
	check_refused("[limits]\nmemory=0\n",
		      "F:2: the limit memory can't be '0': expected a size such as 512m or 1g, "
		      "from 4 MiB to 16 TiB",
		      "");
}

/* Single values are overridden, lists grow, and each remembers where it came from. */
static void later_files_come_on_top(void **state)
{
	_cleanup_(settings_done) struct settings s;

	(void)state;
	settings_init(&s);
	parse(&s, "one",
	      "[limits]\nmemory=1g\npids=9\n[mounts]\nread=/a\n[language py]\nprefer=3\n");
	parse(&s, "two",
	      "[limits]\nmemory=2g\n[mounts]\nread=/b\n[language python]\nprefer=3.12\n");
	assert_true(s.limits.memory_bytes == 2ull << 30);
	assert_int_equal(s.limits.pids, 9);
	assert_int_equal(s.mount_read.len, 2);
	assert_int_equal(s.n_languages, 1); /* py is python */
	assert_string_equal(settings_language(&s, "python")->prefer, "3.12");
	assert_string_equal(settings_origin(&s, "limits.memory"), "two:2");
	assert_string_equal(settings_origin(&s, "limits.pids"), "one:3");
	assert_string_equal(settings_origin(&s, "limits.cpus"), "default");
	assert_string_equal(settings_origin(&s, "mounts.read[0]"), "one:5");
	assert_string_equal(settings_origin(&s, "mounts.read[1]"), "two:4");
	assert_string_equal(settings_origin(&s, "mounts.read"), "two:4");
	assert_string_equal(settings_origin(&s, "language python.prefer"), "two:6");
}

static void unknown_words_get_a_suggestion(void **state)
{
	static const char keys[] = "memory, cpus, pids, disk, timeout, cpu_time, output, "
				   "open_files, file_size";
	static const char names[] =
		"limits, maximum, mounts, isolation, engine, docker, podman, network, "
		"selective, tier, scope session, scope agent, scope shared, serve, "
		"workspaces, warm, images, language";
	char hint[300];

	(void)state;
	(void)snprintf(hint, sizeof(hint), "did you mean 'memory'? keys there are: %s", keys);
	check_refused("[limits]\n\nmemroy = 1g\n", "F:3: unknown key 'memroy' in [limits]", hint);
	(void)snprintf(hint, sizeof(hint), "keys there are: %s", keys);
	check_refused("[maximum]\nelephant = 1\n", "F:2: unknown key 'elephant' in [maximum]",
		      hint);
	check_refused("[maximum]\n= 1\n", "F:2: unknown key '' in [maximum]", hint);
	(void)snprintf(hint, sizeof(hint), "did you mean 'limits'? sections are: %s", names);
	check_refused("[limit]\n", "F:1: unknown section [limit]", hint);
	check_refused("[limits x]\n", "F:1: unknown section [limits x]", hint);
	(void)snprintf(hint, sizeof(hint), "sections are: %s", names);
	check_refused("[languagepython]\n", "F:1: unknown section [languagepython]", hint);
	check_refused("memory = 1g\n", "F:1: a key before the first [section]", hint);
	check_refused("[engine]\ndirekt = no\n", "F:2: unknown key 'direkt' in [engine]",
		      "did you mean 'direct'? keys there are: direct");
}

static void unknown_languages_are_refused(void **state)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err;

	(void)state;
	settings_init(&s);
	assert_int_equal(settings_parse(&s, "F", "[language pyhton]\n", &err), -1);
	assert_string_equal(err.text, "F:1: unknown language 'pyhton'");
	assert_memory_equal(err.hint, "did you mean 'python'? languages are: ", 38);
	assert_int_equal(settings_parse(&s, "F", "[language]\n", &err), -1);
	assert_string_equal(err.text, "F:1: a language section needs a name");
	assert_int_equal(s.n_languages, 0);
}

static void bad_values_say_what_is_expected(void **state)
{
	(void)state;
	check_refused("[limits]\nmemory = lots\n",
		      "F:2: the limit memory can't be 'lots': expected a size such as 512m or 1g, "
		      "from 4 MiB to 16 TiB",
		      "");
	check_refused("[maximum]\npids = 1\n",
		      "F:2: the limit pids can't be '1': expected a whole number, "
		      "from 2 to 4194304",
		      "0 means: not limited");
	check_refused("[engine]\ndirect = maybe\n",
		      "F:2: direct can't be 'maybe': expected yes or no", "");
	check_refused("[limits]\nmemory =\n",
		      "F:2: the limit memory can't be '': expected a size such as 512m or 1g, "
		      "from 4 MiB to 16 TiB",
		      "");
	check_refused("[limits]\nnonsense\n", "F:2: expected [section] or key = value", "");
	check_refused("[mounts]\nread = /a # b\n", "F:2: a comment needs a line of its own", "");
}

static void versions_are_checked(void **state)
{
	static const char *const bad[] = {
		"",     "three", "3.",   ".3",
		"3..1", "3 12",  "../3", "11111111111111111111111111111111"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char text[100], message[200];

		(void)snprintf(text, sizeof(text), "[language python]\nprefer = %s\n", bad[i]);
		(void)snprintf(message, sizeof(message),
			       "F:2: prefer can't be '%s': expected a version such as 3.12",
			       bad[i]);
		check_refused(text, message, "");
	}
}

static void paths_are_checked(void **state)
{
	static const char *const relative[] = {"srv",     "",        "./a",   "~",
					       "~root/x", "$HOME/x", "\"/a\""};
	static const char *const unclean[] = {"/a/../b", "/..", "~/..", "/a/.", "/./a",
					      "/a//b",   "//a", "//",   "/a//", "~//"};
	static const char *const good[] = {"/", "/a/", "~/", "/a/..b/...", "/with space", "/a;b"};
	_cleanup_(settings_done) struct settings s;
	char text[100], message[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(relative); i++) {
		(void)snprintf(text, sizeof(text), "[mounts]\nforbid = %s\n", relative[i]);
		(void)snprintf(message, sizeof(message),
			       "F:2: forbid can't be '%s': expected an absolute path, "
			       "or one that begins with ~/",
			       relative[i]);
		check_refused(text, message, "");
	}
	for (size_t i = 0; i < ARRAY_LEN(unclean); i++) {
		(void)snprintf(text, sizeof(text), "[mounts]\nwrite = %s\n", unclean[i]);
		(void)snprintf(
			message, sizeof(message),
			"F:2: write can't be '%s': expected a path without '..', '.' and '//'",
			unclean[i]);
		check_refused(text, message, "");
	}
	settings_init(&s);
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		(void)snprintf(text, sizeof(text), "[mounts]\nread = %s\n", good[i]);
		parse(&s, "F", text);
		assert_string_equal(s.mount_read.items[i], good[i]);
	}
	check_refused("[language python]\npath = ~/bin\n",
		      "F:2: path can't be '~/bin': expected an absolute path", "");
}

static void write_line(void *ctx, const char *section, const char *key, const char *value,
		       const char *origin)
{
	(void)origin;
	assert_int_equal(buf_printf(ctx, "[%s]\n%s = %s\n", section, key, value), 0);
}

/* What is shown can stand in a file, and means the same there. */
static void shown_values_read_back(void **state)
{
	_cleanup_(settings_done) struct settings s, again;
	_cleanup_(buf_done) struct buf first = BUF(10000), second = BUF(10000);

	(void)state;
	settings_init(&s);
	settings_init(&again);
	parse(&s, "F",
	      "[limits]\nmemory=5000001\ncpus=0.05\ntimeout=1.5\ncpu_time=90\noutput=1.5k\n"
	      "[maximum]\ncpus=1023.999\nmemory=16t\ntimeout=7ms\n[mounts]\nread=/a b\nread=~/\n"
	      "forbid=/x\n[isolation]\nallow_degraded=1\n[network]\nmode=none\nallow=A.b:*\n"
	      "address=[::1]:1\nrate=1k\n[tier standard]\nnetwork=full\n[language python]\npath=/opt\nprefer=3\n");
	settings_show(&s, write_line, &first);
	parse(&again, "G", buf_str(&first));
	settings_show(&again, write_line, &second);
	assert_string_equal(buf_str(&first), buf_str(&second));
	assert_memory_equal(&s.limits, &again.limits, sizeof(s.limits));
	assert_memory_equal(&s.maximum, &again.maximum, sizeof(s.maximum));
	assert_non_null(strstr(buf_str(&first), "memory = 5000001\n"));
	assert_non_null(strstr(buf_str(&first), "cpus = 0.05\n"));
	assert_non_null(strstr(buf_str(&first), "cpus = 1023.999\n"));
	assert_non_null(strstr(buf_str(&first), "timeout = 1500ms\n"));
	assert_non_null(strstr(buf_str(&first), "memory = 16t\n"));
	assert_non_null(strstr(buf_str(&first), "[mounts]\nread = ~/\n"));
	assert_non_null(strstr(buf_str(&first), "[language python]\npath = /opt\n"));
}

static void count_origin(void *ctx, const char *section, const char *key, const char *value,
			 const char *origin)
{
	size_t *n = ctx;

	(void)section, (void)key, (void)value;
	n[0]++;
	n[1] += strncmp(origin, "F:", 2) == 0;
}

static void shows_origins(void **state)
{
	_cleanup_(settings_done) struct settings s;
	size_t n[2] = {0, 0};

	(void)state;
	settings_init(&s);
	settings_show(&s, count_origin, n);
	assert_int_equal(n[0], 10 * n_limit_rows + 58);
	assert_int_equal(n[1], 0);
	parse(&s, "F", "[limits]\nmemory=1g\n[mounts]\nread=/a\nread=/b\n");
	n[0] = 0;
	settings_show(&s, count_origin, n);
	assert_int_equal(n[0], 10 * n_limit_rows + 60);
	assert_int_equal(n[1], 3);
}

/* The key lines of the example: "#key = value" with nothing between '#' and the key. */
static void uncomment(const char *text, struct buf *out)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		bool key = text[0] == '#' && n > 1 && text[1] != ' ';

		assert_int_equal(buf_append(out, text + key, n - key), 0);
		assert_int_equal(buf_append_str(out, "\n"), 0);
		text += n + (text[n] == '\n');
	}
}

static const char *example_file(void)
{
	const char *root = getenv("CAY_SOURCE_ROOT");
	static char path[4096];

	(void)snprintf(path, sizeof(path), "%s/packaging/cay.conf", root ? root : ".");
	return path;
}

static void find_default(void *ctx, const char *section, const char *key, const char *value,
			 const char *origin)
{
	char line[200];

	(void)section, (void)origin;
	(void)snprintf(line, sizeof(line), "\n#%s = %s\n", key, value);
	if (!strstr(ctx, line))
		fail_msg("cay.conf lacks '#%s = %s' for [%s]", key, value, section);
}

/* The example is all comments, names every key with its default, and its keys are right. */
static void example_is_true(void **state)
{
	_cleanup_(settings_done) struct settings s, all;
	_cleanup_(buf_done) struct buf text = BUF(SETTINGS_MAX_BYTES),
				       open = BUF(SETTINGS_MAX_BYTES);
	size_t n[2] = {0, 0};

	(void)state;
	settings_init(&s);
	settings_init(&all);
	assert_int_equal(fd_read_file_at(AT_FDCWD, example_file(), &text), 0);
	parse(&s, "F", buf_str(&text));
	settings_show(&s, count_origin, n);
	assert_int_equal(n[1], 0);
	settings_show(&s, find_default, text.data);
	uncomment(buf_str(&text), &open);
	parse(&all, "F", buf_str(&open));
	n[0] = n[1] = 0;
	settings_show(&all, count_origin, n);
	assert_int_equal(n[0], n[1]); /* every value of every section came from the file */
	assert_int_equal(all.mount_read.len, 1);
	assert_int_equal(all.mount_write.len, 1);
	assert_int_equal(all.mount_forbid.len, 1);
	assert_non_null(settings_language(&all, "python")->prefer);
	assert_int_equal(settings_language(&all, "python")->paths.len, 1);
	assert_memory_equal(&all.limits, &s.limits, sizeof(s.limits));
	assert_memory_equal(&all.maximum, &s.maximum, sizeof(s.maximum));
	assert_int_equal(all.allow_degraded, s.allow_degraded);
	assert_int_equal(all.may_degrade, s.may_degrade);
	assert_int_equal(all.allow_direct, s.allow_direct);
	assert_int_equal(all.network_mode, s.network_mode);
	assert_int_equal(all.warm_enabled, s.warm_enabled);
	assert_int_equal(all.warm_sets.len, 1);
	assert_int_equal(all.warm_images.len, 1);
	assert_int_equal(all.network_allow.len, 1);
	assert_int_equal(all.network_block.len, 1);
	assert_int_equal(all.network_addresses.len, 1);
	assert_int_equal(all.network_check_names, s.network_check_names);
	assert_int_equal(all.network_connections, s.network_connections);
	assert_int_equal(all.network_total_connections, s.network_total_connections);
	assert_int_equal(all.network_connection_rate, s.network_connection_rate);
	assert_int_equal(all.network_lookup_rate, s.network_lookup_rate);
	assert_int_equal(all.network_rate, s.network_rate);
	assert_int_equal(all.network_total_rate, s.network_total_rate);
	assert_int_equal(all.network_bytes, s.network_bytes);
	assert_int_equal(all.network_connect_timeout, s.network_connect_timeout);
	assert_int_equal(all.network_idle_timeout, s.network_idle_timeout);
	assert_memory_equal(all.tiers, s.tiers, sizeof(s.tiers));
	assert_int_equal(all.serve_max_runs, s.serve_max_runs);
	assert_int_equal(all.serve_settings, s.serve_settings);
	assert_int_equal(all.serve_queue, s.serve_queue);
	assert_int_equal(all.serve_queue_per_key, s.serve_queue_per_key);
	assert_int_equal(all.serve_wait, s.serve_wait);
	assert_int_equal(all.serve_history_size, s.serve_history_size);
	assert_int_equal(all.warm_memory, s.warm_memory);
	assert_int_equal(all.serve_hosts.len, 1);
	assert_int_equal(all.serve_mode, s.serve_mode);
	assert_int_equal(all.serve_direct_over_tcp, s.serve_direct_over_tcp);
	assert_non_null(all.serve_direct_user);
	assert_string_equal(all.images_store, "/var/lib/cay-images");
	assert_int_equal(all.images_budget, s.images_budget);
	assert_int_equal(all.images_allow.len, 1);
	assert_int_equal(all.images_aliases.len, 1);
	assert_int_equal(all.images_pull, s.images_pull);
	assert_int_equal(all.images_mirrors.len, 1);
	assert_int_equal(all.images_plain_http.len, 1);
	assert_int_equal(all.images_stall_timeout, s.images_stall_timeout);
	assert_int_equal(settings_language(&all, "python")->images.len, 1);
}

/* Files, in a directory of their own. */
static char dir[] = "/tmp/cay-test-settings-XXXXXX";
static char user_file[100], named[100];

static int make_dir(void **state)
{
	char sub[100];

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(sub, sizeof(sub), "%s/cay", dir);
	(void)snprintf(user_file, sizeof(user_file), "%s/cay/cay.conf", dir);
	(void)snprintf(named, sizeof(named), "%s/named", dir);
	return mkdir(sub, 0700);
}

static int remove_dir(void **state)
{
	char sub[100];

	(void)state;
	(void)snprintf(sub, sizeof(sub), "%s/cay", dir);
	(void)unlink(user_file);
	(void)rmdir(sub);
	return rmdir(dir);
}

static int clear_env(void **state)
{
	(void)state;
	(void)unlink(user_file);
	(void)unlink(named);
	(void)unsetenv("HOME");
	(void)unsetenv("XDG_CONFIG_HOME");
	(void)unsetenv("CAY_CONFIG");
	return 0;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	assert_int_equal(fd_create_file_at(AT_FDCWD, path, text, strlen(text), mode), 0);
}

static void check_files(const char *second, const char *third)
{
	_cleanup_(strv_done) struct strv files = {0};
	size_t n = 1;

	assert_int_equal(settings_files(&files), 0);
	assert_string_equal(files.items[0], "/etc/cay/cay.conf");
	if (second)
		assert_string_equal(files.items[n++], second);
	if (third)
		assert_string_equal(files.items[n++], third);
	assert_int_equal(files.len, n);
}

static void lists_files(void **state)
{
	(void)state;
	check_files(NULL, NULL);
	(void)setenv("HOME", "relative", 1);
	check_files(NULL, NULL);
	(void)setenv("HOME", "/home/x", 1);
	check_files("/home/x/.config/cay/cay.conf", NULL);
	(void)setenv("XDG_CONFIG_HOME", "relative", 1);
	check_files("/home/x/.config/cay/cay.conf", NULL);
	(void)setenv("XDG_CONFIG_HOME", "/cfg", 1);
	check_files("/cfg/cay/cay.conf", NULL);
	(void)setenv("CAY_CONFIG", "", 1);
	check_files("/cfg/cay/cay.conf", NULL);
	(void)setenv("CAY_CONFIG", "x.conf", 1);
	check_files("/cfg/cay/cay.conf", "x.conf");
	(void)setenv("CAY_CONFIG", "/cfg/cay/cay.conf", 1);
	check_files("/cfg/cay/cay.conf", NULL);
}

static void loads_in_order(void **state)
{
	_cleanup_(settings_done) struct settings s;
	char place[PATH_MAX + 16];
	struct cay_error err;

	(void)state;
	write_file(user_file, "[limits]\npids=7\nmemory=100m\n", 0600);
	write_file(named, "[limits]\npids=8\n", 0600);
	(void)setenv("XDG_CONFIG_HOME", dir, 1);
	(void)setenv("CAY_CONFIG", named, 1);
	settings_init(&s);
	assert_int_equal(settings_load(&s, &err), 0);
	assert_int_equal(s.limits.pids, 8);
	assert_int_equal(s.limits.memory_bytes, 100 << 20);
	(void)snprintf(place, sizeof(place), "%s:2", named);
	assert_string_equal(settings_origin(&s, "limits.pids"), place);
	(void)snprintf(place, sizeof(place), "%s:3", user_file);
	assert_string_equal(settings_origin(&s, "limits.memory"), place);
}

/* What is handed on is what was read, and means the same. */
static void loads_text(void **state)
{
	_cleanup_(settings_done) struct settings s, again;
	_cleanup_(buf_done) struct buf parts = BUF(10000), small = BUF(10);
	char place[512];
	struct cay_error err;

	(void)state;
	write_file(user_file, "[limits]\npids=7\n[mounts]\nread=/a", 0600);
	write_file(named, "[limits]\npids=8\n[mounts]\nread=/b\n", 0600);
	(void)setenv("XDG_CONFIG_HOME", dir, 1);
	(void)setenv("CAY_CONFIG", named, 1);
	settings_init(&s);
	settings_init(&again);
	assert_int_equal(settings_load_parts(&s, &parts, &err), 0);
	assert_int_equal(settings_add_part(&parts, SETTINGS_DEFAULT, "[limits]\ndisk=1g\n"), 0);
	assert_int_equal(settings_parse_parts(&again, &parts, &err), 0);
	(void)snprintf(place, sizeof(place), "%s:2", named);
	assert_string_equal(settings_origin(&again, "limits.pids"), place);
	assert_string_equal(settings_origin(&again, "limits.disk"), "default");
	assert_int_equal(again.limits.pids, 8);
	assert_int_equal(again.mount_read.len, s.mount_read.len);
	assert_int_equal(settings_load_parts(&s, &small, &err), -1);
	assert_int_equal(chmod(named, 0666), 0);
	assert_int_equal(settings_load_parts(&s, &parts, &err), geteuid() == 0 ? -1 : 0);
}

static void check_load(const char *file, const char *words)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err = {0};
	bool found;

	settings_init(&s);
	assert_int_equal(settings_load_file(&s, file, &found, &err), -1);
	if (!strstr(err.text, words) || !strstr(err.text, file))
		fail_msg("'%s' does not say '%s' and '%s'", err.text, file, words);
}

static void missing_files(void **state)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err;
	bool found = true;

	(void)state;
	settings_init(&s);
	assert_int_equal(settings_load_file(&s, named, &found, &err), 0);
	assert_false(found);
	assert_int_equal(settings_load_file(&s, "/dev/null/x", &found, &err), 0);
	(void)setenv("CAY_CONFIG", named, 1);
	check_load(named, "named by CAY_CONFIG: No such file");
	assert_int_equal(settings_load(&s, &err), -1);
	write_file(named, "", 0600);
	assert_int_equal(settings_load_file(&s, named, &found, &err), 0);
	assert_true(found);
}

static void odd_files(void **state)
{
	char *big = malloc(SETTINGS_MAX_BYTES + 2);

	(void)state;
	check_load(dir, "not a regular file");
	assert_int_equal(mkfifo(named, 0600), 0);
	check_load(named, "not a regular file"); /* and no waiting for a writer */
	(void)unlink(named);
	assert_int_equal(symlink("named", named), 0);
	check_load(named, "symbolic links");
	(void)unlink(named);
	assert_int_equal(fd_create_file_at(AT_FDCWD, named, "[limits]\0x", 10, 0600), 0);
	check_load(named, "not a text file");
	assert_non_null(big);
	memset(big, '#', SETTINGS_MAX_BYTES + 1);
	big[SETTINGS_MAX_BYTES + 1] = '\0';
	write_file(named, big, 0600);
	check_load(named, "larger than 1 MiB");
	free(big);
	write_file(named, "[limits]\nx=1\n", 0600);
	check_load(named, ":2: unknown key 'x'");
}

/* Who may write root's settings is root. */
static void root_trusts_root(void **state)
{
	_cleanup_(settings_done) struct settings s;
	struct cay_error err;
	bool found;

	(void)state;
	if (geteuid() != 0)
		CANT_RUN("needs root");
	settings_init(&s);
	write_file(named, "", 0620);
	check_load(named, "others than root may write");
	assert_int_equal(chmod(named, 0602), 0);
	check_load(named, "others than root may write");
	assert_int_equal(chmod(named, 0644), 0);
	assert_int_equal(settings_load_file(&s, named, &found, &err), 0);
	assert_int_equal(chown(named, 1, 0), 0);
	check_load(named, "not owned by root");
	/* Others may keep their settings as they like. */
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(named, 0666), 0);
	assert_int_equal(seteuid(1), 0);
	assert_int_equal(settings_load_file(&s, named, &found, &err), 0);
	assert_int_equal(seteuid(0), 0);
}

#define FILE_TEST(fn) cmocka_unit_test_setup_teardown(fn, clear_env, clear_env)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_key_lands_in_its_field),
		cmocka_unit_test(zero_where_it_is_allowed),
		cmocka_unit_test(later_files_come_on_top),
		cmocka_unit_test(unknown_words_get_a_suggestion),
		cmocka_unit_test(unknown_languages_are_refused),
		cmocka_unit_test(bad_values_say_what_is_expected),
		cmocka_unit_test(versions_are_checked),
		cmocka_unit_test(paths_are_checked),
		cmocka_unit_test(shown_values_read_back),
		cmocka_unit_test(shows_origins),
		cmocka_unit_test(example_is_true),
		FILE_TEST(lists_files),
		FILE_TEST(loads_in_order),
		FILE_TEST(loads_text),
		FILE_TEST(missing_files),
		FILE_TEST(odd_files),
		FILE_TEST(root_trusts_root),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
