/*
 * python_end.c: the end of a program. Py_FinalizeEx() does it, so that threads, exit functions,
 * finalizers and buffers come when they would; but it shall neither take down what was there before
 * the program nor copy it in doing so.
 *
 * last() is the first exit function that is registered, so the last that is called. It takes what
 * the zygote had loaded out of sys.modules, to which Py_FinalizeEx() goes next; references are
 * kept. When all modules are gone and nothing of the program's can run any more, the interpreter's
 * own state follows, and with it leave()'s capsule, by which the process ends.
 */
#include "warm/python_parts.h"

#include <signal.h>
#include <unistd.h>

static struct {
	PyObject *kept; /* name: module, as they were before the program */
	int code;
	bool interrupted, known;
} end;

/* As Py_RunMain(): whoever interrupted a shell's child should see that. */
static int exit_code(int code, bool interrupted)
{
	if (!interrupted)
		return code;
	PyOS_setsig(SIGINT, SIG_DFL);
	(void)kill(getpid(), SIGINT);
	return 128 + SIGINT;
}

static void leave(PyObject *capsule)
{
	(void)capsule;
	(void)fflush(NULL);
	_exit(exit_code(end.code, end.interrupted));
}

/* Whether sys.NAME is of CPython's own kind, or none, and holds nothing that can't be written. */
static bool flushed(PyObject *wrapper, const char *name)
{
	PyObject *stream = PySys_GetObject(name), *closed;
	bool shut;

	if (!stream || stream == Py_None)
		return true;
	if ((PyObject *)Py_TYPE(stream) != wrapper)
		return false;
	closed = PyObject_GetAttrString(stream, "closed");
	shut = closed && PyObject_IsTrue(closed) == 1;
	Py_XDECREF(closed);
	return shut || ignore(PyObject_CallMethod(stream, "flush", NULL));
}

static void arrange_leave(void)
{
	PyObject *io = PyImport_ImportModule("io");
	PyObject *wrapper = io ? PyObject_GetAttrString(io, "TextIOWrapper") : NULL;
	PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());

	/* Otherwise Py_FinalizeEx() has to say how it ended. */
	if (wrapper && dict && flushed(wrapper, "stdout") && flushed(wrapper, "stderr")) {
		PyObject *capsule = PyCapsule_New(&end, NULL, leave);

		if (capsule)
			(void)PyDict_SetItemString(dict, "_cay_warm", capsule);
		Py_XDECREF(capsule);
	}
	PyErr_Clear();
	Py_XDECREF(io);
	Py_XDECREF(wrapper);
}

static void hide_modules(void)
{
	PyObject *modules = PyImport_GetModuleDict(), *name, *module;
	Py_ssize_t at = 0;

	while (end.kept && PyDict_Next(end.kept, &at, &name, &module))
		if (PyDict_GetItemWithError(modules, name) == module)
			(void)PyDict_DelItem(modules, name);
	PyErr_Clear();
	modules_take();
}

static PyObject *last(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (end.known)
		arrange_leave();
	hide_modules();
	Py_RETURN_NONE;
}

int end_prepare(void)
{
	static PyMethodDef method = {"last", last, METH_NOARGS, NULL};
	PyObject *atexit = PyImport_ImportModule("atexit"),
		 *function = PyCFunction_New(&method, NULL);
	bool good = atexit && function &&
		    ignore(PyObject_CallMethod(atexit, "register", "O", function));

	Py_XDECREF(atexit);
	Py_XDECREF(function);
	return good ? 0 : -1;
}

int end_remember(void)
{
	end.kept = PyDict_Copy(PyImport_GetModuleDict());
	if (!end.kept)
		return -1;
	/* The program's own, and what Py_FinalizeEx() has a way of its own for. */
	if (PyDict_DelItemString(end.kept, "__main__") < 0 ||
	    PyDict_DelItemString(end.kept, "builtins") < 0 ||
	    PyDict_DelItemString(end.kept, "sys") < 0)
		return -1;
	return 0;
}

void end_program(int code, bool interrupted)
{
	end.code = code;
	end.interrupted = interrupted;
	end.known = true;
	if (Py_FinalizeEx() < 0)
		code = 120;
	exit(exit_code(code, interrupted));
}
