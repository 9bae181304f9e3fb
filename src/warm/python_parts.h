/*
 * python_parts.h: what the files of the Python half share; python.c has the theory of operation.
 *
 * One object for CPython 3.9 to 3.13, by the limited API. The few functions declared here are
 * outside of it, but exported with the same signature by all of them.
 */
#pragma once

#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* cpython/compile.h. */
struct compiler_flags {
	int cf_flags;
	int cf_feature_version;
};
#define COMPILE_IGNORE_COOKIE 0x0200 /* PyCF_IGNORE_COOKIE */

/* cpython/pythonrun.h; the last argument is a PyCompilerFlags *. */
PyAPI_FUNC(PyObject *)
	PyRun_FileExFlags(FILE *fp, const char *filename, int start, PyObject *globals,
			  PyObject *locals, int close_it, struct compiler_flags *flags);
PyAPI_FUNC(PyObject *) PyRun_StringFlags(const char *text, int start, PyObject *globals,
					 PyObject *locals, struct compiler_flags *flags);
PyAPI_FUNC(PyObject *) Py_CompileStringObject(const char *text, PyObject *filename, int start,
					      struct compiler_flags *flags, int optimize);

/* python.c: sys.hexversion >> 16, as 0x030b. */
int python_version(void);
/* The value of a call, whose failure is of no interest. */
bool ignore(PyObject *value);
/* Ends the process with a word on fd 2: nothing that a program does leads here. */
__attribute__((noreturn)) void give_up(const char *what);

/* python_run.c */
__attribute__((noreturn)) void python_run(char **argv, char **env);
/* -c with exactly this text is run as this code, with these names. */
int run_remember_driver(PyObject *text, PyObject *code, PyObject *names);

/* python_world.c: what a process is born with. */
int world_remember(void);
void world_example(void); /* runs a small program */
int world_clear(void);    /* of the zygote's own */
bool world_differs(char **argv, char **env);
void world_set(char **argv, char **env);

/* python_stdio.c */
int stdio_remember(void);
int stdio_close(void); /* the zygote's own */
void stdio_open(void);
void stdio_flush(const char *name);

/* python_end.c */
int end_prepare(PyObject *gc);              /* before the first import */
void end_expect(size_t fd, PyObject *text); /* a standard stream of CPython's own */
__attribute__((noreturn)) void end_program(int code, bool interrupted);

/* python_modules.c: boot.py's entries are in sys.modules from their first import on. */
int modules_hide(PyObject *entries);

/* python_pages.c: example, in a clone, ends by pages_note() and _exit(). */
void pages_learn(pid_t (*clone)(void), void (*example)(void));
void pages_note(void);
void pages_ask(void);

/* python_files.c */
int files_remember(PyObject *entries);
bool files_changed(void);
