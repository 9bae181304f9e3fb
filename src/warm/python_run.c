/*
 * python_run.c: a program, from its argv to its exit code, as CPython's Modules/main.c and
 * Python/pythonrun.c have it: `python3 -c CODE ARGS` and `python3 FILE ARGS`, where FILE is
 * Python's source. Everything else is executed.
 */
#include "warm/python_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The driver of contexts, which is compiled already: boot.py. */
static struct {
	char *text; /* as it is given with -c; NULL: there is none */
	PyObject *code, *names;
} driver;

int run_remember_driver(PyObject *text, PyObject *code, PyObject *names)
{
	PyObject *bytes = PyUnicode_EncodeFSDefault(text);
	const char *given = bytes ? PyBytes_AsString(bytes) : NULL;

	driver.text = given ? strdup(given) : NULL;
	Py_XDECREF(bytes);
	if (!driver.text)
		return -1;
	Py_INCREF(code);
	Py_INCREF(names);
	driver.code = code;
	driver.names = names;
	return 0;
}

/* What to run, when it is known that it can be run here. */
struct program {
	bool is_driver;
	char *code; /* NULL: a file */
	FILE *file;
	char path[PATH_MAX];      /* __file__ */
	char directory[PATH_MAX]; /* sys.path[0] */
};

/* The end of a zip archive, or of what may be one. */
static bool may_be_zip(int fd, off_t size)
{
	enum { LONGEST = 22 + 65535 };
	static char tail[LONGEST];
	off_t from = size > LONGEST ? size - LONGEST : 0;
	ssize_t len = pread(fd, tail, LONGEST, from);

	return len < 0 || memmem(tail, (size_t)len, "PK\5\6", 4) != NULL;
}

static bool may_be_bytecode(int fd, const char *path)
{
	unsigned char magic[2];
	long ours = PyImport_GetMagicNumber();
	const char *dot = strrchr(path, '.');

	if (dot && strcmp(dot, ".pyc") == 0)
		return true;
	return pread(fd, magic, 2, 0) == 2 && magic[0] == (ours & 0xff) &&
	       magic[1] == ((ours >> 8) & 0xff);
}

/* The path as it was given, behind the directory that it was given in. */
static bool absolute(const char *path, char *to, size_t size)
{
	size_t len = 0;

	if (path[0] != '/') {
		if (!getcwd(to, size))
			return false;
		len = strlen(to);
		if (len + 1 < size)
			to[len++] = '/';
	}
	if (len + strlen(path) >= size)
		return false;
	memcpy(to + len, path, strlen(path) + 1);
	return true;
}

static bool find_file(const char *path, struct program *p)
{
	struct stat st;
	char *slash;

	if (!absolute(path, p->path, sizeof(p->path)) || !realpath(path, p->directory))
		return false;
	slash = strrchr(p->directory, '/');
	slash[slash == p->directory] = 0;
	p->file = fopen(p->path, "rbe");
	if (!p->file)
		return false;
	if (fstat(fileno(p->file), &st) == 0 && S_ISREG(st.st_mode) &&
	    !may_be_zip(fileno(p->file), st.st_size) && !may_be_bytecode(fileno(p->file), p->path))
		return true;
	(void)fclose(p->file);
	return false;
}

/* The code as CPython takes it: UTF-8, with a line's end. */
static bool find_code(const char *text, struct program *p)
{
	PyObject *string = PyUnicode_DecodeFSDefault(text);
	PyObject *bytes = string ? PyUnicode_AsUTF8String(string) : NULL;

	if (bytes && asprintf(&p->code, "%s\n", PyBytes_AsString(bytes)) < 0)
		p->code = NULL;
	PyErr_Clear();
	Py_XDECREF(string);
	Py_XDECREF(bytes);
	return p->code != NULL;
}

static bool find_program(char **argv, struct program *p)
{
	if (!argv[0] || !argv[1])
		return false;
	p->is_driver = strcmp(argv[1], "-c") == 0 && argv[2] && driver.text &&
		       strcmp(argv[2], driver.text) == 0;
	if (strcmp(argv[1], "-c") == 0)
		return argv[2] && find_code(argv[2], p);
	return argv[1][0] != '-' && argv[1][0] != 0 && find_file(argv[1], p);
}

/* linecache knows the lines of -c since 3.13, so that tracebacks show them. */
static PyObject *register_lines(PyObject *code, PyObject *name, const char *text)
{
	PyObject *linecache = PyImport_ImportModule("linecache"), *done = NULL, *finder = NULL;
	char here[PATH_MAX];

	/* The search for it comes by the program's directory, and leaves a finder there. */
	if (getcwd(here, sizeof(here)))
		finder = PyUnicode_DecodeFSDefault(here);
	if (finder)
		(void)ignore(PyImport_GetImporter(finder));
	Py_XDECREF(finder);

	if (linecache)
		done = PyObject_CallMethod(
			linecache, "_register_code", "OsO",
			PyObject_HasAttrString(linecache, "_interactive_cache") ? code : name, text,
			name);
	Py_XDECREF(linecache);
	return done;
}

