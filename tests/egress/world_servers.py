"""The world's servers: HTTP and HTTPS for many hosts, and one that does by TCP what it is told to.

All listen on every address of the world, so that whatever address a connection was led to, what
comes of it is known: each has a line in `reached`.
"""

import collections
import contextlib
import hashlib
import http.server
import ipaddress
import json
import socket
import socketserver
import ssl
import struct
import threading
import time
import urllib.parse

# A connection that got here: the address it came for, and what it said there.
Reached = collections.namedtuple("Reached", "address port host said")

TOOL_PORT = 9000
PIECE = bytes(range(256)) * 256  # of long answers


def pattern(n):
    """n bytes that are the same each time."""
    return (PIECE * (n // len(PIECE) + 1))[:n]


def local_address(sock):
    address = ipaddress.ip_address(sock.getsockname()[0].partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


class Quiet:
    """A server of many threads, on every address, by either protocol."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "world", self.server_address[1]

    def handle_error(self, request, client_address):
        """Clients that end early are what tests are about."""


class Pages(http.server.BaseHTTPRequestHandler):
    """GET of any host, which is the same on all: what the world's `files` have for it, or one of the pages below."""

    protocol_version = "HTTP/1.1"
    server_version = "world"

    def log_message(self, *args):
        pass

    def answer(self, body, status=200, kind="text/plain", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        world, host = self.server.world, self.headers.get("Host", "").lower()
        self.server.note(self.connection, host, f"{self.command} {self.path}")
        path, _, query = self.path.partition("?")
        name = host.partition(":")[0]
        found = world.files.get(urllib.parse.unquote(path))
        if found is not None and found.startswith(b"{"):
            self.answer(found.replace(b"HOST", name.encode()), kind="application/json")
        elif found is not None:
            self.answer(found, kind="text/html")
        elif path.startswith("/bytes/"):
            self.answer(pattern(int(path.rpartition("/")[2])))
        elif path == "/redirect":
            self.answer(b"", 302, Location=urllib.parse.unquote(query))
        elif path == "/":
            self.answer(f"hello from {name}\n".encode())
        else:
            self.answer(b"no such page\n", 404)

    do_HEAD = do_GET

    def do_POST(self):
        """The digest of what was sent, by who says how much it is."""
        if "Content-Length" not in self.headers:
            self.close_connection = True
            self.answer(b"how much?\n", 411)
            return
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left and (data := self.rfile.read(min(left, 1 << 16))):
            digest.update(data)
            left -= len(data)
        self.server.note(self.connection, self.headers.get("Host", ""), f"POST {self.path}")
        self.answer(digest.hexdigest().encode())


class Web(Quiet, http.server.ThreadingHTTPServer):
    def __init__(self, world, port, context=None):
        self.world, self.context = world, context
        super().__init__(("::", port), Pages)

    def note(self, sock, host, said):
        self.world.reached.append(Reached(local_address(sock), self.server_address[1], host, said))

    def get_request(self):
        sock, address = super().get_request()
        # Whoever says nothing was here, too.
        self.note(sock, "", "connected")
        if self.context:
            # The handshake is the handler's: here it would hold up all others.
            sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        return sock, address


class Tool(socketserver.StreamRequestHandler):
    """The first line says what to do."""

    def handle(self):
        self.server.world.reached.append(
            Reached(local_address(self.connection), self.server.server_address[1], "", "connected"))
        line = self.rfile.readline(200)
        words = line.decode(errors="replace").split() or ["nothing"]
        self.server.world.reached.append(
            Reached(local_address(self.connection), self.server.server_address[1], "", " ".join(words)))
        with contextlib.suppress(OSError):
            getattr(self, "do_" + words[0], self.do_nothing)(*map(int, words[1:]))

    def do_nothing(self):
        pass

    def do_echo(self):
        while data := self.rfile.read1(1 << 16):
            self.connection.sendall(data)

    def do_send(self, n):
        """Much, as fast as it is taken."""
        while n > 0:
            piece = PIECE[:n]
            self.connection.sendall(piece)
            n -= len(piece)

    def do_sum(self):
        """Reads to the end of what comes, and only then answers."""
        digest, n = hashlib.sha256(), 0
        while data := self.rfile.read1(1 << 16):
            digest.update(data)
            n += len(data)
        self.connection.sendall(json.dumps([n, digest.hexdigest()]).encode())

    def do_reset(self):
        self.connection.sendall(b"last words\n")
        time.sleep(0.2)  # until they are read: a reset takes what is under way with it
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def do_slow(self, n):
        """A byte each 100 ms."""
        for _ in range(n):
            self.connection.sendall(b".")
            time.sleep(0.1)

    def do_hold(self):
        """Says nothing until the other side ends it, and notes that."""
        self.connection.sendall(b"held\n")
        with contextlib.suppress(OSError):
            self.rfile.read()
        self.server.world.reached.append(Reached("", self.server.server_address[1], "", "held no more"))


class Tools(Quiet, socketserver.ThreadingTCPServer):
    def __init__(self, world, port):
        self.world = world
        super().__init__(("::", port), Tool)


class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        self.server.world.reached.append(Reached("", self.server.server_address[1], "", f"udp {self.request[0]!r}"))


class Datagrams(socketserver.ThreadingUDPServer):
    """Whatever comes by UDP is noted."""

    address_family = socket.AF_INET6
    daemon_threads = True

    def __init__(self, world, port):
        self.world = world
        super().__init__(("::", port), Datagram)


def serve(world, certificate):
    """Starts all of them, in the namespace they are to be in; returns what ends them."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    def note_name(sock, name, _):
        world.reached.append(Reached("", 443, name or "", "hello"))
    context.sni_callback = note_name
    servers = [Web(world, 80), Web(world, 8080), Web(world, 443, context), Tools(world, TOOL_PORT),
               Datagrams(world, 443)]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return servers
