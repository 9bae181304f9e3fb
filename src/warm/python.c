/*
 * python.c: the Python half of a zygote: the extension module `_cay_warm`.
 *
 * Theory of operation
 *
 * The launcher starts `python3 -c BOOT DRIVER MODULE...` (boot.py) with a socket as fd 0 and this
 * object as fd 1. BOOT loads it, imports the modules, makes serve() the excepthook, and fails. So
 * CPython takes BOOT's frame down and calls serve() from C, with no frame at all and an interpreter
 * that is whole. In there the process waits (zygote_serve(), the engine's half), is cloned, and the
 * clone becomes the program's process by python_run(): code runs with nothing below it, as in a
 * cold start.
 *
 * What a cold start does between exec and the program's first line, a clone makes up for:
 *
 *   python_world.c   environment, argv, TZ, names in /proc, signals, sys.path[0]
 *   python_stdio.c   sys.stdin, stdout and stderr
 *   python_run.c     finding, compiling and running the program, and what becomes of exceptions
 *   python_modules.c modules that are there already, but not imported yet
 *   python_end.c     the end, without taking down what was there before the program
 *   python_pages.c   memory that every program writes to
 *   python_files.c   whether what was loaded is still what would be loaded
 *
 * A start that would come out otherwise than in this zygote, because of the environment, options or
 * the kind of file, is executed instead: python_run() asks world_differs() before it changes
 * anything.
 *
 * What stays shared by all programs of a zygote: the seed of hash(), addresses, and which modules
 * are loaded (sys.modules); gc.get_freeze_count() is not 0.
 */
#include "warm/interpreter.h"
#include "warm/python_parts.h"

#include <fcntl.h>
#include <unistd.h>

/* Imported before the others, so that it is hidden like them. */
static PyObject *gc;

int python_version(void)
{
	static int version;

	if (!version)
		version = (int)(PyLong_AsLong(PySys_GetObject("hexversion")) >> 16);
	return version;
}

bool ignore(PyObject *value)
{
	bool good = value != NULL;

	if (!good)
		PyErr_Clear();
	Py_XDECREF(value);
	return good;
}

void give_up(const char *what)
{
	(void)dprintf(2, "zygote: %s\n", what);
	_exit(255);
}

static pid_t python_fork(void)
{
	pid_t pid;

	PyOS_BeforeFork();
	pid = fork();
	if (pid == 0)
		PyOS_AfterFork_Child();
	else
		PyOS_AfterFork_Parent();
	return pid;
}

/* __main__ as an interpreter has it before it knows what to run. */
static int fresh_main(void)
{
	PyObject *module = PyModule_New("__main__"),
		 *dict = module ? PyModule_GetDict(module) : NULL;
	PyObject *builtins = PyImport_ImportModule("builtins");
	PyObject *importlib = PyImport_ImportModule("_frozen_importlib");
	PyObject *loader = importlib ? PyObject_GetAttrString(importlib, "BuiltinImporter") : NULL;
	PyObject *annotations = PyDict_New();
	int r = -1;

	if (dict && builtins && loader && annotations &&
	    PyDict_SetItemString(dict, "__annotations__", annotations) == 0 &&
	    PyDict_SetItemString(dict, "__builtins__", builtins) == 0 &&
	    PyDict_SetItemString(dict, "__loader__", loader) == 0)
		r = PyDict_SetItemString(PyImport_GetModuleDict(), "__main__", module);
	Py_XDECREF(module);
	Py_XDECREF(builtins);
	Py_XDECREF(importlib);
	Py_XDECREF(loader);
	Py_XDECREF(annotations);
	return r;
}

/* What PyErr_Print() left of the exception that led here. */
static void forget_exception(void)
{
	static const char *const names[] = {"last_type", "last_value", "last_traceback",
					    "last_exc"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (PySys_SetObject(names[i], NULL) < 0)
			PyErr_Clear();
	(void)PySys_SetObject("excepthook", PySys_GetObject("__excepthook__"));
}

static int take_socket(void)
{
	int sock = fcntl(0, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (sock < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		give_up("no socket");
	(void)close(null);
	return sock;
}

/* Collections of a clone shall not walk, and so copy, what was there before. */
static int freeze(void)
{
	return ignore(PyObject_CallMethod(gc, "collect", NULL)) &&
			       ignore(PyObject_CallMethod(gc, "freeze", NULL))
		       ? 0
		       : -1;
}

/* sys.excepthook: called by CPython when BOOT has ended by an exception. */
static PyObject *serve(PyObject *self, PyObject *args)
{
	static const struct interpreter python = {
		.fork = python_fork,
		.run = python_run,
		.stale = files_changed,
	};
	int sock = take_socket();

	(void)self;
	(void)args;
	/* The call of this function counts as a level of recursion, which a cold start has not. */
	Py_LeaveRecursiveCall();
	forget_exception();
	/* __main__ last: what is frozen is never collected, and the program's own is to be. */
	if (world_clear() < 0 || stdio_close() < 0 || freeze() < 0 || fresh_main() < 0)
		give_up("not ready");
	pages_learn(python_fork, world_example);
	zygote_serve(sock, &python);
}

/* Before anything is imported. */
static PyObject *prepare(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	gc = PyImport_ImportModule("gc");
	if (!gc || world_remember() < 0 || stdio_remember() < 0 || end_prepare(gc) < 0)
		return PyErr_Format(PyExc_OSError, "not prepared");
	Py_RETURN_NONE;
}

static PyObject *hide(PyObject *self, PyObject *entries)
{
	(void)self;
	if (modules_hide(entries) < 0 || files_remember(entries) < 0)
		return PyErr_Format(PyExc_OSError, "not hidden");
	Py_RETURN_NONE;
}

/* (text, code, names): what the driver of contexts is when it has been compiled. */
static PyObject *drive(PyObject *self, PyObject *args)
{
	PyObject *text, *code, *names;

	(void)self;
	if (!PyArg_ParseTuple(args, "OOO", &text, &code, &names) ||
	    run_remember_driver(text, code, names) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"drive", drive, METH_VARARGS, NULL},
	{"hide", hide, METH_O, NULL},
	{"prepare", prepare, METH_NOARGS, NULL},
	{"serve", serve, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_cay_warm",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__cay_warm(void);
PyMODINIT_FUNC PyInit__cay_warm(void)
{
	return PyModuleDef_Init(&definition);
}
