// Against a daemon (CAY_HOST, CAY_TCP with CAY_KEY), and the program CAY_BIN without one.

import assert from "node:assert/strict";
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as cay from "../dist/index.js";
import { Frames } from "../dist/terminal.js";

const { Client, Sandbox, run, stream } = cay;
const place = mkdtempSync(join(tmpdir(), "cay-sdk-"));
let sandbox;

before(async () => {
  sandbox = await Sandbox.create();
});
after(async () => {
  await sandbox.kill();
  rmSync(place, { recursive: true });
});

async function rejects(promise, kind, code) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof kind, String(error));
    if (code) assert.equal(error.code, code);
    return true;
  });
}

async function until(true_) {
  const end = Date.now() + 20000;
  while (!(await true_())) {
    assert.ok(Date.now() < end, "it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a result is read as what was printed", async () => {
  const result = await run("print(6 * 7)");
  assert.deepEqual([`${result}`, result.stdout, result.success, result.exitCode], ["42", "42\n", true, 0]);
  assert.ok(result.usage.wall_ms > 0 && result.id.startsWith("run_") && result.sandboxed);
});

test("what a program did is a result, and with check an error", async () => {
  const result = await run("import sys; print('out'); sys.exit('no such luck')");
  assert.equal(`${result}`, "out\nno such luck\n[exited with code 1]");
  await rejects(run("import sys; sys.exit('no')", { check: true }), cay.SandboxError, "failed");
  await rejects(run("while True: pass", { timeout: 0.3, check: true }), cay.SandboxTimeoutError, "timeout");
});

test("everything that goes in and comes out", async () => {
  writeFileSync(join(place, "tool.sh"), "#!/bin/sh\necho from a tool\n", { mode: 0o755 });
  const result = await run(
    "import os, subprocess, sys\n" +
    "print(sys.argv[1:], sys.stdin.read(), os.environ['NAME_X'], open('a/b.txt').read())\n" +
    "print(subprocess.run(['./tool'], capture_output=True, text=True).stdout)\n" +
    "open('out.bin', 'wb').write(open('c.bin', 'rb').read() * 2)", {
      args: ["one", "two"], stdin: Buffer.from("typed"), env: { NAME_X: "value" }, get: "out.bin",
      files: { "a/b.txt": "text", "c.bin": new Uint8Array([255, 0]), tool: { file: join(place, "tool.sh") } },
      memory: "128m", cpus: 1, pids: 20, disk: "20m", timeout: "20s", output: "64k", cpuTime: 10, labels: { a: "b" },
    });
  assert.equal(result.stdout, "['one', 'two'] typed value text\nfrom a tool\n\n", `${result}`);
  assert.deepEqual(result.files, [{ path: "out.bin", data: Buffer.from([255, 0, 255, 0]) }]);
  const bytes = await run(undefined, { command: "printf '\\377a'" });
  assert.deepEqual([bytes.stdout, bytes.stdoutBytes], ["\ufffda", Buffer.from([255, 97])]);
  assert.equal((await run(undefined, { argv: ["echo", "a  b"] })).stdout, "a  b\n");
});

test("fields that this version does not know are the daemon's to judge", async () => {
  await rejects(run("1", { noSuchField: 1 }), cay.SandboxError, "invalid_request");
  assert.equal((await run("print(1)", { extra: { cold: true } })).start, "cold");
});

test("the family of errors", async () => {
  await rejects(run("1", { mounts: ["/etc:/data"] }), cay.SandboxPolicyError, "policy_denied");
  await rejects(Sandbox.connect("nobody"), cay.SandboxNotFoundError, "not_found");
  await rejects(Sandbox.connect(".."), cay.SandboxError, "invalid_request");
  await rejects(cay.validateMount("/etc/shadow"), cay.SandboxPolicyError);
  const result = await run("1", { language: "klingon", raiseErrors: false });
  assert.ok(!result.success && result.status === "error" && result.error instanceof cay.SandboxNotFoundError);
  const none = new Client({ host: `unix:${place}/nobody` });
  await rejects(none.run("1"), cay.SandboxError, "engine_unavailable");
  assert.equal((await none.run("1", { raiseErrors: false })).error.code, "engine_unavailable");
  await rejects(new Client({ host: "nonsense" }).run("1"), cay.SandboxError, "invalid_request");
});

test("events come as they happen", async () => {
  const events = stream(undefined, { command: "echo one; read x; echo $x >&2", stdin: "two" });
  const found = [];
  for await (const event of events) if (event.name.startsWith("std")) found.push([event.name, event.text]);
  assert.deepEqual(found, [["stdout", "one\n"], ["stderr", "two\n"]]);
  assert.equal((await events.result()).exitCode, 0);
});

test("leaving a stream and aborting cancel the program", async () => {
  const client = new Client();
  const running = async () => (await client.listRuns()).some((one) => one.status === "running");
  for await (const event of stream(undefined, { command: "echo begun; sleep 60" })) if (event.name === "stdout") break;
  await until(async () => !(await running()));
  const abort = new AbortController();
  const waiting = client.run(undefined, { command: "sleep 60", signal: abort.signal });
  waiting.catch(() => undefined);
  await until(running);
  abort.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  await until(async () => !(await running()));
  await assert.rejects(client.run(undefined, { command: "sleep 60", signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  await assert.rejects(async () => {
    for await (const _ of stream(undefined, { command: "sleep 60", signal: AbortSignal.timeout(200) }));
  }, { name: "TimeoutError" });
});

test("in the background, and in batches", async () => {
  const background = await cay.start(undefined, { command: "cat; sleep 0.1; echo done", stdin: "in " });
  assert.equal((await background.result({ check: true })).stdout, "in done\n");
  const long = await cay.start(undefined, { command: "sleep 60" });
  await long.cancel();
  assert.equal((await long.result()).status, "cancelled");
  const results = await new Client().runMany(["print(0)", { command: "echo 1" }, { code: "1", language: "klingon" }], { parallel: 2 });
  assert.deepEqual(results.map((one) => [one.success, one.stdout]), [[true, "0\n"], [true, "1\n"], [false, ""]]);
});

test("a sandbox remembers", async () => {
  await sandbox.runCommand("echo hello >greeting", { check: true });
  assert.equal((await sandbox.runCommand(["cat", "greeting"])).stdout, "hello\n");
  assert.ok((await Sandbox.list()).some((one) => one.id === sandbox.id));
  const other = await Sandbox.create({ name: "named", files: { "in.txt": "x" }, idleTimeout: 60 });
  assert.equal(await (await Sandbox.connect("named")).files.readText("in.txt"), "x");
  assert.deepEqual((await other.update({ labels: { c: "d" }, ttl: 60 })).info.labels, { c: "d" });
  assert.equal((await other.pause()).state, "paused");
  assert.equal((await other.resume()).state, "live");
  if (Symbol.asyncDispose) await other[Symbol.asyncDispose]();
  else await other.kill();
  await rejects(Sandbox.connect("named"), cay.SandboxNotFoundError);
});

test("files", async () => {
  const { files } = sandbox;
  assert.equal((await files.write("t/a.txt", "text\n")).size, 5);
  await files.write("t/a.txt", Buffer.from("more"), { append: true });
  assert.equal(await files.readText("t/a.txt"), "text\nmore");
  await rejects(files.write("t/a.txt", "x", { overwrite: false }), cay.SandboxError, "conflict");
  assert.ok((await files.write("t/run", "x", { mode: 0o755 })).mode.endsWith("755"));
  assert.equal((await files.mkdir("t/sub")).type, "directory");
  assert.deepEqual((await files.list("t")).map((entry) => entry.name), ["a.txt", "run", "sub"]);
  assert.equal((await files.move("t/a.txt", "t/b ä%&.txt")).name, "b ä%&.txt");
  assert.ok((await files.exists("t/b ä%&.txt")) && !(await files.exists("t/a.txt")));
  assert.equal(await files.remove("t", { recursive: true }), 4);
  await rejects(files.read("t/run"), cay.SandboxNotFoundError);
});

test("trees go in and come out", async () => {
  const tree = join(place, "tree");
  mkdirSync(join(tree, "empty"), { recursive: true });
  writeFileSync(join(tree, "big"), Buffer.alloc(3 << 20, "x"));
  writeFileSync(join(tree, "run"), "#!/bin/sh\n", { mode: 0o755 });
  symlinkSync("/etc/passwd", join(tree, "link"));
  await sandbox.files.upload(tree, "tree2");
  await sandbox.runCommand("ln -s /etc/passwd tree2/evil; ln -s / tree2/dir; mkfifo tree2/pipe");
  await sandbox.files.download("tree2", join(place, "back"));
  assert.deepEqual(readdirSync(join(place, "back")).sort(), ["big", "empty", "run"]);
  assert.ok(readFileSync(join(place, "back", "big")).equals(readFileSync(join(tree, "big"))));
  await assert.rejects(sandbox.files.download("tree2", join(place, "back")), { code: "EEXIST" });
  const packed = [];
  for await (const data of sandbox.files.pack("tree2")) packed.push(data);
  await sandbox.files.mkdir("again");
  await sandbox.files.unpack(Buffer.concat(packed), "again");
  assert.ok(await sandbox.files.exists("again/run"));
});

test("what changes is told", async () => {
  await sandbox.files.mkdir("watched");
  const events = sandbox.files.watch("watched");
  const first = events.next();
  let stop = false;
  const writing = (async () => {
    for (let n = 0; !stop; n++) {
      await sandbox.files.write(`watched/${n}`, "1");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  assert.equal((await first).value.name, "change");
  stop = true;
  await writing;
  await events.close();
});

test("a context remembers and shows values", async () => {
  const main = sandbox.context("py");
  await main.run("x = [3, 1, 2]", { check: true });
  const result = await main.run("print('said'); sorted(x)");
  assert.deepEqual([result.text, result.stdout, result.context], ["[1, 2, 3]", "said\n", "py"]);
  assert.equal((await sandbox.runCode("sum(x)", { context: "py" })).text, "6");
  assert.equal((await main.run("1 / 0")).exception.name, "ZeroDivisionError");
  const events = main.stream("name = input('who? ')\nprint('hello', name, flush=True)\nwhile True: pass");
  for await (const event of events) {
    if (event.name === "input") await main.answer("cay");
    if (event.name === "stdout" && event.text.includes("hello")) await main.interrupt();
  }
  assert.equal((await events.result()).exception.name, "KeyboardInterrupt");
  assert.equal((await main.run("name")).text, "'cay'");
  await main.restart();
  await main.delete();
  assert.deepEqual(await sandbox.contexts(), []);
});

test("a terminal", async () => {
  const terminal = await sandbox.terminal({ cols: 100, rows: 30 });
  terminal.send("stty size; tty\n");
  assert.match(await terminal.readUntil("/dev/pts/"), /30 100/);
  terminal.resize(50, 20);
  terminal.send("stty size\n");
  assert.match(await terminal.readUntil("20 50"), /20 50/);
  terminal.send("exit 3\n");
  for await (const _ of terminal);
  assert.deepEqual([terminal.exitCode, terminal.signal], [3, null]);
  const other = await sandbox.terminal({ command: "cat" });
  other.kill("KILL");
  while (await other.read());
  assert.equal(other.signal, 9);
});

test("frames of a WebSocket in pieces", () => {
  const part = (opcode, data, last = true) => Buffer.concat([Buffer.from([(last ? 0x80 : 0) | opcode, data.length]), data]);
  const all = Buffer.concat([part(2, Buffer.alloc(99, "a"), false), part(9, Buffer.from("ping")), part(0, Buffer.from("b")), part(1, Buffer.from("{}"))]);
  for (const step of [1, 7, 1000]) {
    const frames = new Frames();
    const found = [];
    for (let at = 0; at < all.length; at += step) found.push(...frames.feed(all.subarray(at, at + step)));
    assert.deepEqual(found.map(([opcode, data]) => [opcode, data.length]), [[9, 4], [2, 100], [1, 2]]);
  }
  for (const bad of [[0xf2, 0], [0x80, 0], [0x82, 0x80], [0x82, 127, 1, 0, 0, 0, 0, 0, 0, 0]])
    assert.throws(() => new Frames().feed(Buffer.from(bad)), cay.SandboxError);
});

test("logs", async () => {
  const background = await sandbox.start(undefined, { command: "echo logged" });
  assert.equal((await background.result()).stdout, "logged\n");
  assert.deepEqual((await sandbox.logs({ run: background.id })).map((event) => event.text), ["logged\n"]);
  for await (const event of sandbox.followLogs({ run: background.id })) {
    assert.equal(event.text, "logged\n");
    break;
  }
});

test("by TCP with a key", async () => {
  const client = new Client({ host: process.env.CAY_TCP, apiKey: process.env.CAY_KEY });
  assert.equal((await client.run("print(1)")).stdout, "1\n");
  assert.equal((await client.health()).status, "ok");
  await rejects(new Client({ host: process.env.CAY_TCP }).run("1"), cay.SandboxPolicyError, "unauthorized");
  const made = await Sandbox.create({ client });
  const terminal = await made.terminal({ command: "echo by tcp" });
  assert.match(await terminal.readUntil("by tcp"), /by tcp/);
  await made.kill();
});

test("by the program alone", async () => {
  const client = new Client({ binary: process.env.CAY_BIN, local: true });
  const result = await client.run(
    "import os, sys; print(sys.argv[1:], sys.stdin.read(), os.environ['A'], open('f').read())\nopen('o', 'w').write('1')",
    { args: ["-x", "--json"], stdin: "in", env: { A: "b c" }, files: { f: Buffer.from("file") }, get: ["o"], memory: "64m", timeout: 20 });
  assert.equal(result.stdout, "['-x', '--json'] in b c file\n", `${result}`);
  assert.equal(result.files[0].data.toString(), "1");
  assert.equal((await client.run(undefined, { command: "cat; exit 3", stdin: "x" })).exitCode, 3);
  assert.equal((await client.run(undefined, { argv: ["cat"], stdin: "y" })).stdout, "y");
  const names = [];
  for await (const event of client.stream("print(1)")) names.push(event.name);
  assert.deepEqual(names, ["stdout", "result"]);
  assert.deepEqual((await client.runMany(["print(1)", { code: "1", rich: true }])).map((one) => one.success), [true, false]);
  for (const options of [{ rich: true }, { workspace: { name: "kept" } }, { env: { A: "b\nc" } }, { openFiles: 20 }])
    await rejects(client.run("1", options), cay.SandboxError, "unsupported");
  await rejects(Sandbox.create({ client }), cay.SandboxError, "engine_unavailable");
  await rejects(new Client({ binary: "/nowhere/cay", local: true }).run("1"), cay.SandboxError, "engine_unavailable");
  await assert.rejects(client.run(undefined, { command: "sleep 60", signal: AbortSignal.timeout(500) }), { name: "TimeoutError" });
});
