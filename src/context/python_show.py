"""A part of python.py: what values look like, as MIME bundles. Names of methods and their order are IPython's."""

import binascii

TEXT, BINARY = (str,), (str, bytes)  # what a method may return; bytes are sent as base64
METHODS = (
    ("text/html", "_repr_html_", TEXT),
    ("text/markdown", "_repr_markdown_", TEXT),
    ("image/svg+xml", "_repr_svg_", TEXT),
    ("image/png", "_repr_png_", BINARY),
    ("application/pdf", "_repr_pdf_", BINARY),
    ("image/jpeg", "_repr_jpeg_", BINARY),
    ("text/latex", "_repr_latex_", TEXT),
    (JSON_TYPE, "_repr_json_", (dict, list, str)),
    ("application/javascript", "_repr_javascript_", TEXT),
)
DEPTH_MAX = 100  # of JSON
INTEGER_MAX = 1 << 63
TEXT_SEEN = VALUE_MAX + 1000  # characters of a str or bytes of which repr() is asked


def method_of(value, name):
    """None also for classes, whose methods are their instances', and for what has any name one asks for."""
    if isinstance(value, type):
        return None
    try:
        if callable(getattr(value, "_ipython_canary_method_should_not_exist_", None)):
            return None
        method = getattr(value, name, None)
    except Exception:
        return None
    return method if callable(method) else None


def tried(function, *arguments, **named):
    """What it returns; None where it fails, which is told on stderr."""
    try:
        return function(*arguments, **named)
    except NotImplementedError:
        return None
    except Exception as error:
        load("errors")
        complain(error)
        return None


def plain_json(value, depth=0):
    """What JSON can hold, and every parser takes."""
    if depth > DEPTH_MAX:
        raise ValueError("the JSON is too deep")
    if isinstance(value, dict):
        return {str(k): plain_json(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(v, depth + 1) for v in value]
    if isinstance(value, float):
        return value if abs(value) <= sys.float_info.max else None
    if isinstance(value, int) and not -INTEGER_MAX <= value < INTEGER_MAX:
        return float(value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return not_json(value)


def sendable(mime, value):
    """As it goes into a message: text, base64, or JSON."""
    if mime == JSON_TYPE or mime.endswith("+json"):
        if isinstance(value, str):
            import json
            value = json.loads(value)
        return plain_json(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return binascii.b2a_base64(value, newline=False).decode()
    if not isinstance(value, str):
        raise TypeError(f"{mime} is text or bytes, not {type(value).__name__}")
    return value


def without_metadata(value):
    return value[0] if isinstance(value, tuple) and len(value) == 2 else value


def plain_text(value):
    if type(value) in (str, bytes) and len(value) > TEXT_SEEN:
        note(f"a result of {len(value)} characters was cut: the limit is {TEXT_SEEN}")
        value = value[:TEXT_SEEN]
    if type(value) in PLAIN:
        return repr(value)
    load("pretty")
    return pretty(value)


def figure_of(value):
    figure = sys.modules.get("matplotlib.figure")
    return figure and isinstance(value, figure.Figure)


def bundle_of(value):
    """{type: data}; empty where the value shows itself."""
    show_itself = method_of(value, "_ipython_display_")
    if show_itself and tried(lambda: (show_itself(), True)):
        return {}
    found = {}
    whole = method_of(value, "_repr_mimebundle_")
    if whole:
        found.update(without_metadata(tried(whole, include=None, exclude=None)) or {})
    if figure_of(value):
        found.update(tried(figures().pictures, value) or {})
    for mime, name, types in METHODS:
        method = mime not in found and method_of(value, name)
        shown = without_metadata(tried(method)) if method else None
        if isinstance(shown, types):
            found[mime] = shown
    if "text/plain" not in found:
        found["text/plain"] = tried(plain_text, value)
    return found


def send_bundle(data, include=None, exclude=None):
    wanted = {}
    for mime, value in data.items():
        if value is None or include and mime not in include or exclude and mime in exclude:
            continue
        value = tried(sendable, mime, value)
        if value is not None:
            wanted[str(mime)] = value
    if channel.fd < 0:
        print(wanted.get("text/plain", ""))
    publish(wanted)


class DisplayHandle:
    """What display(display_id=...) returns. What it updates is shown once more."""
    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, value, **options):
        display(value, **options)

    update = display


def display_objects(objects, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False,
                    clear=False, **_):
    for value in objects:
        data = value if raw else bundle_of(value)
        if data:
            send_bundle(data, include, exclude)
    if display_id:
        return DisplayHandle(os.urandom(16).hex() if display_id is True else display_id)


def update_display(value, *, display_id, **options):
    display(value, **options)


def publish_display_data(data, *_, **__):
    send_bundle(data)


def clear_output(wait=False):
    """What was shown stays: it was sent."""
