"""A live sandbox, as a client of the daemon sees it."""

import urllib.parse

from support import wait_until


def query(**params):
    """Paths may be bytes."""
    pairs = [f"{name}={urllib.parse.quote(value if isinstance(value, bytes) else str(value), safe='')}"
             for name, value in params.items()]
    return "?" + "&".join(pairs) if pairs else ""


class Sandbox:
    """By its id or name, for the holder of the key or, without one, for the operator."""

    def __init__(self, daemon, name, key=None):
        self.daemon, self.id, self.key = daemon, name, key
        self.url = f"/v1/sandboxes/{name}"

    def request(self, method, what="", json=None, **more):
        """Of what is below its address; more as Daemon.begin() takes it."""
        return self.daemon.request(method, self.url + what, json, key=self.key, **more)

    def show(self):
        return self.request("GET").ok()

    def wait_idle(self, seconds=10):
        """Until nothing holds it any more."""
        wait_until(lambda: self.show()["busy"] == 0, seconds, "the end of all that holds the sandbox")

    # Commands: their results

    def run(self, language, code, **more):
        return self.request("POST", "/runs", {"language": language, "code": code, **more}).ok()

    def sh(self, code, **more):
        return self.run("sh", code, **more)

    def python(self, code, **more):
        return self.run("python", code, **more)

    # Files

    def files(self, method, what="", body=None, headers=None, **params):
        return self.request(method, f"/files{what}{query(**params)}", body=body, headers=headers)

    def post(self, what, body):
        return self.request("POST", f"/files/{what}", body)

    def read(self, path, headers=None, **params):
        return self.files("GET", path=path, headers=headers, **params)

    def write(self, path, data, **params):
        return self.files("PUT", body=data, path=path, **params)

    def list(self, path=".", **params):
        return self.files("GET", "/list", path=path, **params).ok()

    def names(self, path="."):
        return [e["name"] for e in self.list(path)["entries"]]

    def stat(self, path, **params):
        return self.files("GET", "/stat", path=path, **params)

    def watch(self, path, **params):
        """The events of a directory that can be watched."""
        events = self.daemon.events("GET", f"{self.url}/files/watch{query(path=path, **params)}", key=self.key,
                                    timeout=20)
        assert events.status == 200 and events.response.headers["content-type"] == "text/event-stream"
        return events
