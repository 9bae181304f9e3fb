/*
 * python_world.c: what a process is born with, and what CPython makes of it at its start:
 * environment, arguments, signals, names.
 */
#include "warm/python_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/prctl.h>

/* What the zygote itself was started with. */
static struct {
	char *env; /* as in /proc/self/environ */
	size_t env_len;
	char *argv0;
	char *title;     /* argv[0] where the kernel has put it */
	char *timezone;  /* NULL: none */
	char *user_tail; /* of site.USER_SITE, behind site.USER_BASE; NULL: no user's packages */
	bool user_used;  /* the user's packages are in sys.path */
	bool coerced;    /* CPython has set LC_CTYPE: PEP 538 */
	PyOS_sighandler_t interrupt;
	struct prctl_mm_map map;
	PyObject *environ; /* posix.environ */
	PyObject *site;
} born;

/*
 * Variables that a start goes by: CPython's, the C library's, and those that modules look at when
 * they are imported (SETUPTOOLS_: by a .pth file that Debian has; others: numpy and matplotlib).
 */
static bool matters(const char *variable)
{
	static const char *const prefixes[] = {
		"PYTHON",          "LC_ALL=",         "LC_CTYPE=", "LANG=",     "LD_",  "MALLOC_",
		"GLIBC_TUNABLES=", "SETUPTOOLS_",     "MPL",       "OPENBLAS_", "OMP_", "MKL_",
		"DISPLAY=",        "WAYLAND_DISPLAY="};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

/* Whether the zygote was started with a variable that begins so; len with its NUL: with just that.
 */
static bool born_with(const char *variable, size_t len)
{
	const char *end = born.env + born.env_len;

	for (const char *v = born.env; v < end; v += strlen(v) + 1)
		if (strncmp(v, variable, len) == 0)
			return true;
	return false;
}

static const char *value_in(char **env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* All that matters here matters there, and the other way round. */
static bool environment_differs(char **env)
{
	const char *end = born.env + born.env_len;

	for (char **v = env; *v; v++)
		if (matters(*v) && !born_with(*v, strlen(*v) + 1))
			return true;
	for (const char *v = born.env; v < end; v += strlen(v) + 1) {
		char **same = env;

		while (*same && strcmp(*same, v) != 0)
			same++;
		if (matters(v) && !*same)
			return true;
	}
	return false;
}

/* Where site looks for the user's packages: as site._getuserbase(). false: it does not fit. */
static bool user_base(char **env, char *path, size_t size)
{
	const char *home = value_in(env, "HOME");
	int len;

	if (!home || home[0] != '/' || home[strlen(home) - 1] == '/')
		return false;
	len = snprintf(path, size, "%s/.local", home);
	return len > 0 && (size_t)len < size;
}

static bool user_packages_differ(char **env)
{
	char path[PATH_MAX];
	size_t len;

	if (!born.user_tail)
		return false;
	if (born.user_used || !user_base(env, path, sizeof(path)))
		return true;
	len = strlen(path);
	(void)snprintf(path + len, sizeof(path) - len, "%s", born.user_tail);
	return access(path, F_OK) == 0 || errno != ENOENT;
}

bool world_differs(char **argv, char **env)
{
	struct stat st;

	return !argv[0] || strcmp(argv[0], born.argv0) != 0 || environment_differs(env) ||
	       user_packages_differ(env) || (fstat(0, &st) == 0 && S_ISDIR(st.st_mode));
}

/* The addresses that prctl(PR_SET_MM_MAP) wants to have all at once. */
static int remember_map(void)
{
	char text[2048], *p;
	FILE *f = fopen("/proc/self/stat", "re");
	unsigned long long v[53] = {0};
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		(void)fclose(f);
	text[len] = 0;
	p = strrchr(text, ')'); /* field 2 */
	if (!p || p[1] == 0)
		return -1;
	p += 3; /* field 3 is a letter */
	for (int field = 4; field <= 52; field++)
		v[field] = strtoull(p + 1, &p, 10);
	born.map = (struct prctl_mm_map){
		.start_code = v[26],
		.end_code = v[27],
		.start_stack = v[28],
		.start_data = v[45],
		.end_data = v[46],
		.start_brk = v[47],
		.exe_fd = (__u32)-1,
	};
	born.title = (char *)(uintptr_t)v[48];
	return born.title ? 0 : -1;
}

static int remember_environment(void)
{
	static char text[65536];
	FILE *f = fopen("/proc/self/environ", "re");
	const char *tz;

	born.env = text;
	if (!f)
		return -1;
	born.env_len = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	/* More than that is nobody's. */
	if (born.env_len == sizeof(text) - 1)
		return -1;
	born.coerced = getenv("LC_CTYPE") && !born_with("LC_CTYPE=", 9);
	tz = getenv("TZ");
	born.timezone = tz ? strdup(tz) : NULL;
	return 0;
}

/* A string attribute in new memory; NULL where it is none. */
static char *text_attribute(PyObject *of, const char *name)
{
	PyObject *value = PyObject_GetAttrString(of, name), *bytes = NULL;
	char *text = NULL;

	if (value && PyUnicode_Check(value))
		bytes = PyUnicode_EncodeFSDefault(value);
	if (bytes)
		text = strdup(PyBytes_AsString(bytes));
	PyErr_Clear();
	Py_XDECREF(value);
	Py_XDECREF(bytes);
	return text;
}

/* gcc's analyzer takes what was just found to be there for NULL. */
#ifdef CAY_ANALYZE
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wanalyzer-possible-null-argument"
#endif

/* What of text comes behind its beginning; NULL: it begins otherwise. */
static const char *behind(const char *text, const char *beginning)
{
	size_t len = strlen(beginning);

	return strncmp(text, beginning, len) == 0 ? text + len : NULL;
}

static void remember_user(void)
{
	PyObject *site = PyImport_ImportModule("site"), *packages;
	char *base = site ? text_attribute(site, "USER_BASE") : NULL;
	char *all = site ? text_attribute(site, "USER_SITE") : NULL;
	const char *tail = base && all ? behind(all, base) : NULL;

	PyErr_Clear();
	if (tail) {
		born.user_tail = strdup(tail);
		packages = PyObject_GetAttrString(site, "USER_SITE");
		born.user_used = PySequence_Contains(PySys_GetObject("path"), packages) != 0;
		Py_XDECREF(packages);
	}
	free(base);
	free(all);
	born.site = site;
}

int world_remember(void)
{
	PyObject *argv = PySys_GetObject("orig_argv"), *first = NULL;
	PyObject *posix = PyImport_ImportModule("posix");

	if (argv && PyList_Size(argv) > 0)
		first = PyUnicode_EncodeFSDefault(PyList_GetItem(argv, 0));
	if (first)
		born.argv0 = strdup(PyBytes_AsString(first));
	Py_XDECREF(first);
	born.environ = posix ? PyObject_GetAttrString(posix, "environ") : NULL;
	Py_XDECREF(posix);
	if (!born.argv0 || !born.environ || remember_environment() < 0 || remember_map() < 0)
		return -1;
	remember_user();
	born.interrupt = PyOS_getsig(SIGINT);
	return 0;
}

int world_clear(void)
{
	PyDict_Clear(born.environ);
	return PySys_SetObject("argv", Py_None) < 0 || PySys_SetObject("orig_argv", Py_None) < 0
		       ? -1
		       : 0;
}

static PyObject *list_of(char **words)
{
	PyObject *list = PyList_New(0);

	for (; list && *words; words++) {
		PyObject *word = PyUnicode_DecodeFSDefault(*words);

		if (!word || PyList_Append(list, word) < 0)
			Py_CLEAR(list);
		Py_XDECREF(word);
	}
	return list;
}

/* Without the words from one to another index. */
static void set_list(const char *name, char **words, Py_ssize_t from, Py_ssize_t to)
{
	PyObject *list = list_of(words);

	if (!list || PyList_SetSlice(list, from, to, NULL) < 0 || PySys_SetObject(name, list) < 0)
		give_up("no arguments");
	Py_DECREF(list);
}

/* posix.environ is what os.environ is built on; of two with one name the first is seen. */
static void set_environ(PyObject *dict, char **env)
{
	for (; *env; env++) {
		const char *equals = strchr(*env, '=');
		PyObject *name, *value;

		if (!equals)
			continue;
		name = PyBytes_FromStringAndSize(*env, equals - *env);
		value = PyBytes_FromString(equals + 1);
		if (!name || !value ||
		    (!PyDict_GetItemWithError(dict, name) && PyDict_SetItem(dict, name, value) < 0))
			give_up("no environment");
		Py_DECREF(name);
		Py_DECREF(value);
	}
}

static void set_user(char **env)
{
	char base[PATH_MAX], packages[PATH_MAX * 2];
	PyObject *value;

	if (!born.user_tail || !user_base(env, base, sizeof(base)))
		return;
	(void)snprintf(packages, sizeof(packages), "%s%s", base, born.user_tail);
	value = PyUnicode_DecodeFSDefault(base);
	if (!value || PyObject_SetAttrString(born.site, "USER_BASE", value) < 0)
		give_up("no user's packages");
	Py_DECREF(value);
	value = PyUnicode_DecodeFSDefault(packages);
	if (!value || PyObject_SetAttrString(born.site, "USER_SITE", value) < 0)
		give_up("no user's packages");
	Py_DECREF(value);
}

/* glibc's and, where it differs, that of the module time. */
static void set_timezone(char **env)
{
	const char *tz = value_in(env, "TZ");
	PyObject *time;

	if ((!tz && !born.timezone) || (tz && born.timezone && strcmp(tz, born.timezone) == 0))
		return;
	time = PyImport_ImportModule("time");
	if (!time || !ignore(PyObject_CallMethod(time, "tzset", NULL)))
		give_up("no time zone");
	Py_DECREF(time);
}

/* threading, where something at the start has imported it, knows who the main thread is. */
static void set_thread(void)
{
	PyObject *threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
	PyObject *thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;

	if (thread && !ignore(PyObject_CallMethod(thread, "_set_native_id", NULL)))
		give_up("no main thread");
	Py_XDECREF(thread);
}

static size_t bytes_of(char **words)
{
	size_t len = 0;

	for (; *words; words++)
		len += strlen(*words) + 1;
	return len;
}

static char *lay(char *to, char **words)
{
	for (; *words; words++)
		to = stpcpy(to, *words) + 1;
	return to;
}

/*
 * /proc/self/cmdline and environ, for ps and for programs that look. Kernels that were built
 * without CONFIG_CHECKPOINT_RESTORE refuse, and keep the zygote's.
 */
static void set_proc(char **argv, char **env)
{
	char *area = malloc(bytes_of(argv) + bytes_of(env) + 1);
	const char *slash = strrchr(argv[0], '/');
	struct prctl_mm_map map = born.map;

	if (!area)
		give_up("no memory");
	map.arg_start = (__u64)(uintptr_t)area;
	map.arg_end = map.env_start = (__u64)(uintptr_t)lay(area, argv);
	map.env_end = (__u64)(uintptr_t)lay((char *)(uintptr_t)map.arg_end, env);
	map.brk = (__u64)(uintptr_t)sbrk(0);
	(void)prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
	(void)prctl(PR_SET_NAME, slash ? slash + 1 : argv[0]);
	/* The dynamic linker has the program's name from where an island's init has put its own. */
	if (strcmp(born.title, born.argv0) != 0)
		(void)stpcpy(born.title, born.argv0);
}

void world_set(char **argv, char **env)
{
	set_proc(argv, env);
	environ = env;
	/* As CPython does, before it looks at the environment. */
	if (born.coerced && setenv("LC_CTYPE", "C.UTF-8", 1) < 0)
		give_up("no memory");
	set_environ(born.environ, environ);
	set_user(env);
	set_timezone(env);
	set_list("orig_argv", argv, 0, 0);
	/* Of `python3 -c CODE ARGS` programs see "-c" and ARGS. */
	set_list("argv", argv + 1, 1, strcmp(argv[1], "-c") == 0 ? 2 : 1);
	set_thread();
	PyOS_setsig(SIGPIPE, SIG_IGN);
	PyOS_setsig(SIGXFSZ, SIG_IGN);
	PyOS_setsig(SIGINT, born.interrupt);
}

void world_example(char *code)
{
	static char *env[256];
	char *argv[] = {born.argv0, (char *)"-c", code, NULL};
	size_t n = 0;

	for (char *v = born.env; v < born.env + born.env_len && n < 255; v += strlen(v) + 1)
		env[n++] = v;
	python_run(argv, env);
}
