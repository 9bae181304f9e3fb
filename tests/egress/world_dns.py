"""The world's name server: answers as a test programs it, and remembers each query that reached it."""

import collections
import dataclasses
import socket
import socketserver
import struct
import threading

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

Query = collections.namedtuple("Query", "name type transport server")


@dataclasses.dataclass(frozen=True)
class Says:
    """What is answered about a name."""

    a: tuple = ()
    aaaa: tuple = ()
    cname: str = ""
    ttl: int = 60
    rcode: str = "NOERROR"
    silent: bool = False  # nothing is answered at all


NXDOMAIN, SERVFAIL, SILENCE = Says(rcode="NXDOMAIN"), Says(rcode="SERVFAIL"), Says(silent=True)

# A server sends no more than this in answer to who doesn't say how much it takes (RFC 1035).
SMALL = 512
# No chain of a test's is longer than what an answer by TCP can hold.
LINKS = 500


class Names:
    """name -> Says, or a list of them: one for each query of a type, the last one for all further ones."""

    def __init__(self):
        self.zone, self.queries = {}, []
        self.lock = threading.Lock()
        self.forget()

    def forget(self):
        """All queries, and how far the lists were."""
        with self.lock:
            self.queries.clear()
            self.asked = collections.Counter()

    def asked_for(self, name):
        """Queries for it or for names below it."""
        return [q for q in self.queries if q.name == name or q.name.endswith("." + name)]

    def _says(self, name, kind):
        found = self.zone.get(name) or self.zone.get("*." + name.partition(".")[2]) or NXDOMAIN
        if isinstance(found, list):
            with self.lock:
                turn = self.asked[name, kind]
                self.asked[name, kind] += 1
            found = found[min(turn, len(found) - 1)]
        return found

    def _answer(self, query):
        """The whole answer, or None for silence."""
        response = dns.message.make_response(query, recursion_available=True)
        question = query.question[0]
        kind = dns.rdatatype.to_text(question.rdtype)
        name = question.name.to_text().rstrip(".").lower()
        for _ in range(LINKS):
            says = self._says(name, kind)
            if says.silent:
                return None
            response.set_rcode(dns.rcode.from_text(says.rcode))
            values = {"A": says.a, "AAAA": says.aaaa}.get(kind, ())
            if says.cname:
                kind_said, values = "CNAME", [says.cname + "."]
            else:
                kind_said = kind
            if values:
                response.answer.append(dns.rrset.from_text(name + ".", says.ttl, "IN", kind_said, *values))
            if not says.cname:
                return response
            name = says.cname
        return response

    def answer(self, data, transport, server):
        """Bytes for bytes."""
        query = dns.message.from_wire(data)
        question = query.question[0]
        with self.lock:
            self.queries.append(Query(question.name.to_text().rstrip("."), dns.rdatatype.to_text(question.rdtype),
                                      transport, server))
        response = self._answer(query)
        if response is None:
            return b""
        wire = response.to_wire(max_size=65535)
        if transport == "udp" and len(wire) > (query.payload if query.edns >= 0 else SMALL):
            response.answer.clear()
            response.flags |= dns.flags.TC
            wire = response.to_wire()
        return wire


def serve(names, address):
    """Both transports on port 53 of the address; returns what ends them. In the namespace they are to be in."""
    class Udp(socketserver.BaseRequestHandler):
        def handle(self):
            data, sock = self.request
            wire = names.answer(data, "udp", address)
            if wire:
                sock.sendto(wire, self.client_address)

    class Tcp(socketserver.StreamRequestHandler):
        def handle(self):
            while len(head := self.rfile.read(2)) == 2:
                wire = names.answer(self.rfile.read(struct.unpack("!H", head)[0]), "tcp", address)
                if wire:
                    self.wfile.write(struct.pack("!H", len(wire)) + wire)

    socketserver.UDPServer.max_packet_size = 65535
    socketserver.TCPServer.allow_reuse_address = True
    servers = [socketserver.ThreadingUDPServer((address, 53), Udp), socketserver.ThreadingTCPServer((address, 53), Tcp)]
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return servers
