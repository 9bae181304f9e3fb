/*
 * python_files.c: whether what was loaded is still what a cold start would load: the files of all
 * modules, what is mapped (the interpreter and its libraries), and the directories in which modules
 * and .pth files are looked for.
 */
#include "warm/python_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct file {
	char *path;
	struct stat st; /* all 0: not there */
};

static struct {
	struct file *file;
	size_t count, space;
	time_t looked;
	bool changed;
} files;

static void look(const char *path, struct stat *st)
{
	if (stat(path, st) < 0)
		*st = (struct stat){0};
}

static int add(const char *path)
{
	struct file *f;

	for (size_t i = 0; i < files.count; i++)
		if (strcmp(files.file[i].path, path) == 0)
			return 0;
	if (files.count == files.space) {
		size_t space = files.space * 2 + 256;
		struct file *more = realloc(files.file, space * sizeof(*more));

		if (!more)
			return -1;
		files.file = more;
		files.space = space;
	}
	f = &files.file[files.count];
	f->path = strdup(path);
	if (!f->path)
		return -1;
	look(path, &f->st);
	files.count++;
	return 0;
}

static int add_object(PyObject *path)
{
	PyObject *bytes = path && PyUnicode_Check(path) ? PyUnicode_EncodeFSDefault(path) : NULL;
	int r = 0;

	if (bytes && PyBytes_AsString(bytes)[0] == '/')
		r = add(PyBytes_AsString(bytes));
	PyErr_Clear();
	Py_XDECREF(bytes);
	return r;
}

/* Values of a dict: modules, or tuples that begin with one. */
static int add_modules(PyObject *from)
{
	PyObject *name, *module;
	Py_ssize_t at = 0;

	while (PyDict_Next(from, &at, &name, &module)) {
		PyObject *dict;

		if (PyTuple_Check(module))
			module = PyTuple_GetItem(module, 0);
		dict = PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
		if (dict && add_object(PyDict_GetItemString(dict, "__file__")) < 0)
			return -1;
	}
	return 0;
}

static int add_directories(void)
{
	PyObject *path = PySys_GetObject("path");

	for (Py_ssize_t i = 0; path && i < PyList_Size(path); i++)
		if (add_object(PyList_GetItem(path, i)) < 0)
			return -1;
	return 0;
}

/* The launcher's object among them: its path is not seen from here, which is not a change. */
static int add_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t size = 0;
	int r = maps ? 0 : -1;

	while (r == 0 && getline(&line, &size, maps) > 0) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = 0;
		if (path)
			r = add(path);
	}
	free(line);
	if (maps)
		(void)fclose(maps);
	return r;
}

int files_remember(PyObject *entries)
{
	return add_modules(PyImport_GetModuleDict()) < 0 || add_modules(entries) < 0 ||
			       add_directories() < 0 || add_mapped() < 0
		       ? -1
		       : 0;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool files_changed(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (files.changed || now.tv_sec == files.looked)
		return files.changed;
	files.looked = now.tv_sec;
	for (size_t i = 0; i < files.count && !files.changed; i++) {
		struct stat st;

		look(files.file[i].path, &st);
		files.changed = !same(&st, &files.file[i].st);
	}
	return files.changed;
}
