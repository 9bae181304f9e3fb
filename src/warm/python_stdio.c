/*
 * python_stdio.c: sys.stdin, sys.stdout and sys.stderr, made anew: what CPython's create_stdio()
 * does at its start. What they are depends on what the fds are.
 */
#include "warm/python_parts.h"

#include <fcntl.h>

/* Made before the clone as far as possible: what a clone touches it copies. */
static struct stream {
	const char *name, *original, *label, *mode;
	PyObject *encoding, *errors; /* those that the zygote came up with: see world_differs() */
	PyObject *text_label, *text_mode;
} streams[3] = {
	{.name = "stdin", .original = "__stdin__", .label = "<stdin>", .mode = "r"},
	{.name = "stdout", .original = "__stdout__", .label = "<stdout>", .mode = "w"},
	{.name = "stderr", .original = "__stderr__", .label = "<stderr>", .mode = "w"},
};
static PyObject *io_open, *io_text;

int stdio_remember(void)
{
	PyObject *io = PyImport_ImportModule("io");

	io_open = io ? PyObject_GetAttrString(io, "open") : NULL;
	io_text = io ? PyObject_GetAttrString(io, "TextIOWrapper") : NULL;
	Py_XDECREF(io);
	if (!io_open || !io_text)
		return -1;
	for (struct stream *s = streams; s < streams + 3; s++) {
		PyObject *old = PySys_GetObject(s->original);

		s->encoding = old ? PyObject_GetAttrString(old, "encoding") : NULL;
		s->errors = old ? PyObject_GetAttrString(old, "errors") : NULL;
		s->text_label = PyUnicode_FromString(s->label);
		s->text_mode = PyUnicode_FromString(s->mode);
		if (!s->encoding || !s->errors || !s->text_label || !s->text_mode)
			return -1;
	}
	return 0;
}

int stdio_close(void)
{
	for (struct stream *s = streams; s < streams + 3; s++)
		if (PySys_SetObject(s->name, Py_None) < 0 ||
		    PySys_SetObject(s->original, Py_None) < 0)
			return -1;
	return 0;
}

static PyObject *text_of(const struct stream *s, PyObject *binary)
{
	PyObject *raw = PyObject_GetAttrString(binary, "raw"), *text = NULL;
	PyObject *tty = raw ? PyObject_CallMethod(raw, "isatty", NULL) : NULL;

	if (tty && PyObject_SetAttrString(raw, "name", s->text_label) == 0) {
		bool lines = PyObject_IsTrue(tty) == 1 || s == streams + 2;

		text = PyObject_CallFunction(io_text, "OOOsOO", binary, s->encoding, s->errors,
					     "\n", lines ? Py_True : Py_False, Py_False);
		if (text && PyObject_SetAttrString(text, "mode", s->text_mode) < 0)
			Py_CLEAR(text);
	}
	Py_XDECREF(raw);
	Py_XDECREF(tty);
	return text;
}

static PyObject *open_stream(const struct stream *s)
{
	int fd = (int)(s - streams);
	PyObject *binary, *text;

	if (fcntl(fd, F_GETFD) < 0)
		Py_RETURN_NONE;
	binary = PyObject_CallFunction(io_open, "isiOOOO", fd, fd == 0 ? "rb" : "wb", -1, Py_None,
				       Py_None, Py_None, Py_False);
	text = binary ? text_of(s, binary) : NULL;
	Py_XDECREF(binary);
	return text;
}

void stdio_open(void)
{
	for (size_t i = 0; i < 3; i++) {
		PyObject *stream = open_stream(&streams[i]);

		if (!stream || PySys_SetObject(streams[i].original, stream) < 0 ||
		    PySys_SetObject(streams[i].name, stream) < 0)
			give_up("no standard streams");
		end_expect(i, stream);
		Py_DECREF(stream);
	}
}

void stdio_flush(const char *name)
{
	PyObject *stream = PySys_GetObject(name), *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace);
	if (stream)
		(void)ignore(PyObject_CallMethod(stream, "flush", NULL));
	PyErr_Restore(type, value, trace);
}
