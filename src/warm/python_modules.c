/*
 * python_modules.c: modules that the zygote has loaded, and a program has not imported. They are
 * not in sys.modules; when a program imports one for the first time, it is put there together with
 * what its own code had imported, in the order of a cold start, and calls that it had made to
 * change something outside of itself (exit functions, warning filters) are made.
 *
 * A module is given only where the import would have led to the same file: that no directory that
 * is looked at earlier has something of its name, or of the name of what it needs, and that nobody
 * has changed how modules are found. Otherwise it is loaded as ever.
 *
 * All of this is in importlib's _find_and_load(), which CPython calls for what is not in
 * sys.modules.
 */
#include "warm/python_parts.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* boot.py's entry(). */
enum { MODULE, PARENT, BOUND_AS, NEEDS, ACTIONS, DIRECTORY };

static struct {
	PyObject *entries;                /* name: entry; never changed */
	PyObject *waiting;                /* names of those that no program has imported */
	PyObject *original;               /* _find_and_load */
	PyObject *known;                  /* directory of sys.path: when it had changed */
	PyObject *meta_path, *path_hooks; /* as they were, as tuples */
} modules;

/* A directory's names, up to their first dot. */
static struct {
	PyObject *path, *names;
	struct timespec changed;
} listed;

static bool same_items(const char *name, PyObject *as)
{
	PyObject *list = PySys_GetObject(name);

	if (!list || !PyList_Check(list) || PyList_Size(list) != PyTuple_Size(as))
		return false;
	for (Py_ssize_t i = 0; i < PyTuple_Size(as); i++)
		if (PyList_GetItem(list, i) != PyTuple_GetItem(as, i))
			return false;
	return true;
}

/* Directories that are as they were when the modules were found. */
static bool is_known(PyObject *path, const struct stat *st)
{
	PyObject *changed = PyDict_GetItemWithError(modules.known, path);

	return changed && memcmp(PyBytes_AsString(changed), &st->st_mtim, sizeof(st->st_mtim)) == 0;
}

static int know_directories(void)
{
	PyObject *path = PySys_GetObject("path");

	modules.known = PyDict_New();
	for (Py_ssize_t i = 1; modules.known && path && i < PyList_Size(path); i++) {
		PyObject *place = PyList_GetItem(path, i),
			 *bytes = PyUnicode_EncodeFSDefault(place);
		PyObject *changed = NULL;
		struct stat st;

		if (bytes && stat(PyBytes_AsString(bytes), &st) == 0)
			changed =
				PyBytes_FromStringAndSize((char *)&st.st_mtim, sizeof(st.st_mtim));
		if (changed && PyDict_SetItem(modules.known, place, changed) < 0)
			Py_CLEAR(modules.known);
		Py_XDECREF(bytes);
		Py_XDECREF(changed);
	}
	PyErr_Clear();
	return modules.known ? 0 : -1;
}

/* -1: can't be told; 0: nothing that matters there; 1: listed has it. */
static int list(PyObject *path)
{
	PyObject *bytes = PyUnicode_Check(path) ? PyUnicode_EncodeFSDefault(path) : NULL;
	const char *text = bytes ? PyBytes_AsString(bytes) : NULL;
	PyObject *names = NULL;
	struct dirent *e;
	struct stat st;
	DIR *dir = NULL;
	int r = -1;

	if (!text)
		goto done;
	if (!*text)
		text = ".";
	if (stat(text, &st) < 0) {
		r = errno == ENOENT || errno == ENOTDIR ? 0 : -1;
		goto done;
	}
	if (is_known(path, &st)) {
		r = 0;
		goto done;
	}
	r = 1;
	if (listed.path && PyUnicode_Compare(path, listed.path) == 0 &&
	    memcmp(&listed.changed, &st.st_mtim, sizeof(st.st_mtim)) == 0)
		goto done;
	r = -1;
	dir = opendir(text);
	names = dir ? PySet_New(NULL) : NULL;
	while (names && (e = readdir(dir))) {
		PyObject *name = PyUnicode_DecodeFSDefaultAndSize(
			e->d_name, (Py_ssize_t)strcspn(e->d_name, "."));

		if (!name || PySet_Add(names, name) < 0)
			Py_CLEAR(names);
		Py_XDECREF(name);
	}
	if (!names)
		goto done;
	Py_XDECREF(listed.names);
	Py_XDECREF(listed.path);
	Py_INCREF(path);
	listed.names = names;
	listed.path = path;
	listed.changed = st.st_mtim;
	r = 1;
done:
	if (dir)
		(void)closedir(dir);
	Py_XDECREF(bytes);
	return r;
}

/* Whether the search for a module comes to its directory without finding another one. */
static bool found_first(PyObject *name, PyObject *directory)
{
	PyObject *path = PySys_GetObject("path");

	if (directory == Py_None)
		return true;
	if (!path || !PyList_Check(path))
		return false;
	for (Py_ssize_t i = 0; i < PyList_Size(path); i++) {
		PyObject *place = PyList_GetItem(path, i);
		int there;

		if (PyObject_RichCompareBool(place, directory, Py_EQ) == 1)
			return true;
		there = list(place);
		if (there < 0 || (there && PySet_Contains(listed.names, name) != 0))
			return false;
	}
	return false;
}

