"""Debian's docker-registry on loopback, with its own files, and what pushes to it: skopeo.

    Registry(place)                     open to all
    Registry(place, auth="basic")       one user, by htpasswd
    Registry(place, tokens=Tokens(…))   by tokens, which the small server below signs and the registry checks
"""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

from makers import layout
from support import must_work, wait_until

USER, PASSWORD = "ann", "of the registry"
IDENTITY = "an.identity+token/of=ann&more"


def need(command, package):
    if not shutil.which(command):
        must_work(f"{command} is not there (Debian's {package})")


class Registry:
    def __init__(self, place, auth=None, tokens=None):
        need("docker-registry", "docker-registry")
        need("skopeo", "skopeo")
        self.place, self.auth, self.tokens = pathlib.Path(place), auth, tokens
        self.place.mkdir(parents=True, exist_ok=True)
        self.log_file = self.place / "log"
        self.process = None
        self.port = 0  # any, and the same again after a restart
        self.start()

    # Its life

    def start(self):
        config = {"version": 0.1, "log": {"level": "info", "fields": {}, "accesslog": {"disabled": False}},
                  "storage": {"filesystem": {"rootdirectory": str(self.place / "data")}},
                  "http": {"addr": f"127.0.0.1:{self.port}", "secret": "of the tests"}}
        if self.auth:
            (self.place / "htpasswd").write_text(htpasswd(USER, PASSWORD))
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(self.place / "htpasswd")}}
        if self.tokens:
            config["auth"] = {"token": {"realm": self.tokens.url, "service": "tests", "issuer": "tests",
                                        "rootcertbundle": str(self.tokens.certificate)}}
        (self.place / "config.yml").write_text(json.dumps(config))  # which is YAML, too
        with open(self.log_file, "wb") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", self.place / "config.yml"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self._listens() or self.process.poll() is not None, 20, "the registry's start")
        assert self.process.poll() is None, self.log
        self.port = int(self._listens()[1])

    def _listens(self):
        return re.search(r"listening on 127\.0\.0\.1:(\d+)", self.log)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def log(self):
        return self.log_file.read_text(errors="replace")

    # What tests do with it

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def name(self, repository):
        """The reference of "repository:tag" here."""
        return f"{self.host}/{repository}"

    def push(self, repository, image, *options):
        """An Image or Index, by skopeo, as "name:tag"; returns its reference."""
        source = layout(self.place / f"push-{time.monotonic_ns()}", {"it": image})
        try:
            self.copy(f"oci:{source}:it", f"docker://{self.name(repository)}", "--all", "--dest-tls-verify=false",
                      *(["--dest-creds", f"{USER}:{PASSWORD}"] if self.auth or self.tokens else []), *options)
        finally:
            shutil.rmtree(source)
        return self.name(repository)

    @staticmethod
    def copy(source, destination, *options):
        done = subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", *options, source, destination],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def blob(self, digest):
        """The file it has for it."""
        name = digest.partition(":")[2]
        return self.place / "data/docker/registry/v2/blobs/sha256" / name[:2] / name / "data"

    def asked(self, pattern):
        """How many requests of the log have it in their paths."""
        return len(re.findall(rf'"GET [^"]*{pattern}', self.log))


def htpasswd(user, password):
    """A line by bcrypt, all that docker-registry takes; crypt(3) is the C library's own."""
    done = subprocess.run(["perl", "-e", 'print crypt($ARGV[0], q($2b$04$) . "." x 22)', password],
                          capture_output=True, text=True, check=True)
    assert done.stdout.startswith("$2b$"), done
    return f"{user}:{done.stdout}\n"


class Tokens:
    """A server of tokens as registries have them: signed, for one repository, for those who know the password."""

    def __init__(self, place, anonymous=(), lifetime=300):
        """anonymous: the repositories that everybody may pull."""
        self.place, self.anonymous, self.lifetime, self.requests = pathlib.Path(place), anonymous, lifetime, []
        self.place.mkdir(parents=True, exist_ok=True)
        self.key, self.certificate = self.place / "key.pem", self.place / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out",
                        self.certificate, "-subj", "/CN=tests", "-days", "2"], check=True, capture_output=True)
        tokens = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
                self.say(*tokens.answer(query, self.headers.get("Authorization")))

            def do_POST(self):
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                assert self.headers["Content-Type"] == "application/x-www-form-urlencoded" and "?" not in self.path
                self.say(*tokens.exchange(dict(urllib.parse.parse_qsl(form)), self.headers.get("Authorization")))

            def say(self, status, body):
                body = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, query, authorization):
        self.requests.append((query, authorization))
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if authorization not in (None, expected):
            return 401, {"errors": [{"code": "UNAUTHORIZED"}]}
        return 200, {"token": self.token(query, authorization), "expires_in": self.lifetime}

    def exchange(self, form, authorization):
        """An identity token for one of access, as OAuth2 has it."""
        self.requests.append((form, authorization))
        if form.get("grant_type") != "refresh_token" or form.get("refresh_token") != IDENTITY:
            return 401, {"errors": [{"code": "UNAUTHORIZED"}]}
        return 200, {"access_token": self.token(form, True), "expires_in": self.lifetime, "scope": form["scope"]}

    def token(self, query, authorization):
        kind, _, rest = query.get("scope", "").partition(":")
        name, _, actions = rest.rpartition(":")
        may = actions.split(",") if authorization else ["pull"] if name in self.anonymous else []
        access = [{"type": kind, "name": name, "actions": may}] if kind else []
        return self.sign(query.get("service", ""), access)

    def sign(self, service, access):
        def text(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")
        der = subprocess.run(["openssl", "x509", "-in", self.certificate, "-outform", "DER"], capture_output=True,
                             check=True).stdout
        now = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "x5c": [base64.b64encode(der).decode()]}
        claims = {"iss": "tests", "sub": "", "aud": service, "exp": now + self.lifetime, "nbf": now - 10, "iat": now,
                  "jti": str(time.monotonic_ns()), "access": access}
        signed = text(json.dumps(head).encode()) + b"." + text(json.dumps(claims).encode())
        made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=signed, capture_output=True,
                              check=True).stdout
        return (signed + b"." + text(made)).decode()


def credentials(path, registry, user=USER, password=PASSWORD, **more):
    """A docker config directory that knows the password; for DOCKER_CONFIG. more: of the same entry."""
    path.mkdir(exist_ok=True)
    both = base64.b64encode(f"{user}:{password}".encode()).decode()
    (path / "config.json").write_text(json.dumps({"auths": {registry: {"auth": both, **more}}}))
    os.chmod(path / "config.json", 0o644)
    return path