static PyObject *run_code(const char *text, PyObject *dict)
{
	struct compiler_flags flags = {COMPILE_IGNORE_COOKIE, python_version() & 0xff};
	PyObject *name, *code, *lines, *value = NULL;

	if (python_version() < 0x030d)
		return PyRun_StringFlags(text, Py_file_input, dict, dict, &flags);
	name = PyUnicode_FromString("<string>");
	code = name ? Py_CompileStringObject(text, name, Py_file_input, &flags, -1) : NULL;
	lines = code ? register_lines(code, name, text) : NULL;
	if (lines)
		value = PyEval_EvalCode(code, dict, dict);
	Py_XDECREF(name);
	Py_XDECREF(code);
	Py_XDECREF(lines);
	return value;
}

/* Names in __main__ that only files have. */
static void set_main(PyObject *dict, const char *path)
{
	PyObject *name = PyUnicode_DecodeFSDefault(path);
	PyObject *external = PyImport_ImportModule("_frozen_importlib_external"), *loader = NULL;

	if (name && external)
		loader = PyObject_CallMethod(external, "SourceFileLoader", "sO", "__main__", name);
	if (!loader || PyDict_SetItemString(dict, "__file__", name) < 0 ||
	    PyDict_SetItemString(dict, "__cached__", Py_None) < 0 ||
	    PyDict_SetItemString(dict, "__loader__", loader) < 0)
		give_up("no __main__");
	Py_DECREF(name);
	Py_DECREF(external);
	Py_DECREF(loader);
}

static void unset_main(PyObject *dict)
{
	if (PyDict_DelItemString(dict, "__file__") < 0)
		PyErr_Clear();
	if (PyDict_DelItemString(dict, "__cached__") < 0)
		PyErr_Clear();
}

static PyObject *run_file(struct program *p, PyObject *dict)
{
	struct compiler_flags flags = {0, python_version() & 0xff};
	PyObject *value;

	set_main(dict, p->path);
	value = PyRun_FileExFlags(p->file, p->path, Py_file_input, dict, dict, 1, &flags);
	stdio_flush("stderr");
	stdio_flush("stdout");
	return value;
}

/* sys.path[0], and what looking at FILE as a place for modules leaves. */
static void set_path(struct program *p)
{
	PyObject *path = PySys_GetObject("path"), *first;
	PyObject *importers = PySys_GetObject("path_importer_cache");
	PyObject *file;

	if (p->code)
		return;
	first = PyUnicode_DecodeFSDefault(p->directory);
	file = PyUnicode_DecodeFSDefault(p->path);
	if (!path || !importers || !first || !file || PyList_SetItem(path, 0, first) < 0 ||
	    PyDict_SetItem(importers, file, Py_None) < 0)
		give_up("no path");
	Py_DECREF(file);
}

static void print_exit(PyObject *value)
{
	PyObject *err = PySys_GetObject("stderr"), *bytes = NULL, *text;

	if (err && err != Py_None) {
		(void)PyFile_WriteObject(value, err, Py_PRINT_RAW);
	} else {
		text = PyObject_Str(value);
		bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
		if (bytes)
			(void)fputs(PyBytes_AsString(bytes), stderr);
		Py_XDECREF(text);
		Py_XDECREF(bytes);
	}
	PySys_WriteStderr("\n");
}

/* SystemExit's code, printed where it is not a number. Takes the exception. */
static int system_exit(void)
{
	PyObject *type, *value, *trace, *code;
	int n = 0;

	(void)fflush(stdout);
	PyErr_Fetch(&type, &value, &trace);
	if (value && PyExceptionInstance_Check(value)) {
		code = PyObject_GetAttrString(value, "code");
		if (code) {
			Py_DECREF(value);
			value = code;
		}
	}
	PyErr_Clear();
	if (value && PyLong_Check(value)) {
		n = (int)PyLong_AsLong(value);
	} else if (value && value != Py_None) {
		print_exit(value);
		n = 1;
	}
	/* Too large a number, or a failure to print: spoken of by Py_FinalizeEx() since 3.12. */
	if (python_version() < 0x030c)
		PyErr_Clear();
	Py_XDECREF(value);
	Py_XDECREF(type);
	Py_XDECREF(trace);
	return n;
}

static __attribute__((noreturn)) void conclude(PyObject *value, PyObject *dict, bool file)
{
	bool interrupted = !value && PyErr_Occurred() == PyExc_KeyboardInterrupt;

	if (!value && PyErr_ExceptionMatches(PyExc_SystemExit))
		end_program(system_exit(), false);
	if (!value)
		PyErr_Print();
	if (file)
		unset_main(dict);
	Py_XDECREF(value);
	end_program(value ? 0 : 1, interrupted);
}

void python_run(char **argv, char **env)
{
	struct program p = {0};
	PyObject *modules = PyImport_GetModuleDict(), *module, *dict;

	if (world_differs(argv, env) || !find_program(argv, &p)) {
		(void)execve(argv[0], argv, env);
		give_up("can't execute the interpreter");
	}
	pages_ask();
	world_set(argv, env);
	stdio_open();
	set_path(&p);
	module = PyDict_GetItemString(modules, "__main__");
	dict = module ? PyModule_GetDict(module) : NULL;
	if (!dict)
		give_up("no __main__");
	if (p.is_driver)
		conclude(PyEval_EvalCode(driver.code, driver.names, driver.names), dict, false);
	conclude(p.code ? run_code(p.code, dict) : run_file(&p, dict), dict, !p.code);
}
