# What a zygote's python is started with: `python3 -c BOOT DRIVER MODULE...`, see warm/python.c. It imports
# the modules, and notes what each of them did to be imported, so that warm/python_modules.c can make
# it look as if they had not been. What is used here is in every interpreter from the start.
import sys

# What comes behind site was imported for the sake of -c: linecache, since 3.13.
bare, extra = list(sys.modules), []
if "site" in bare:
    extra = bare[bare.index("site") + 1:]
    del bare[bare.index("site") + 1:]

import _frozen_importlib
import _imp
import builtins
import os
import posix

warm = _imp.create_dynamic(_frozen_importlib.ModuleSpec("_cay_warm", None, origin="/proc/self/fd/1"))
_imp.exec_dynamic(warm)
warm.prepare()

import atexit
import time
import warnings

loading = []  # modules whose code runs, the innermost last
needs = {extra[-1]: extra[:-1]} if extra else {}  # module: what was imported while its code ran
actions = {}  # module: calls that changed something outside of it
backends = {}  # module: matplotlib's backend after its import


def note(name):
    if loading and name != loading[-1]:
        needs[loading[-1]].append(name)


def noting(function):
    """Instead of a function that changes something: while modules are loaded, the call is only noted."""
    def instead(*args, **kwargs):
        if not loading:
            return function(*args, **kwargs)
        actions[loading[-1]].append((function, args, kwargs))
        return args[0] if args else None
    return instead


def load_unlocked(spec, original=_frozen_importlib._load_unlocked):
    note(spec.name)
    before = set(sys.modules)
    loading.append(spec.name)
    needs[spec.name], actions[spec.name] = [], []
    try:
        return original(spec)
    finally:
        # Names that were only put into sys.modules, as typing.io.
        needs[spec.name] += [name for name in sys.modules if name not in before and name not in needs]
        loading.pop()
        if spec.name in ("matplotlib", "matplotlib.pyplot") and "matplotlib" in sys.modules:
            backends[spec.name] = dict.get(sys.modules["matplotlib"].rcParams, "backend")


def gcd_import(name, package=None, level=0, original=_frozen_importlib._gcd_import):
    module = original(name, package, level)
    if level == 0:
        note(name)
    return module


def import_(name, globals=None, locals=None, fromlist=(), level=0, original=builtins.__import__):
    if level and globals:
        package = globals.get("__package__") or globals["__name__"]
        full = _frozen_importlib._resolve_name(name, package, level)
    else:
        full = name
    module = original(name, globals, locals, fromlist, level)
    note(full)
    for part in fromlist or ():
        if f"{full}.{part}" in sys.modules:
            note(f"{full}.{part}")
    return module


def preload(names):
    changed = [(_frozen_importlib, "_load_unlocked", load_unlocked), (_frozen_importlib, "_gcd_import", gcd_import),
               (builtins, "__import__", import_)]
    changed += [(module, name, noting(getattr(module, name)))
                for module, name in ((atexit, "register"), (os, "register_at_fork"),
                                     (warnings, "filterwarnings"), (warnings, "simplefilter"))]
    before = [getattr(module, name) for module, name, _ in changed]
    here = sys.path.pop(0)
    sys.path_importer_cache.pop(os.getcwd(), None)
    # Threads would not live on in a clone. matplotlib wants a directory to write to.
    for name in "OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS":
        os.environ[name + "_NUM_THREADS"] = "1"
    os.environ["MPLCONFIGDIR"] = "/tmp"
    for module, name, value in changed:
        setattr(module, name, value)
    for name in names:
        try:
            __import__(name)
        except Exception:  # not there, or not for here: the program will see for itself
            pass
    for (module, name, _), value in zip(changed, before):
        setattr(module, name, value)
    sys.path.insert(0, here)


def seeds(name, module):
    """What a module takes from the moment of its import, taken again."""
    if name == "random":
        return [module._inst.seed]
    if name == "numpy.random":
        return [module.seed]
    if name == "ssl":
        # OpenSSL tells a fork by the process id, which is the same in every clone.
        return [lambda: module.RAND_add(os.urandom(48), 48.0)]
    if name == "threading":
        return [module._main_thread._set_native_id]
    if name == "logging":
        clock = time.time_ns if isinstance(module._startTime, int) else time.time
        return [lambda: setattr(module, "_startTime", clock())]
    if name in backends:
        # pyplot's import changes it, where there is no display.
        settings = sys.modules["matplotlib"].rcParams
        return [lambda: dict.__setitem__(settings, "backend", backends[name])] + [
            function.cache_clear for function in vars(module).values() if hasattr(function, "cache_clear")]
    return []


def directory(module):
    """Where a module of its own, not of a package, was found in sys.path."""
    spec = getattr(module, "__spec__", None)
    if not spec or not spec.has_location or "." in spec.name:
        return None
    place = os.path.dirname(spec.origin)
    return os.path.dirname(place) if spec.submodule_search_locations else place


def entry(name):
    """(module, parent or None, name in the parent, needs, actions, directory or None)"""
    module = sys.modules[name]
    parent, _, last = name.rpartition(".")
    bound = parent in sys.modules and vars(sys.modules[parent]).get(last) is module
    calls = actions.get(name, []) + [(function, (), {}) for function in seeds(name, module)]
    return (module, parent or None, last if bound else None, tuple(dict.fromkeys(needs.get(name, ()))), tuple(calls),
            directory(module))


def hide():
    entries = {name: entry(name) for name in sys.modules if name not in bare}
    for name, (module, parent, last, *_) in entries.items():
        if "__warningregistry__" in getattr(module, "__dict__", {}):
            del module.__warningregistry__
        if last:
            delattr(sys.modules[parent], last)
    for name in entries:
        del sys.modules[name]
    for name, values in (("tempfile", {"_name_sequence": None, "tempdir": None}), ("uuid", {"_node": None})):
        if name in entries:
            vars(entries[name][0]).update(values)
    if "threading" in entries:
        # An import may have had a thread: matplotlib's, where it finds no list of fonts.
        threading = entries["threading"][0]
        threading._counter = type(threading._counter.__self__)(1).__next__
    if "linecache" in entries:
        entries["linecache"][0].clearcache()
    # Whoever asks for this zygote imports what only it has, more likely than not.
    own = [name for name in sys.argv[2:] if name in entries and name.partition(".")[0] not in sys.stdlib_module_names]
    warm.hide(entries, "".join(f"import {name}\n" for name in own) + "print(42)")


def driver(text):
    """Contexts' driver (src/context, tools/driver), compiled: that is most of what its start takes."""
    found = []
    exec(text, {"__builtins__": {"compile": compile, "exec": lambda *call: found.append(call)}})
    code, names = found[0]
    names["__builtins__"] = builtins.__dict__
    names["PARTS"] = {name: compile(part, code.co_filename, "exec") for name, part in names["PARTS"].items()}
    warm.drive(text, code, names)


driver(sys.argv[1])
preload(sys.argv[2:])
hide()
sys.excepthook = warm.serve
raise SystemError
