"""Shells' own work, and the tools that scripts call."""

import json
import subprocess

from program import PYTHON, need, run, shell


def test_bash(cay):
    out = shell(cay, """
        seq 3 | while read n; do echo $((n * n)); done | paste -sd+ | bc 2>/dev/null || echo 14
        cat <<-END
        here $((6 * 7))
        END
        diff <(printf 'a\\nb\\n') <(printf 'a\\nc\\n') || true
        echo to a process > >(tr a-z A-Z); wait $!
        declare -A map=([x]=1 [y]=2); echo ${#map[@]} ${map[y]}
        set -o pipefail; false | true || echo piped ${PIPESTATUS[0]}
        coproc tr a-z A-Z; echo coproc >&${COPROC[1]}; exec {COPROC[1]}>&-; cat <&${COPROC[0]}
        trap 'echo left' EXIT
        """)
    assert out == "14\nhere 42\n2c2\n< b\n---\n> c\nTO A PROCESS\n2 2\npiped 1\nCOPROC\nleft\n"


def test_bash_job_control(cay):
    out = run(cay, "bash", "-c", """
        set -m
        sleep 0.1 & jobs -r | cut -c1-13; fg >/dev/null; echo fg $?
        (exit 3) & wait $!; echo waited $?
        sleep 60 & kill -STOP %1; sleep 0.1; jobs | cut -c7-13; kill -CONT %1; kill %1; wait %1; echo killed $?
        sh -c 'kill -TSTP $$; echo went on' & sleep 0.2; fg >/dev/null
        trap 'echo trapped' USR1; kill -USR1 $$
        echo $(ps -o pgid= $$) $BASHPID
        """, errors=None)
    assert out.splitlines()[:6] == ["[1]+  Running", "fg 0", "waited 3", "Stopped", "killed 143", "went on"]
    assert out.splitlines()[6:] == ["trapped", "2 2"]


def test_job_control_on_a_terminal(cay):
    """A terminal of the island's own: ^C ends the job and not the shell, ^Z stops it."""
    code = r"""
import os, pty, select, time
pid, fd = pty.fork()
if pid == 0: os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
seen = b''
def until(text):
    global seen
    end = time.monotonic() + 20
    while text not in seen:
        assert time.monotonic() < end, seen
        if select.select([fd], [], [], 1)[0]: seen += os.read(fd, 4096)
    seen = seen.split(text, 1)[1]
def say(line): os.write(fd, line)
say(b"PS1='$ '; stty -echo\n"); until(b'\r\n$ ')
say(b'echo begun; sleep 60\n'); until(b'begun'); time.sleep(0.2); say(b'\x03'); until(b'$ ')
say(b'echo after $?\n'); until(b'after 130')
say(b'echo begun; sleep 60\n'); until(b'begun'); time.sleep(0.2); say(b'\x1a'); until(b'Stopped')
say(b'bg; jobs -r; kill %1; wait; tty; exit 5\n'); until(b'Running'); until(b'/dev/pts/0')
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(cay, PYTHON, "-c", code) == "5\n"


def test_pipes_through_cay(cay):
    done = cay.shell("printf 'b\\na\\n' | $CAY run -- sort | $CAY run -- sh -c 'cat; echo err >&2' 2>err; cat err")
    assert done.text == "a\nb\nerr\n"
    assert cay.shell("$CAY run -- yes | head -1; echo $?").text == "y\n0\n"
    assert run(cay, "wc", "-c", input="x" * 300_000) == "300000\n"


def test_git(cay):
    need("git")
    out = shell(cay, """
        git init -q -b main repo; cd repo
        git config user.name A; git config user.email a@example.com
        echo one > f; git add f; git commit -qm first
        git checkout -qb side; echo two >> f; git commit -qam second
        git checkout -q main; git merge -q side
        git log --format='%an %s'; git status --porcelain; git rev-parse --abbrev-ref HEAD
        git clone -q . ../copy; git -C ../copy log --oneline | wc -l; git gc -q; git fsck
        """, errors=None)
    assert out == "A second\nA first\nmain\n2\n"


def test_git_in_a_host_directory(cay, place):
    """Its owner is the island's user: git asks for no safe.directory."""
    need("git")
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *command],
                       cwd=place, env=cay.env, check=True)
    assert shell(cay, "git log --format=%s; git status --short", "--workspace", place) == "x\n"


def test_jq(cay):
    need("jq")
    assert run(cay, "jq", "-c", "[.[] | select(.n > 1) | .n * 2]", input='[{"n":1},{"n":2},{"n":3}]') == "[4,6]\n"


def test_ripgrep(cay):
    need("rg")
    out = shell(cay, "mkdir -p a/b; echo needle > a/b/x.txt; echo hay > a/y; rg --sort path -n 'n\\w+le'; rg --files | wc -l")
    assert out == "a/b/x.txt:1:needle\n2\n"


def test_ffmpeg(cay, place):
    need("ffmpeg", "ffprobe")
    out = shell(cay, """
        ffmpeg -loglevel error -f lavfi -i testsrc=duration=1:size=160x120:rate=10 \
               -f lavfi -i sine=frequency=440:duration=1 -c:v libx264 -c:a aac -shortest v.mp4
        ffprobe -v error -show_entries stream=codec_name,width,nb_frames -of json v.mp4
        """, "--get", "v.mp4")
    video, audio = json.loads(out)["streams"]
    assert (video["codec_name"], video["width"], video["nb_frames"]) == ("h264", 160, "10")
    assert audio["codec_name"] == "aac" and (place / "v.mp4").read_bytes()[4:8] == b"ftyp"


def test_sqlite3_shell(cay):
    need("sqlite3")
    out = run(cay, "sqlite3", "-json", "a.db", "create table t(n, s); insert into t values(1, 'ä'), (2, 'b'); "
              "select count(*) as c, group_concat(s) as g from t")
    assert json.loads(out) == [{"c": 2, "g": "ä,b"}]


def test_curl_fails_fast_and_clearly(cay):
    need("curl")
    done = cay.run("--", "curl", "-sS", "https://example.com/")
    assert done.rc == 6 and "Could not resolve host: example.com" in done.errors and done.seconds < 5
    done = cay.run("--", "curl", "-sS", "https://93.184.216.34/")
    assert done.rc == 7 and "Couldn't connect to server" in done.errors and done.seconds < 5


def test_curl_over_loopback(cay):
    need("curl")
    out = shell(cay, """
        echo served > f
        /usr/bin/python3 -m http.server -b 127.0.0.1 8000 2>/dev/null & trap "kill $!" EXIT
        curl -sS --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 10 http://localhost:8000/f 2>/dev/null
        """)
    assert out == "served\n"


def test_archives(cay):
    out = shell(cay, """
        mkdir d; echo x > d/f; ln -s f d/l; chmod 600 d/f
        for z in z j J; do tar c${z}f a.tar d; rm -r d; tar xf a.tar; done
        stat -c '%a %F' d/f d/l; gzip -k d/f; zcat d/f.gz; sha256sum < d/f | cut -c1-8
        """)
    assert out == "600 regular file\n777 symbolic link\nx\n73cb3858\n"


def test_strace(cay):
    """One's own processes may be traced; the filter holds there too."""
    need("strace")
    out = shell(cay, "strace -f -e trace=openat -o t sh -c 'cat /etc/hostname'; grep -c 'etc/hostname.*= 3' t")
    assert out == "cay\n1\n"
