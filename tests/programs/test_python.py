"""Python and what is used with it, as Debian packages it."""

import base64
import hashlib
import zipfile

from program import PNG, PYTHON, need, need_module, python, run, shell


def test_numpy(cay):
    need_module("numpy")
    out = python(cay, """
        import numpy as np
        a = np.arange(250_000, dtype=float).reshape(500, 500)
        print(np.allclose((a @ np.eye(500)), a), round(float(np.linalg.det(np.diag([2., 3., 7.])))))
        print(np.fft.rfft([1, 0, 0, 0]).tolist() == [1, 1, 1])
        """)
    assert out == "True 42\nTrue\n"


# Threads of this process, and whether they all did something.
BLAS_THREADS = """
    import numpy as np, os
    a = np.random.rand(900, 900)
    for _ in range(6): a = (a @ a) % 1
    tasks = os.listdir("/proc/self/task")
    times = [sum(map(int, open(f"/proc/self/task/{t}/stat").read().rsplit(")", 1)[1].split()[11:13])) for t in tasks]
    print(len(tasks), sum(t > 0 for t in times))
    """


def test_openblas_has_as_many_threads_as_cpus(cay):
    need_module("numpy")
    assert python(cay, BLAS_THREADS) == "1 1\n"
    assert python(cay, BLAS_THREADS, "--cpus", "2") == "2 2\n"


def test_pandas(cay, place):
    need_module("pandas")
    (place / "sales.csv").write_text("town,amount\nBonn,3\nUlm,10\nBonn,4\n")
    out = python(cay, """
        import pandas
        table = pandas.read_csv("sales.csv")
        print(table.groupby("town").amount.sum().to_dict())
        table.to_json("out.json", orient="records")
        print(open("out.json").read())
        """, "--put", "sales.csv")
    assert out == ("{'Bonn': 7, 'Ulm': 10}\n"
                   '[{"town":"Bonn","amount":3},{"town":"Ulm","amount":10},{"town":"Bonn","amount":4}]\n')


PLOT = """
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 4, 9])
    plt.title("Größe α → ∞")
    plt.savefig("{}/plot.png", dpi=50)
    plt.savefig("{}/plot.pdf")
    """


def test_matplotlib(cay, place):
    need_module("matplotlib")
    assert python(cay, PLOT.format(".", "."), "--get", "plot.*") == ""
    png = (place / "plot.png").read_bytes()
    assert png.startswith(PNG) and int.from_bytes(png[16:20], "big") == 320
    assert (place / "plot.pdf").read_bytes().startswith(b"%PDF-")


def test_matplotlib_in_a_read_only_workspace(cay, place):
    """It keeps settings and caches at home, which then is not the workspace."""
    need_module("matplotlib")
    assert python(cay, PLOT.format("/tmp", "/tmp"), "--workspace", place) == ""


def test_matplotlib_leaves_nothing_in_a_host_directory(cay, place, config, root):
    need_module("matplotlib")
    work = place / "work"
    work.mkdir()
    settings = config(f"[mounts]\nwrite = {work}\n")
    assert python(cay, PLOT.format(".", "."), "--workspace", f"{work}:rw", config=settings) == ""
    assert {p.name for p in work.iterdir()} == {"plot.png", "plot.pdf"}


def test_scikit_learn(cay):
    need_module("sklearn")
    out = python(cay, """
        from sklearn.datasets import load_iris
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        x, y = load_iris(return_X_y=True)
        print(LogisticRegression(max_iter=500).fit(x, y).score(x, y) > 0.95)
        print(RandomForestClassifier(20, n_jobs=2, random_state=0).fit(x, y).score(x, y) > 0.95)
        """)
    assert out == "True\nTrue\n"


def test_multiprocessing(cay, place):
    (place / "pool.py").write_text("""
import multiprocessing, os, sys
from multiprocessing import shared_memory

def square(n): return n * n

def fill(name, queue):
    block = shared_memory.SharedMemory(name)
    block.buf[:5] = b'hello'
    block.close()
    queue.put(os.getpid() != 2)

if __name__ == '__main__':
    for method in ('fork', 'spawn', 'forkserver'):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool: print(method, pool.map(square, range(5)))
        queue, block = context.Queue(), shared_memory.SharedMemory(create=True, size=4096)
        child = context.Process(target=fill, args=(block.name, queue))
        child.start()
        print(queue.get(timeout=20), bytes(block.buf[:5]))
        child.join()
        block.close()
        block.unlink()
    with multiprocessing.Pool() as pool: print(len(pool._pool), sum(pool.map(square, range(100))))
    with multiprocessing.Manager() as manager: print(list(manager.list([1, 2])))
    lock = multiprocessing.Lock()
    with lock: print('locked')
""")
    out = run(cay, PYTHON, "pool.py", options=["--put", "pool.py"])
    each = "[0, 1, 4, 9, 16]\nTrue b'hello'\n"
    assert out == f"fork {each}spawn {each}forkserver {each}1 328350\n[1, 2]\nlocked\n"


