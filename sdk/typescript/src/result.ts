// What comes back: results, the things that code showed, events, files.

import { broken, errorOfResult, isRecord, type SandboxError } from "./errors.js";

/** One thing that code showed, by MIME types; bytes are base64, JSON is itself. */
export type Bundle = Record<string, unknown>;

export interface OutputFile {
  path: string;
  data: Buffer;
}

export interface FileEntry {
  path: string;
  name: string;
  type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  size: number;
  mode: string;
  /** Seconds since 1970. */
  mtime: number;
  target?: string;
}

export interface Usage {
  wall_ms: number;
  cpu_ms: number | null;
  memory_peak_bytes: number | null;
  processes_peak: number | null;
  [more: string]: unknown;
}

type Json = Record<string, unknown>;

function text(raw: Json, name: string): string {
  const value = raw[name];
  return typeof value === "string" ? value : "";
}

function number(raw: Json, name: string): number | null {
  const value = raw[name];
  return typeof value === "number" ? value : null;
}

function list<T>(raw: Json, name: string): T[] {
  const value = raw[name];
  return Array.isArray(value) ? (value as T[]) : [];
}

/** How a program ended, and what it printed and showed. raw is all that the daemon said. */
export class SandboxResult {
  readonly success: boolean;
  readonly status: string;
  /** The status in words. */
  readonly message: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
  readonly signal: number | null;
  readonly timedOut: boolean;
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
  readonly results: Bundle[];
  readonly files: OutputFile[];
  readonly exception: { name: string; value: string; traceback: string } | null;
  readonly notes: string[];
  readonly context: string | null;
  readonly stateLost: boolean;
  readonly compile: Json | null;
  readonly usage: Usage | null;
  readonly egress: Json[];
  readonly egressUnlisted: number;
  readonly isolation: Json | null;
  readonly id: string | null;
  readonly engine: string | null;
  readonly engineReason: string | null;
  readonly start: string | null;
  readonly image: string | null;
  readonly language: string | null;
  readonly version: string | null;
  readonly network: string | null;
  readonly networkRules: Json | null;
  readonly policy: Json | null;
  readonly sandboxed: boolean | null;
  readonly sandbox: string | null;
  /** With raiseErrors: false, what cay could not do. */
  readonly error: SandboxError | undefined;
  readonly raw: Json;

  constructor(raw: unknown, error?: SandboxError) {
    if (!isRecord(raw) || typeof raw["success"] !== "boolean" || typeof raw["status"] !== "string")
      throw broken("it is no result");
    const word = (name: string) => (typeof raw[name] === "string" ? (raw[name] as string) : null);
    const object = (name: string) => (isRecord(raw[name]) ? (raw[name] as Json) : null);
    this.raw = raw;
    this.error = error;
    this.success = raw["success"];
    this.status = raw["status"];
    this.message = text(raw, "message");
    this.stdout = text(raw, "stdout");
    this.stderr = text(raw, "stderr");
    this.exitCode = number(raw, "exit_code");
    this.signal = number(raw, "signal");
    this.timedOut = raw["timed_out"] === true;
    this.stdoutTruncated = raw["stdout_truncated"] === true;
    this.stderrTruncated = raw["stderr_truncated"] === true;
    this.results = list<Bundle>(raw, "results").filter(isRecord);
    this.files = list<Json>(raw, "files").filter(isRecord)
      .map((file) => ({ path: text(file, "path"), data: Buffer.from(text(file, "data"), "base64") }));
    this.exception = object("exception") as SandboxResult["exception"];
    this.notes = list<string>(raw, "notes");
    this.context = word("context");
    this.stateLost = raw["state_lost"] === true;
    this.compile = object("compile");
    this.usage = object("usage") as Usage | null;
    this.egress = list<Json>(raw, "egress");
    this.egressUnlisted = number(raw, "egress_unlisted") ?? 0;
    this.isolation = object("isolation");
    this.id = word("id");
    this.engine = word("engine");
    this.engineReason = word("engine_reason");
    this.start = word("start");
    this.image = word("image");
    this.language = word("language");
    this.version = word("version");
    this.network = word("network");
    this.networkRules = object("network_rules");
    this.policy = object("policy");
    this.sandboxed = typeof raw["sandboxed"] === "boolean" ? raw["sandboxed"] : null;
    this.sandbox = word("sandbox");
  }

  static ofError(error: SandboxError): SandboxResult {
    return new SandboxResult({ success: false, status: "error", message: error.message }, error);
  }

  get stdoutBytes(): Buffer {
    return this.#bytes("stdout");
  }

  get stderrBytes(): Buffer {
    return this.#bytes("stderr");
  }

  #bytes(name: "stdout" | "stderr"): Buffer {
    const exact = this.raw[`${name}_base64`];
    return typeof exact === "string" ? Buffer.from(exact, "base64") : Buffer.from(this[name]);
  }

  /** The value of the last expression, where code ran in a context or with rich. */
  get text(): string {
    const last = this.results[this.results.length - 1];
    return last ? String(last["text/plain"] ?? "") : "";
  }

  /** Itself, or an error if the program did not end well. */
  check(): this {
    if (this.error) throw this.error;
    if (!this.success) throw errorOfResult(this);
    return this;
  }

  /** For people and models: what was printed and shown, and how it ended if not well. */
  toString(): string {
    const parts = [this.stdout, ...this.results.map((bundle) => String(bundle["text/plain"] ?? "")), this.stderr];
    if (this.exception?.traceback) parts.push(this.exception.traceback);
    if (!this.success) parts.push(`[${this.message || this.status}]`);
    return parts.filter((part) => part).map((part) => part.replace(/\n+$/, "")).join("\n");
  }
}

/** What happened: name is queued, start, stdout, stderr, display, note, input or result. */
export class SandboxEvent {
  constructor(readonly name: string, readonly data: Record<string, unknown>) {}

  /** Of output. */
  get bytes(): Buffer {
    const exact = this.data["base64"];
    return typeof exact === "string" ? Buffer.from(exact, "base64") : Buffer.from(text(this.data, "text"));
  }

  /** Of output and notes; bytes that are no UTF-8 are U+FFFD. */
  get text(): string {
    return this.bytes.toString("utf8");
  }

  /** Of result, which is the last one. */
  get result(): SandboxResult | undefined {
    return this.name === "result" ? new SandboxResult(this.data) : undefined;
  }
}
