"""A part of python.py: matplotlib's backend of a context, as a module of its own, cay_figures.

Figures become results when pyplot.show() is called or a cell has left them open, and then are closed.
`state`, `show_objects` and `BACKEND` are python.py's.
"""

import io

from matplotlib import _pylab_helpers, rcParams
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

FigureCanvas, FigureManager = FigureCanvasAgg, FigureManagerBase

# IPython's name of a format: MIME type, matplotlib's name, dots per dot
FORMATS = {"png": ("image/png", "png", 1), "retina": ("image/png", "png", 2), "png2x": ("image/png", "png", 2),
           "svg": ("image/svg+xml", "svg", 1), "jpeg": ("image/jpeg", "jpeg", 1), "jpg": ("image/jpeg", "jpeg", 1),
           "pdf": ("application/pdf", "pdf", 1)}


def new_figure_manager(num, *args, FigureClass=Figure, **kwargs):
    return new_figure_manager_given_figure(num, FigureClass(*args, **kwargs))


def new_figure_manager_given_figure(num, figure):
    return FigureManager(FigureCanvas(figure), num)


def draw_if_interactive():
    """Cells are drawn at their end."""


def pictures(figure):
    """{type: data} of a figure, in the formats that were asked for; none of one that is empty."""
    found = {}
    for name in state.figure_formats if figure.axes or figure.lines else ():
        mime, kind, scale = FORMATS[name]
        out = io.BytesIO()
        if figure.canvas is None:
            FigureCanvas(figure)
        figure.canvas.print_figure(out, format=kind, dpi=figure.dpi * scale, bbox_inches="tight",
                                   facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor())
        found[mime] = out.getvalue().decode() if kind == "svg" else out.getvalue()
    return found


def show(close=True, block=None):
    try:
        for manager in _pylab_helpers.Gcf.get_all_fig_managers():
            show_objects(manager.canvas.figure)
    finally:
        if close:
            _pylab_helpers.Gcf.destroy_all()


def show_open():
    """At the end of a cell; not where the user has chosen another backend."""
    if rcParams["backend"] == BACKEND:
        show()
