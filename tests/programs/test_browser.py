"""A browser without a screen."""

from program import PNG, need, put, run

# --no-sandbox: its own sandbox needs namespaces, which an island does not give; the island is
# the sandbox. More processes and threads than 50: it has about 80 for one page.
CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--user-data-dir=/tmp/profile"]
PIDS = ["--pids-limit", "200"]

PAGE = """
    <!doctype html><title>t</title><body style="background: rgb(0, 128, 0)"><p id=p></p>
    <script>
        document.getElementById('p').textContent = 'six times seven is ' + 6 * 7;
        new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = () => document.title = 'worked';
    </script>
    """


def test_chromium_renders_a_page(cay, place):
    need("chromium")
    # Its notes on stderr about D-Bus and udev, which are not there, are its own.
    out = run(cay, *CHROMIUM, "--virtual-time-budget=2000", "--dump-dom", "file:///workspace/page.html",
              options=[*PIDS, *put(place, page_html=PAGE)], errors=None)
    assert "<p id=\"p\">six times seven is 42</p>" in out and "<title>worked</title>" in out


def test_chromium_makes_a_screenshot(cay, place):
    need("chromium")
    run(cay, *CHROMIUM, "--window-size=320,200", "--screenshot=/workspace/page.png", "file:///workspace/page.html",
        options=[*PIDS, *put(place, page_html=PAGE), "--get", "page.png"], errors=None)
    png = (place / "page.png").read_bytes()
    assert png.startswith(PNG) and [int.from_bytes(png[n:n + 4], "big") for n in (16, 20)] == [320, 200]
