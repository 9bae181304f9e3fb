// With no daemon: a request as words for the `cay` program that came with this package, or is installed.

import { spawn } from "node:child_process";
import { accessSync, constants, promises as fs } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { fileURLToPath } from "node:url";
import { SandboxError, errorOf, isRecord } from "./errors.js";
import { parseJson } from "./http.js";
import type { Request } from "./options.js";

const OPTIONS = { image: "--image", engine: "--engine", user: "--user", workdir: "--workdir" };
const SWITCHES = {
  writable: "--writable",
  cold: "--cold",
  allow_degraded: "--allow-degraded",
  dry_run: "--dry-run",
};
const LIMITS = {
  memory: "--memory",
  cpus: "--cpus",
  pids: "--pids-limit",
  disk: "--disk",
  timeout: "--timeout",
  cpu_time: "--cpu-time",
  output: "--output-limit",
};

function runs(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export function packagedBinary(): string | null {
  const file = fileURLToPath(new URL("../bin/cay", import.meta.url));
  return runs(file) ? file : null;
}

/** The one that is named, that came along, or that is installed. */
export function findBinary(named?: string): string | null {
  if (named) return named;
  const installed = (process.env["PATH"] ?? "").split(":").filter((dir) => dir.startsWith("/"))
    .map((dir) => path.join(dir, "cay"));
  return packagedBinary() ?? installed.find(runs) ?? null;
}

function unsupported(what: string): SandboxError {
  return new SandboxError(`${what} needs a daemon`, {
    code: "unsupported",
    hint: "start one: cay serve; or say where it is: CAY_HOST",
  });
}

function take<T>(fields: Request, name: string): T | undefined {
  const value = fields[name] as T | undefined;
  delete fields[name];
  return value;
}

function takeOptions(fields: Request): string[] {
  const words: string[] = [];
  for (const [name, option] of Object.entries({ ...OPTIONS, ...SWITCHES })) {
    const value = take<unknown>(fields, name);
    if (value === true) words.push(option);
    else if (value !== undefined && value !== false) words.push(option, String(value));
  }
  const limits = { ...take<Request>(fields, "limits") };
  for (const [name, option] of Object.entries(LIMITS)) {
    const value = take<unknown>(limits, name);
    if (value !== undefined) words.push(option, String(value));
  }
  if (Object.keys(limits).length) throw unsupported(`limits: ${Object.keys(limits).join(", ")}`);
  const network = { ...take<Request>(fields, "network") };
  const mode = take<string>(network, "mode");
  if (mode) words.push("--network", mode);
  for (const domain of take<string[]>(network, "allow") ?? []) words.push("--allow-domain", domain);
  for (const domain of take<string[]>(network, "block") ?? []) words.push("--block-domain", domain);
  if (Object.keys(network).length) throw unsupported(`network: ${Object.keys(network).join(", ")}`);
  for (const one of take<Record<string, string>[]>(fields, "mounts") ?? [])
    words.push("--volume", `${one["source"]}:${one["target"]}:${one["access"] ?? "ro"}`);
  const workspace = take<Record<string, string>>(fields, "workspace");
  if (workspace && !("source" in workspace)) throw unsupported("a workspace with a name");
  if (workspace) words.push("--workspace", `${workspace["source"]}:${workspace["access"] ?? "ro"}`);
  for (const glob of take<string[]>(fields, "get") ?? []) words.push("--get", glob);
  return words;
}

/** The last words, and the code. */
function takeProgram(fields: Request): [string[], string | undefined] {
  const language = take<string>(fields, "language");
  const version = take<string>(fields, "version");
  const args = take<string[]>(fields, "args") ?? [];
  const argv = take<string[]>(fields, "argv");
  const command = take<string>(fields, "command");
  const code = take<string>(fields, "code");
  if (argv) return [["--", ...argv, ...args], undefined];
  if (command !== undefined) return [["--language", "sh", "-", ...args], command];
  if (code === undefined)
    throw new SandboxError("one of code, command and argv says what to run", { code: "invalid_request" });
  const name = language ?? "python";
  return [["--language", version ? `${name}@${version}` : name, "-", ...args], code];
}

/** Values go by files in a directory that only we can read: on a command line all could. */
async function putFiles(place: string, fields: Request): Promise<string[]> {
  const words: string[] = [];
  const files = take<Record<string, unknown>[]>(fields, "files") ?? [];
  for (const [n, one] of files.entries()) {
    const name = String(one["path"]);
    if (name.includes(":")) throw unsupported(`a file called '${name}'`);
    const file = path.join(place, String(n));
    const data = "text" in one ? Buffer.from(String(one["text"])) : Buffer.from(String(one["data"]), "base64");
    await fs.writeFile(file, data, { mode: one["executable"] ? 0o700 : 0o600 });
    words.push("--put", `${file}:${name}`);
  }
  const env = take<Record<string, string>>(fields, "env");
  if (env) {
    const pairs = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    if (pairs.some((pair) => /[\n\0]/.test(pair))) throw unsupported("a variable with a line break");
    await fs.writeFile(path.join(place, "env"), pairs.map((pair) => `${pair}\n`).join(""), { mode: 0o600 });
    words.push("--env-file", path.join(place, "env"));
  }
  return words;
}

/** The result, or its error. */
export async function runHere(binary: string, request: Request, signal?: AbortSignal): Promise<Record<string, unknown>> {
  signal?.throwIfAborted();
  const fields = { ...request };
  for (const name of ["idempotency_key", "wait"]) delete fields[name]; // nobody else is here
  const [program, code] = takeProgram(fields);
  const words = ["run", "--json", ...takeOptions(fields)];
  const place = await fs.mkdtemp(path.join(tmpdir(), "cay-put-"));
  try {
    words.push(...(await putFiles(place, fields)));
    let stdin = Buffer.from(take<string>(fields, "stdin") ?? "");
    const exact = take<string>(fields, "stdin_base64");
    if (exact !== undefined) stdin = Buffer.from(exact, "base64");
    if (code !== undefined) {
      await fs.writeFile(path.join(place, "stdin"), stdin, { mode: 0o600 });
      words.push("--stdin", path.join(place, "stdin"));
      stdin = Buffer.from(code);
    }
    if (Object.keys(fields).length) throw unsupported(Object.keys(fields).join(", "));
    return answerOf(...(await execute(binary, [...words, ...program], stdin, signal)));
  } finally {
    await fs.rm(place, { recursive: true, force: true });
  }
}

function execute(binary: string, words: string[], stdin: Buffer, signal?: AbortSignal): Promise<[Buffer, Buffer]> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, words, { stdio: ["pipe", "pipe", "pipe"] });
    const said: [Buffer[], Buffer[]] = [[], []];
    // It is asked to end, and clears up.
    const end = () => child.kill("SIGTERM");
    signal?.addEventListener("abort", end, { once: true });
    child.stdout.on("data", (data: Buffer) => said[0].push(data));
    child.stderr.on("data", (data: Buffer) => said[1].push(data));
    child.stdin.on("error", () => undefined); // it need not read it
    child.stdin.end(stdin);
    child.on("error", (error) => reject(
      new SandboxError(`${binary} can't be run: ${error.message}`, { code: "engine_unavailable" })));
    child.on("close", () => {
      signal?.removeEventListener("abort", end);
      if (signal?.aborted) reject(signal.reason);
      else resolve([Buffer.concat(said[0]), Buffer.concat(said[1])]);
    });
  });
}

function answerOf(stdout: Buffer, stderr: Buffer): Record<string, unknown> {
  if (!stdout.toString().trim())
    throw new SandboxError(stderr.toString().trim().slice(-2000) || "cay ended without a word");
  const answer = parseJson(stdout);
  if (!isRecord(answer)) throw new SandboxError("cay said no result");
  if ("error" in answer) throw errorOf(answer);
  return answer;
}
