/*
 * python_stdio.c: sys.stdin, sys.stdout and sys.stderr, made anew: what CPython's create_stdio()
 * does at its start. What they are depends on what the fds are.
 */
#include "warm/python_parts.h"

#include <fcntl.h>

struct stream {
	int fd;
	const char *name, *original, *label, *mode;
};

/* Encoding and errors are those that the zygote came up with: world_differs() has seen to that. */
static PyObject *text_of(PyObject *io, const struct stream *s, PyObject *binary, PyObject *old)
{
	PyObject *raw = PyObject_GetAttrString(binary, "raw"), *text = NULL;
	PyObject *encoding = PyObject_GetAttrString(old, "encoding");
	PyObject *errors = PyObject_GetAttrString(old, "errors");
	PyObject *label = PyUnicode_FromString(s->label), *mode = PyUnicode_FromString(s->mode);
	PyObject *tty = raw ? PyObject_CallMethod(raw, "isatty", NULL) : NULL;

	if (tty && encoding && errors && label && mode &&
	    PyObject_SetAttrString(raw, "name", label) == 0) {
		bool lines = PyObject_IsTrue(tty) == 1 || s->fd == 2;

		text = PyObject_CallMethod(io, "TextIOWrapper", "OOOsOO", binary, encoding, errors,
					   "\n", lines ? Py_True : Py_False, Py_False);
		if (text && PyObject_SetAttrString(text, "mode", mode) < 0)
			Py_CLEAR(text);
	}
	Py_XDECREF(raw);
	Py_XDECREF(encoding);
	Py_XDECREF(errors);
	Py_XDECREF(label);
	Py_XDECREF(mode);
	Py_XDECREF(tty);
	return text;
}

static PyObject *open_stream(PyObject *io, const struct stream *s)
{
	PyObject *old = PySys_GetObject(s->original), *binary, *text;

	if (fcntl(s->fd, F_GETFD) < 0)
		Py_RETURN_NONE;
	binary = PyObject_CallMethod(io, "open", "isiOOOO", s->fd, s->fd == 0 ? "rb" : "wb", -1,
				     Py_None, Py_None, Py_None, Py_False);
	text = binary && old ? text_of(io, s, binary, old) : NULL;
	Py_XDECREF(binary);
	return text;
}

void stdio_open(void)
{
	static const struct stream streams[] = {
		{0, "stdin", "__stdin__", "<stdin>", "r"},
		{1, "stdout", "__stdout__", "<stdout>", "w"},
		{2, "stderr", "__stderr__", "<stderr>", "w"},
	};
	PyObject *io = PyImport_ImportModule("io");

	if (!io)
		give_up("no io");
	for (size_t i = 0; i < 3; i++) {
		PyObject *stream = open_stream(io, &streams[i]);

		if (!stream || PySys_SetObject(streams[i].name, stream) < 0 ||
		    PySys_SetObject(streams[i].original, stream) < 0)
			give_up("no standard streams");
		end_expect(i, stream);
		Py_DECREF(stream);
	}
	Py_DECREF(io);
}

void stdio_flush(const char *name)
{
	PyObject *stream = PySys_GetObject(name), *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace);
	if (stream)
		(void)ignore(PyObject_CallMethod(stream, "flush", NULL));
	PyErr_Restore(type, value, trace);
}
