"""Real programs: each reaches what is allowed, without being told of any proxy, and nothing else."""

import dataclasses
import os
import shutil
import subprocess

import pytest

import world as places
from support import must_work

OK, FORBIDDEN = "www.example.org", "other.example.net"

# At /workspace, where programs start.
CA = "ca.pem"
SSH = "ssh -i key -o UserKnownHostsFile=known -o StrictHostKeyChecking=yes -o BatchMode=yes"

PYTHON = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode(), end='')
"""
NODE = """
fetch(process.argv[1]).then(r => r.text()).then(t => process.stdout.write(t))
    .catch(e => { console.error(String(e.cause)); process.exit(1) })
"""
JAVA = """
import java.net.URI;
import java.net.http.*;
public class Fetch {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(args[0])).build();
        System.out.print(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
"""
GO = """
package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    answer, err := http.Get(os.Args[1])
    if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
    body, _ := io.ReadAll(answer.Body)
    if answer.StatusCode != 200 { fmt.Fprintln(os.Stderr, answer.Status); os.Exit(1) }
    fmt.Print(string(body))
}
"""


@dataclasses.dataclass
class Program:
    command: object          # of a host
    error: str = ""          # where there is no such name
    says: str = "hello from {}\n"
    port: int = 80
    files: tuple = ()
    by_proxy: bool = True    # it obeys the variables
    options: tuple = ()
    proxy_error: str = "403"


PROGRAMS = {
    "curl": Program(lambda h: ["curl", "-sSf", f"http://{h}/"], "curl: (6) Could not resolve host"),
    "curl-tls": Program(lambda h: ["curl", "-sSf", "--cacert", CA, f"https://{h}/"],
                        "curl: (6) Could not resolve host", port=443, files=(CA,)),
    "python": Program(lambda h: ["/usr/bin/python3", "-c", PYTHON, f"http://{h}/"], "Name or service not known"),
    "python-tls": Program(lambda h: ["env", f"SSL_CERT_FILE={CA}", "/usr/bin/python3", "-c", PYTHON, f"https://{h}/"],
                          "Name or service not known", port=443, files=(CA,)),
    "pip": Program(lambda h: ["/usr/bin/python3", "-m", "pip", "install", "-q", "--no-cache-dir", "--retries", "1",
                              "--disable-pip-version-check", "--target", "lib", "--cert", CA, "--index-url",
                              f"https://{h}/simple", "tiny"],
                   "Name or service not known", says="", port=443, files=(CA,)),
    "npm": Program(lambda h: ["env", f"npm_config_cafile={CA}", "npm", "install", "--silent", "--fetch-retries", "0",
                              "--no-audit", "--no-update-notifier", "--loglevel", "error", "--registry",
                              f"https://{h}/", "tiny"],
                   "ENOTFOUND", says=None, port=443, files=(CA,)),
    "node": Program(lambda h: ["env", f"NODE_EXTRA_CA_CERTS={CA}", "node", "-e", NODE, f"https://{h}/"],
                    "getaddrinfo ENOTFOUND", port=443, files=(CA,), by_proxy=False),
    "java": Program(lambda h: ["java", "-Xshare:auto", "Fetch", f"http://{h}/"], "java.net.ConnectException",
                    files=("Fetch.class",), by_proxy=False),
    "go": Program(lambda h: ["./fetch", f"http://{h}/"], "no such host", files=("fetch",)),
    "go-by-itself": Program(lambda h: ["env", "GODEBUG=netdns=go", "./fetch", f"http://{h}/"], "no such host",
                            files=("fetch",), by_proxy=False),
    "git": Program(lambda h: ["git", "clone", "-q", f"http://{h}/project.git", "clone"], "Could not resolve host",
                   says=""),
    "git-ssh": Program(lambda h: ["env", f"GIT_SSH_COMMAND={SSH}", "sh", "-c", 'chmod 600 key; git clone -q "$0" clone',
                                  f"ssh://postgres@{h}/%s/project.git"],
                       "Name or service not known", says="", port=22, files=("key", "known"), by_proxy=False),
    "psql": Program(lambda h: ["psql", "-h", h, "-U", "postgres", "-Atc", "select 6 * 7"],
                    "Name or service not known", says="42\n", port=5432, by_proxy=False),
}

each = pytest.mark.parametrize("name", PROGRAMS)
each_by_proxy = pytest.mark.parametrize("name", [n for n, p in PROGRAMS.items() if p.by_proxy])


@pytest.fixture(scope="session")
def built(scratch):
    """What is compiled once: a directory with it."""
    made = scratch / "built"
    made.mkdir()
    for tool in ("javac", "go"):
        if not shutil.which(tool):
            must_work(f"{tool} is not there (tools/setup test)")
    (made / "Fetch.java").write_text(JAVA)
    (made / "fetch.go").write_text(GO)
    env = {"PATH": places.PATH, "HOME": str(made), "GOFLAGS": "-modcacherw"}
    for command in (["javac", "Fetch.java"], ["go", "build", "-o", "fetch", "fetch.go"]):
        done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def prepared(world, place, built):
    """Puts a program's files into the test's directory; returns its command for a host, and the options for cay."""
    def prepare(name, host):
        program = PROGRAMS[name]
        for file in program.files:
            if file == CA:
                shutil.copy(world.ca, place / CA)
            elif file == "key":
                (place / file).write_text(world.programs.client_key)
            elif file == "known":
                (place / file).write_text(f"{OK},{FORBIDDEN} {world.programs.host_key}")
            else:
                shutil.copy(built / file, place / file)
            os.chown(place / file, place.stat().st_uid, -1)
        if name in ("git", "git-ssh", "psql"):
            world.programs  # started, if it is not yet
        command = [word.replace("/%s", str(world.programs.own)) if "/%s" in word else word
                   for word in program.command(host)]
        return program, command, [word for file in program.files for word in ("--put", file)]
    return prepare


def rule(program):
    return f"*.example.org:{program.port}" if program.port not in (80, 443) else "*.example.org"


def check(program, out):
    assert program.says is None or out == program.says.format(OK), out


@each
def test_it_works_outside(world, place, prepared, name):
    """The control: without cay the program reaches both hosts."""
    for host in (OK, FORBIDDEN):
        program, command, _ = prepared(name, host)
        world.reached.clear()
        done = world.run(*command, cwd=place)
        assert done.returncode == 0, (host, done.stderr)
        assert program.says is None or done.stdout == program.says.format(host)
        assert program.port in (22, 5432) or world.reached
        shutil.rmtree(place / "clone", ignore_errors=True)
        shutil.rmtree(place / "node_modules", ignore_errors=True)


@each
def test_what_is_allowed_is_reached(traveller, prepared, name):
    program, command, options = prepared(name, OK)
    result = traveller.direct(*command, allow=[rule(program)], options=options).ok()
    check(program, result.out)
    entry = result.allowed(OK, program.port)
    assert entry["bytes_in"] > 0 and entry["bytes_out"] > 0
    assert {e["name"] for e in result.egress} == {OK}, "nothing is told but what it did"
    assert not traveller.world.saw(FORBIDDEN)


@each
def test_what_is_not_is_not(traveller, prepared, name):
    program, command, options = prepared(name, FORBIDDEN)
    result = traveller.direct(*command, allow=[rule(program)], options=options)
    assert result.rc not in (0, None) and program.error in result.err + result.out, (result.rc, result.out, result.err)
    result.denied(FORBIDDEN, "not in allow list")
    assert not traveller.world.saw(FORBIDDEN)
    assert not traveller.world.reached_at(places.OTHER, places.OTHER6)


@each_by_proxy
def test_by_proxy(root_traveller, prepared, name):
    program, command, options = prepared(name, OK)
    result = root_traveller.send(*command, allow=[rule(program)], options=options).ok()
    check(program, result.out)
    assert result.allowed(OK, program.port)["bytes_in"] > 0


@each_by_proxy
def test_by_proxy_what_is_not_allowed(root_traveller, prepared, name):
    program, command, options = prepared(name, FORBIDDEN)
    result = root_traveller.send(*command, allow=[rule(program)], options=options)
    assert result.rc not in (0, None) and program.proxy_error in result.err + result.out, (result.out, result.err)
    result.denied(FORBIDDEN, "not in allow list")
    assert not root_traveller.world.saw(FORBIDDEN)


@pytest.mark.parametrize("name", ["git-ssh", "psql"])
def test_a_port_is_allowed_by_its_rule_alone(root_traveller, prepared, name):
    """The host may be reached, but not with this port."""
    program, command, options = prepared(name, OK)
    result = root_traveller.direct(*command, allow=["*.example.org"], options=options)
    assert result.rc not in (0, None)
    assert (program.port, "port not in allow list") in result.of(OK, "denied"), result.egress
    assert not [r for r in root_traveller.world.reached if r.port == program.port]


def test_the_variables_are_there(root_traveller):
    out = root_traveller.send("env").ok().out.splitlines()
    variables = dict(line.split("=", 1) for line in out if "_proxy=" in line.lower())
    for name in ("http_proxy", "https_proxy"):
        assert variables[name] == "http://198.18.0.1:3128", variables
    assert "no_proxy" in variables


def test_without_a_network_there_are_none(root_traveller):
    out = root_traveller.send("env", allow=(), mode="none").ok().out
    assert "_proxy=" not in out.lower()


def test_a_rule_means_allowlist(root_traveller):
    result = root_traveller.direct("curl", "-sS", f"http://{OK}/", mode=None).ok()
    assert result.all["network"] == "allowlist" and result.out == f"hello from {OK}\n"


def test_blocked_wins(root_traveller):
    for block in (OK, "*.example.org", "*"):
        result = root_traveller.direct("curl", "-sS", f"http://{OK}/", block=[block])
        assert result.rc != 0
        result.denied(OK, "in block list")
    assert not root_traveller.world.saw(OK)


def test_a_blocked_port(root_traveller):
    """The name is known, as other ports of it are allowed."""
    result = root_traveller.direct("sh", "-c", f"curl -sS http://{OK}/; curl -sSk https://{OK}/", block=[f"{OK}:80"])
    assert result.ok().out == f"hello from {OK}\n"
    assert (80, "in block list") in result.of(OK, "denied")
    assert {r.port for r in root_traveller.world.reached} == {443}


def test_full(traveller, place):
    """Every public name and address, on any port, with the same path."""
    traveller.world.programs
    result = traveller.direct("sh", "-euc", f"""
        curl -sS http://{FORBIDDEN}/; curl -sS http://{OK}:8080/; curl -sS http://{places.WEB}/
        psql -h {OK} -U postgres -Atc 'select 6 * 7'""", mode="full", allow=())
    assert result.ok().out == f"hello from {FORBIDDEN}\nhello from {OK}\nhello from {places.WEB}\n42\n"
    for name, port in ((FORBIDDEN, 80), (OK, 8080), (places.WEB, 80), (OK, 5432)):
        assert result.allowed(name, port)["bytes_in"] > 0


def test_full_with_a_block(root_traveller):
    result = root_traveller.direct("curl", "-sS", f"http://{FORBIDDEN}/", mode="full", allow=(), block=["*.example.net"])
    assert result.rc == 6
    result.denied(FORBIDDEN, "in block list")
    assert not root_traveller.world.saw(FORBIDDEN)


def test_redirects_are_followed_to_what_is_allowed(root_traveller):
    result = root_traveller.direct("curl", "-sSL", f"http://{OK}/redirect?http://deep.below.example.org/").ok()
    assert result.out == "hello from deep.below.example.org\n"