/* Whether this one and all that it needs can be given; seen: those that were asked about. */
static bool can_give(PyObject *name, PyObject *seen)
{
	PyObject *entry = PyDict_GetItemWithError(modules.entries, name), *needs, *present;

	if (!entry || PySet_Contains(seen, name) != 0)
		return true;
	if (PySet_Add(seen, name) < 0)
		return false;
	present = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
	if (present)
		return present == PyTuple_GetItem(entry, MODULE);
	if (PySet_Contains(modules.waiting, name) != 1 ||
	    !found_first(name, PyTuple_GetItem(entry, DIRECTORY)) ||
	    !can_give(PyTuple_GetItem(entry, PARENT), seen))
		return false;
	needs = PyTuple_GetItem(entry, NEEDS);
	for (Py_ssize_t i = 0; i < PyTuple_Size(needs); i++)
		if (!can_give(PyTuple_GetItem(needs, i), seen))
			return false;
	return true;
}

static int act(PyObject *actions)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(actions); i++) {
		PyObject *action = PyTuple_GetItem(actions, i);
		PyObject *done =
			PyObject_Call(PyTuple_GetItem(action, 0), PyTuple_GetItem(action, 1),
				      PyTuple_GetItem(action, 2));

		if (!done)
			return -1;
		Py_DECREF(done);
	}
	return 0;
}

/* A package that is on its way, or one that was there from the start. */
static PyObject *module_of(PyObject *name)
{
	PyObject *entry = PyDict_GetItemWithError(modules.entries, name);

	return entry ? PyTuple_GetItem(entry, MODULE)
		     : PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
}

static int give(PyObject *name)
{
	PyObject *entry = PyDict_GetItemWithError(modules.entries, name),
		 *all = PyImport_GetModuleDict();
	PyObject *needs, *module, *parent, *bound_as;

	/* Not in the list already when its needs come to it again. */
	if (!entry || PySet_Discard(modules.waiting, name) != 1)
		return 0;
	module = PyTuple_GetItem(entry, MODULE);
	parent = PyTuple_GetItem(entry, PARENT);
	bound_as = PyTuple_GetItem(entry, BOUND_AS);
	needs = PyTuple_GetItem(entry, NEEDS);
	if (parent != Py_None && give(parent) < 0)
		return -1;
	for (Py_ssize_t i = 0; i < PyTuple_Size(needs); i++)
		if (give(PyTuple_GetItem(needs, i)) < 0)
			return -1;
	if (PyDict_SetItem(all, name, module) < 0)
		return -1;
	if (bound_as != Py_None && PyObject_SetAttr(module_of(parent), bound_as, module) < 0)
		return -1;
	return act(PyTuple_GetItem(entry, ACTIONS));
}

/* importlib._bootstrap._find_and_load(name, import_) */
static PyObject *find_and_load(PyObject *self, PyObject *args)
{
	PyObject *name = PyTuple_Size(args) == 2 ? PyTuple_GetItem(args, 0) : NULL, *seen, *module;
	bool ours;

	(void)self;
	if (!name || !PyUnicode_Check(name) || PySet_Contains(modules.waiting, name) != 1 ||
	    !same_items("meta_path", modules.meta_path) ||
	    !same_items("path_hooks", modules.path_hooks))
		return PyObject_Call(modules.original, args, NULL);
	seen = PySet_New(NULL);
	ours = seen && can_give(name, seen);
	Py_XDECREF(seen);
	PyErr_Clear();
	if (!ours)
		return PyObject_Call(modules.original, args, NULL);
	if (give(name) < 0)
		return NULL;
	module = PyDict_GetItemWithError(PyImport_GetModuleDict(), name);
	Py_XINCREF(module);
	return module;
}

static PyObject *tuple_of(const char *name)
{
	PyObject *list_now = PySys_GetObject(name);

	return list_now && PyList_Check(list_now) ? PyList_AsTuple(list_now) : NULL;
}

int modules_hide(PyObject *entries)
{
	static PyMethodDef method = {"_find_and_load", find_and_load, METH_VARARGS, NULL};
	PyObject *importlib = PyImport_ImportModule("_frozen_importlib");
	PyObject *function = PyCFunction_New(&method, NULL);
	int r = -1;

	Py_INCREF(entries);
	modules.entries = entries;
	modules.waiting = PySet_New(entries);
	modules.meta_path = tuple_of("meta_path");
	modules.path_hooks = tuple_of("path_hooks");
	modules.original = importlib ? PyObject_GetAttrString(importlib, "_find_and_load") : NULL;
	if (know_directories() == 0 && function && modules.waiting && modules.meta_path &&
	    modules.path_hooks && modules.original)
		r = PyObject_SetAttrString(importlib, "_find_and_load", function);
	Py_XDECREF(importlib);
	Py_XDECREF(function);
	return r;
}