def test_executors(cay):
    out = python(cay, """
        import concurrent.futures as f, threading
        with f.ThreadPoolExecutor() as pool: print(sum(pool.map(len, ["ab"] * 100)))
        with f.ProcessPoolExecutor() as pool: print(sum(pool.map(abs, range(-9, 1))))
        threads = [threading.Thread(target=lambda: seen.append(threading.get_ident())) for _ in range(30)]
        seen = []
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(seen))
        """)
    assert out == "200\n45\n30\n"


def test_asyncio(cay):
    out = python(cay, """
        import asyncio
        async def serve(reader, writer):
            writer.write((await reader.readline()).upper())
            writer.close()
        async def main():
            server = await asyncio.start_server(serve, "localhost", 0)
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("localhost", port)
            writer.write(b"over loopback\\n")
            print((await reader.read()).decode(), end="")
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            print((await child.communicate(b"through a child"))[0].decode(), child.returncode)
            print(await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(3))))
            print(await asyncio.to_thread(sum, [1, 2]))
        asyncio.run(main())
        """)
    assert out == "OVER LOOPBACK\nthrough a child 0\n[0, 1, 2]\n3\n"


def test_sqlite3(cay):
    out = python(cay, """
        import sqlite3
        for where in ("db.sqlite", "/tmp/db.sqlite", ":memory:"):
            db = sqlite3.connect(where)
            db.execute("pragma journal_mode=wal")
            db.execute("create table t(n integer, s text)")
            with db: db.executemany("insert into t values(?, ?)", ((n, "x" * n) for n in range(100)))
            print(db.execute("select sum(n), max(length(s)) from t").fetchone())
        """)
    assert out == "(4950, 99)\n" * 3


def test_subprocess_and_temporary_files(cay):
    out = python(cay, """
        import os, subprocess, tempfile
        print(subprocess.run("echo $((6 * 7)) | cat", shell=True, capture_output=True, text=True).stdout, end="")
        print(subprocess.run(["false"]).returncode, subprocess.run(["sh", "-c", "kill -15 $$"]).returncode)
        try: subprocess.run(["sleep", "9"], timeout=0.1)
        except subprocess.TimeoutExpired as e: print("late")
        with tempfile.NamedTemporaryFile() as f: print(os.path.dirname(f.name))
        with tempfile.TemporaryDirectory() as d, tempfile.TemporaryFile(dir=d) as f: print(f.write(b"x" * 100))
        pid, terminal = os.forkpty()
        if pid == 0: os.execvp("sh", ["sh", "-c", "test -t 0 && tty"])
        print(os.read(terminal, 100).decode().strip(), os.waitpid(pid, 0)[1])
        """)
    assert out == "42\n1 -15\nlate\n/tmp\n100\n/dev/pts/0 0\n"


def wheel(place):
    """The smallest wheel there is, made by hand: no tool to build one is needed."""
    name = place / "tiny-1.0-py3-none-any.whl"
    files = {
        "tiny.py": "def answer():\n    return 42\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(name, "w") as z:
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
            record += f"{path},sha256={digest},{len(text)}\n"
            z.writestr(path, text)
        z.writestr("tiny-1.0.dist-info/RECORD", record + "tiny-1.0.dist-info/RECORD,,\n")
    return name.name


def test_pip_install(cay, place):
    need("pip3")
    out = shell(cay, f"""
        {PYTHON} -m pip install --no-index --target here ./{wheel(place)} | tail -1
        PYTHONPATH=here {PYTHON} -c 'import tiny; print(tiny.answer(), tiny.__file__)'
        """, "--put", wheel(place))
    assert out == "Successfully installed tiny-1.0\n42 /workspace/here/tiny.py\n"


def test_venv(cay, place):
    need_module("ensurepip")
    out = shell(cay, f"""
        {PYTHON} -m venv env
        . env/bin/activate
        pip install --no-index -q ./{wheel(place)}
        python -c 'import sys, tiny; print(tiny.answer(), sys.prefix)'
        """, "--put", wheel(place))
    assert out == "42 /workspace/env\n"


def test_pip_without_a_network_fails_clearly(cay):
    need("pip3")
    done = cay.run("--", PYTHON, "-m", "pip", "install", "--retries", "0", "--target", "x", "requests")
    assert done.rc == 1 and done.seconds < 20
    assert "No matching distribution found for requests" in done.errors
