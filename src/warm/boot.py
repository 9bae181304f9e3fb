# What a zygote's python is started with: python3 -c BOOT MODULE..., see warm/python.c. Everything
# that is imported here for its own use is in every interpreter from the start.
import _imp
import posix
import sys
from _frozen_importlib import ModuleSpec

warm = _imp.create_dynamic(ModuleSpec("_cay_warm", None, origin="/proc/self/fd/1"))
_imp.exec_dynamic(warm)


def forget(module, **values):
    """What a module keeps of the moment, or the place, in which it was imported."""
    module = sys.modules.get(module)
    for name, value in values.items():
        if hasattr(module, name):
            setattr(module, name, value)


def preload(names):
    import os
    import warnings
    filters = warnings.filters[:]
    here = sys.path.pop(0)
    # Threads would not live on in a clone. matplotlib wants a directory to write to.
    for name in "OPENBLAS", "OMP", "MKL", "NUMEXPR", "VECLIB_MAXIMUM", "BLIS":
        os.environ[name + "_NUM_THREADS"] = "1"
    os.environ["MPLCONFIGDIR"] = "/tmp"
    for name in names:
        try:
            __import__(name)
        except Exception:  # not there, or not for here: the program will see for itself
            pass
    sys.path.insert(0, here)
    warnings.filters[:] = filters
    warnings._filters_mutated()
    for module in list(sys.modules.values()):
        if "__warningregistry__" in getattr(module, "__dict__", {}):
            del module.__warningregistry__
    forget("tempfile", _name_sequence=None, tempdir=None)
    forget("uuid", _node=None, _last_timestamp=None)
    matplotlib = sys.modules.get("matplotlib")
    for name in "get_configdir", "get_cachedir", "_get_data_path", "get_data_path":
        cached = getattr(matplotlib, name, None)
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


warm.prepare()
preload(sys.argv[1:])
sys.excepthook = warm.serve
raise SystemError
