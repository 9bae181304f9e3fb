"""A registry that lies: honest until it is told what to lie about.

    server = Lying({"it:1": image})
    server.lies.append(wrong_bytes("blobs"))

A lie is a function of a request that answers it, or returns False to leave it to the next one, and in
the end to the honest answer. What was asked is in `requests`.
"""

import collections
import functools
import http.server
import re
import socket
import struct
import threading
import time

# kind: "base", "manifests" or "blobs"; ref: a tag or digest.
Request = collections.namedtuple("Request", "method kind name ref headers")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        found = re.fullmatch(r"/v2/(?:(.+)/(manifests|blobs)/([^/]+))?", self.path.partition("?")[0])
        if not found:
            self.answer(404, b"")
            return
        name, kind, ref = found.groups()
        self.asked = Request(self.command, kind or "base", name, ref, dict(self.headers))
        self.lying.requests.append(self.asked)
        try:
            if not any(lie(self) for lie in list(self.lying.lies)):
                self.tell_the_truth()
        except OSError:  # clients give up
            self.close_connection = True

    do_HEAD = do_GET

    @property
    def lying(self):
        return self.server.lying

    def answer(self, status, body, length=None, **headers):
        """length: what is said of it, where that is not the truth. Header names have _ for -."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def truth(self):
        """The bytes and their media type; (None, None) where there are none."""
        asked, lying = self.asked, self.lying
        if asked.kind == "blobs":
            return next((image.blobs[asked.ref] for image in lying.images.values() if asked.ref in image.blobs),
                        None), "application/octet-stream"
        for name, image in lying.images.items():
            if name == f"{asked.name}:{asked.ref}":
                return image.manifest, image.kind
            if asked.ref in image.manifests:
                kind, data = image.manifests[asked.ref]
                return data, kind
        return None, None

    def tell_the_truth(self):
        if self.asked.kind == "base":
            self.answer(200, b"{}")
            return
        body, kind = self.truth()
        if body is None:
            self.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
            return
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if part and self.lying.ranges:
            first, last = int(part[1]), min(int(part[2] or len(body) - 1), len(body) - 1)
            self.answer(206, body[first:last + 1], Content_Type=kind,
                        Content_Range=f"bytes {first}-{last}/{len(body)}")
            return
        self.answer(200, body, Content_Type=kind)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def begin(self, length, **headers):
        """The head of an answer whose body is the lie's own."""
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients that break off are what tests are about."""


class Lying:
    def __init__(self, images):
        """images: {"repository:tag": Image or Index}"""
        self.images, self.lies, self.requests, self.ranges = images, [], [], True
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.lying = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def host(self):
        return f"127.0.0.1:{self.server.server_address[1]}"

    def name(self, repository):
        return f"{self.host}/{repository}"

    def asked(self, kind):
        return [r for r in self.requests if r.kind == kind]


# The lies

def about(kind, ref=None, times=None):
    """A lie about requests of a kind, and where it is told about one blob; times: how often it is told."""
    def make(function):
        left, lock = [times], threading.Lock()

        @functools.wraps(function)
        def lie(request):
            if request.asked.kind != kind or (ref and request.asked.ref != ref):
                return False
            with lock:
                if left[0] == 0:
                    return False
                if left[0]:
                    left[0] -= 1
            function(request)
            return True
        return lie
    return make


def wrong_bytes(kind, ref=None):
    """As many, of which one is another."""
    @about(kind, ref)
    def lie(request):
        body, media = request.truth()
        middle = len(body) // 2
        request.answer(200, body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1:], Content_Type=media)
    return lie


def other_bytes(kind, data, ref=None):
    """Others altogether."""
    @about(kind, ref)
    def lie(request):
        request.answer(200, data, Content_Type=request.truth()[1])
    return lie


def truncated(ref):
    """Less than there is, and said to be all."""
    @about("blobs", ref)
    def lie(request):
        request.answer(200, request.truth()[0][:-100])
    return lie


def longer(ref):
    """More than there is."""
    @about("blobs", ref)
    def lie(request):
        request.answer(200, request.truth()[0] + b"\0" * 100_000)
    return lie


def endless(kind, length=1 << 40):
    """A body that does not end."""
    @about(kind)
    def lie(request):
        request.begin(length, Content_Type=request.truth()[1])
        while True:
            request.wfile.write(b" " * 65536)
    return lie


def wrong_length(ref):
    """A Content-Length that is more than what comes, each time."""
    @about("blobs", ref)
    def lie(request):
        body, _ = request.truth()
        request.begin(len(body) + 1000)
        request.wfile.write(body)
    return lie


def broken(ref, at, times):
    """The connection is reset behind so many bytes (of what is asked for), so often."""
    @about("blobs", ref, times)
    def lie(request):
        body, _ = request.truth()
        part = re.fullmatch(r"bytes=(\d+)-\d*", request.headers.get("Range", ""))
        first = int(part[1]) if part else 0
        if part:
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(len(body) - first))
        request.end_headers()
        request.wfile.write(body[first:first + at])
        request.wfile.flush()
        time.sleep(0.2)  # until it is read: a reset takes what is under way with it
        request.reset()
    return lie


def slow(ref, seconds=1.0):
    """A byte at a time."""
    @about("blobs", ref)
    def lie(request):
        body, _ = request.truth()
        request.begin(len(body))
        for byte in body:
            request.wfile.write(bytes([byte]))
            request.wfile.flush()
            time.sleep(seconds)
    return lie


def dripping(ref, a_second=2000):
    """So many bytes a second, which is more than nothing."""
    @about("blobs", ref)
    def lie(request):
        body, _ = request.truth()
        request.begin(len(body))
        for at in range(0, len(body), a_second // 10):
            request.wfile.write(body[at:at + a_second // 10])
            request.wfile.flush()
            time.sleep(0.1)
    return lie


def status(kind, code, times=None, **headers):
    @about(kind, times=times)
    def lie(request):
        request.answer(code, b"{}", **headers)
    return lie


def redirect(kind, to):
    return status(kind, 307, Location=to)
