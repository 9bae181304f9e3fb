/*
 * python_end.c: the end of a program. Py_FinalizeEx() takes an interpreter down, which in a clone
 * copies most of what it touches; but what a program can see of that is only how its own objects
 * end. So where none of them has anything left to do, the process just ends.
 *
 * last() is an exit function that is registered when the program has ended, so it is the first that
 * is called. It calls the others, finds itself among them, and does nothing then. Now threads have
 * been waited for; it writes what sys.stdout holds, and looks at all objects that the collector
 * knows and that were not there before the program (those are frozen). One that has a finalizer (a
 * file, a class with __del__, a generator), or is of a C type that is not known to be harmless, is
 * enough to leave everything to Py_FinalizeEx(), with sys.modules as a cold start would have it.
 */
#include "warm/python_parts.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct {
	int code;
	bool interrupted, called;
	PyObject *function;          /* last() */
	PyObject *exits;             /* the module atexit */
	PyObject *objects;           /* gc.get_objects */
	PyObject *std[9];            /* the standard streams, their buffers and files */
	destructor of_classes;       /* tp_dealloc of what a class statement makes */
	PyTypeObject *harmless[256]; /* types that were judged, by their addresses */
} end;

/* As Py_RunMain(): a shell is to see that its child was interrupted. */
static int exit_code(int code, bool interrupted)
{
	if (!interrupted)
		return code;
	PyOS_setsig(SIGINT, SIG_DFL);
	(void)kill(getpid(), SIGINT);
	return 128 + SIGINT;
}

static bool flushed(PyObject *stream)
{
	PyObject *closed;
	bool shut;

	if (stream == Py_None)
		return true;
	closed = PyObject_GetAttrString(stream, "closed");
	shut = closed && PyObject_IsTrue(closed) == 1;
	Py_XDECREF(closed);
	return shut || ignore(PyObject_CallMethod(stream, "flush", NULL));
}

/* Whether sys.NAME and the original are still what they were, or none, and nothing is held back. */
static bool nothing_held(const char *name, const char *original, PyObject *own)
{
	PyObject *stream = PySys_GetObject(name);

	return own && PySys_GetObject(original) == own &&
	       (!stream || stream == Py_None || stream == own) && flushed(own);
}

/* C types whose objects end without a trace, by the module that they say they are from. */
static bool module_is_harmless(PyTypeObject *type)
{
	static const char *const names[] = {
		"builtins", "types",   "collections",  "itertools",    "functools",
		"operator", "re",      "_sre",         "_functools",   "_abc",
		"_weakref", "weakref", "_contextvars", "decimal",      "datetime",
		"_struct",  "_json",   "json",         "_random",      "_csv",
		"_thread",  "array",   "numpy",        "_collections", "_ast",
		"ast",      "typing",  "_typing",      "importlib",    "_frozen_importlib",
		"enum",     "string",  "_operator",    "contextvars",  "posix",
		"os",
	};
	PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
	bool harmless = false;

	for (size_t i = 0;
	     module && PyUnicode_Check(module) && i < sizeof(names) / sizeof(names[0]); i++)
		harmless = harmless || PyUnicode_CompareWithASCIIString(module, names[i]) == 0;
	PyErr_Clear();
	Py_XDECREF(module);
	return harmless;
}

/* What a class made by a class statement does at its end is __del__, or what its C base does. */
static bool type_is_harmless(PyTypeObject *type)
{
	size_t slot = ((uintptr_t)type >> 5) % (sizeof(end.harmless) / sizeof(end.harmless[0]));
	PyTypeObject *base = type;

	if (end.harmless[slot] == type)
		return true;
	if (PyType_GetSlot(type, Py_tp_finalize) || PyType_GetSlot(type, Py_tp_del))
		return false;
	while (base && (destructor)PyType_GetSlot(base, Py_tp_dealloc) == end.of_classes)
		base = PyType_GetSlot(base, Py_tp_base);
	if (!base || !module_is_harmless(base))
		return false;
	end.harmless[slot] = type;
	return true;
}

static bool is_standard(PyObject *object)
{
	for (size_t i = 0; i < sizeof(end.std) / sizeof(end.std[0]); i++)
		if (end.std[i] == object)
			return true;
	return false;
}

/* A weak reference is harmless but for what it calls. */
static bool calls_back(PyObject *reference)
{
	PyObject *callback = PyObject_GetAttrString(reference, "__callback__");
	bool calls = callback && callback != Py_None && !PyCFunction_Check(callback);

	PyErr_Clear();
	Py_XDECREF(callback);
	return calls;
}

static bool is_harmless(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	if (is_standard(object))
		return true;
	if (!type_is_harmless(type) || (PyWeakref_Check(object) && calls_back(object)))
		return false;
	/* Objects that the collector does not know are of classes that it knows. */
	return !PyType_Check(object) || !PyType_GetSlot((PyTypeObject *)object, Py_tp_finalize);
}

static bool nothing_left(void)
{
	PyObject *objects = PyObject_CallFunction(end.objects, NULL);
	Py_ssize_t n = objects ? PyList_Size(objects) : 0, i = 0;

	while (i < n && is_harmless(PyList_GetItem(objects, i)))
		i++;
	PyErr_Clear();
	Py_XDECREF(objects);
	return objects && i == n;
}

static PyObject *last(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	if (end.called)
		Py_RETURN_NONE;
	end.called = true;
	(void)ignore(PyObject_CallMethod(end.exits, "_run_exitfuncs", NULL));
	if (nothing_held("stdout", "__stdout__", end.std[3]) &&
	    nothing_held("stderr", "__stderr__", end.std[6]) && nothing_left()) {
		(void)fflush(NULL);
		pages_note();
		_exit(exit_code(end.code, end.interrupted));
	}
	Py_RETURN_NONE;
}

void end_expect(size_t fd, PyObject *text)
{
	PyObject *binary = PyObject_GetAttrString(text, "buffer");
	PyObject *raw = binary ? PyObject_GetAttrString(binary, "raw") : NULL;

	PyErr_Clear();
	end.std[3 * fd] = text;
	end.std[3 * fd + 1] = binary;
	end.std[3 * fd + 2] = raw;
	Py_XDECREF(binary);
	Py_XDECREF(raw);
}

int end_prepare(PyObject *gc)
{
	static PyMethodDef method = {"last", last, METH_NOARGS, NULL};
	PyObject *class = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "C");

	end.exits = PyImport_ImportModule("atexit");
	end.function = PyCFunction_New(&method, NULL);
	end.objects = PyObject_GetAttrString(gc, "get_objects");
	if (class)
		end.of_classes = (destructor)PyType_GetSlot((PyTypeObject *)class, Py_tp_dealloc);
	Py_XDECREF(class);
	return end.exits && end.function && end.objects && end.of_classes ? 0 : -1;
}

void end_program(int code, bool interrupted)
{
	PyObject *type, *value, *trace;

	end.code = code;
	end.interrupted = interrupted;
	PyErr_Fetch(&type, &value, &trace);
	(void)ignore(PyObject_CallMethod(end.exits, "register", "O", end.function));
	PyErr_Restore(type, value, trace);
	if (Py_FinalizeEx() < 0)
		code = 120;
	exit(exit_code(code, interrupted));
}
