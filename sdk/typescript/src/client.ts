// What talks to a daemon, or where there is none, runs the program `cay`.

import { SandboxError, errorOf, isRecord } from "./errors.js";
import { NoDaemon, ask, body, lines, parseJson, pieces, type Answer, type Body, type Query } from "./http.js";
import { findBinary, runHere } from "./local.js";
import { mountOf, requestOf, type Call, type Mount, type Request, type RunCall, type RunOptions } from "./options.js";
import { findPlace, keyHeader } from "./place.js";
import { SandboxResult } from "./result.js";
import { Events, Run } from "./runs.js";

export interface ClientOptions {
  /** unix:PATH or http://HOST:PORT; without it CAY_HOST, else the default socket. */
  host?: string;
  /** Without it CAY_API_KEY. */
  apiKey?: string;
  /** The program `cay`; without it the one of this package, or one in PATH. */
  binary?: string;
  /** true: never look for a daemon; false: insist on one. */
  local?: boolean;
  /** How long a call may go without a byte; programs have their own time, and are waited for. */
  timeoutMs?: number;
}

interface Asking extends Call {
  method: string;
  path: string;
  query?: Query | undefined;
  headers?: Record<string, string>;
  body?: Body;
  json?: Request;
  patient?: boolean;
}

export type BatchEntry = { index: number; result?: SandboxResult; error?: SandboxError };
export type Batched = string | (RunOptions & { code?: string });

/** As a part of a path; "." and ".." are none. */
export function quote(part: string): string {
  if (["", ".", ".."].includes(part)) throw new SandboxError(`'${part}' is no id and no name`, { code: "invalid_request" });
  return encodeURIComponent(part);
}

export class Client {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions = {}) {
    this.#options = options;
  }

  // Programs

  /** Runs a program on an island of its own, and waits for its end. */
  async run(code: string | undefined, options: RunOptions & RunCall = {}): Promise<SandboxResult> {
    return this.runAt("/v1/runs", requestOf(options, code), options);
  }

  /** The same, with what it prints as it comes. With no daemon all events come at the end. */
  stream(code: string | undefined, options: RunOptions & Call = {}): Events {
    return new Events(this, {
      method: "POST", path: "/v1/runs", request: requestOf(options, code), last: "result", signal: options.signal,
    });
  }

  /** Starts it in the background, on the daemon. */
  async start(code: string | undefined, options: RunOptions & Call = {}): Promise<Run> {
    return this.startAt("/v1/runs", await requestOf(options, code), options);
  }

  async getRun(id: string, call: Call = {}): Promise<Run> {
    return new Run(this, (await this.call("GET", `/v1/runs/${quote(id)}`, call)) as Request);
  }

  /** Those under way and of the past, latest first. */
  async listRuns(options: { sandbox?: string; limit?: number } & Call = {}): Promise<Record<string, unknown>[]> {
    const { signal, ...query } = options;
    const answer = await this.call("GET", "/v1/runs", { query, ...(signal ? { signal } : {}) });
    return (answer as { runs: Record<string, unknown>[] }).runs;
  }

  /** Many programs, each a code or run()'s options; as they end, with their index. */
  async *batch(runs: Iterable<Batched>, options: { parallel?: number } & Call = {}): AsyncGenerator<BatchEntry> {
    const requests = await Promise.all([...runs].map((run) => (typeof run === "string" ? requestOf({}, run) : requestOf(run))));
    const { signal, ...more } = options;
    let answer: Answer;
    try {
      answer = await this.ask({ method: "POST", path: "/v1/batches", json: { runs: requests, ...more }, patient: true,
        ...(signal ? { signal } : {}) });
    } catch (error) {
      if (!(error instanceof NoDaemon)) throw error;
      for (const [index, request] of requests.entries()) yield { index, ...(await this.#entry(error, request, signal)) };
      return;
    }
    for await (const line of lines(pieces(answer.response, signal))) {
      if (!line) continue;
      const one = parseJson(line) as Record<string, unknown>;
      yield "result" in one
        ? { index: Number(one["index"]), result: new SandboxResult(one["result"]) }
        : { index: Number(one["index"]), error: errorOf(one["error"]) };
    }
  }

  async #entry(nobody: NoDaemon, request: Request, signal?: AbortSignal): Promise<Omit<BatchEntry, "index">> {
    try {
      return { result: new SandboxResult(await this.runHere(nobody, request, signal)) };
    } catch (error) {
      if (error instanceof SandboxError) return { error };
      throw error;
    }
  }

  /** The same, in their order; what cay could not do is an unsuccessful result. */
  async runMany(runs: Iterable<Batched>, options: { parallel?: number } & Call = {}): Promise<SandboxResult[]> {
    const found: SandboxResult[] = [];
    for await (const one of this.batch(runs, options))
      found[one.index] = one.result ?? SandboxResult.ofError(one.error!);
    return found;
  }

  /** What would be done and enforced. */
  async dryRun(code: string | undefined, options: RunOptions & Call = {}): Promise<Record<string, unknown>> {
    const request = { ...(await requestOf(options, code)), dry_run: true };
    const answer = await this.#runRaw("/v1/runs", request, options.signal);
    return answer["dry_run"] as Record<string, unknown>;
  }

  /**
   * The mount as it is asked for; SandboxPolicyError where the operator does not allow it. It is tried, with a
   * program that does nothing: only who mounts knows what a path leads to.
   */
  async validateMount(source: string, target = "/data", access: "ro" | "rw" = "ro"): Promise<Mount> {
    const mount = mountOf({ source, target, access });
    await this.run(undefined, { argv: ["true"], mounts: [mount], check: true });
    return mount;
  }

  // The service

  async health(call: Call = {}): Promise<Record<string, unknown>> {
    return (await this.call("GET", "/v1/health", call)) as Record<string, unknown>;
  }

  /** The languages that programs can be in. */
  async runtimes(language?: string): Promise<Record<string, unknown>> {
    return (await this.call("GET", "/v1/runtimes", { query: { language } })) as Record<string, unknown>;
  }

  async images(): Promise<Record<string, unknown>[]> {
    return ((await this.call("GET", "/v1/images")) as { images: Record<string, unknown>[] }).images;
  }

  /** Any operation of the HTTP API with JSON both ways, for what has no method of its own. */
  async call(method: string, path: string, more: { json?: Request; query?: Query } & Call = {}): Promise<unknown> {
    return this.told(async () => {
      const data = await body(await this.ask({ method, path, ...more }), more.signal);
      return data.length ? parseJson(data) : undefined;
    });
  }

  // For the other classes

  /** NoDaemon where there is another way. */
  async ask(what: Asking): Promise<Answer> {
    const { json, patient, ...more } = what;
    if (this.#options.local)
      throw new NoDaemon(new SandboxError("a daemon is needed for that, and local: true says there is none", {
        code: "engine_unavailable",
      }));
    const place = findPlace(this.#options.host);
    if (!place)
      throw new NoDaemon(new SandboxError("XDG_RUNTIME_DIR is not set", {
        code: "invalid_request", hint: "say where the socket is: CAY_HOST=unix:PATH",
      }));
    const { idempotency_key: once, ...request } = json ?? {};
    return ask(place, {
      ...more,
      idleMs: patient ? undefined : (this.#options.timeoutMs ?? 60_000),
      headers: {
        ...keyHeader(this.#options.apiKey),
        ...(json ? { "Content-Type": "application/json" } : {}),
        ...(once ? { "Idempotency-Key": String(once) } : {}),
        ...what.headers,
      },
      body: json ? Buffer.from(JSON.stringify(request)) : what.body,
    });
  }

  /** By the binary; where there is none, nobody is what is wrong. */
  async runHere(nobody: NoDaemon, request: Request, signal?: AbortSignal): Promise<Record<string, unknown>> {
    const binary = findBinary(this.#options.binary);
    if (this.#options.local === false || !binary) throw nobody.error;
    return runHere(binary, request, signal);
  }

  /** Its error, where what has no other way finds no daemon. */
  async told<T>(what: () => Promise<T>): Promise<T> {
    try {
      return await what();
    } catch (error) {
      throw error instanceof NoDaemon ? error.error : error;
    }
  }

  async #runRaw(path: string, request: Request, signal?: AbortSignal): Promise<Record<string, unknown>> {
    const aborts = signal ? { signal } : {};
    let answer: Answer;
    try {
      answer = await this.ask({ method: "POST", path, json: request, patient: true, ...aborts });
    } catch (error) {
      if (!(error instanceof NoDaemon)) throw error;
      if (path !== "/v1/runs") throw error.error;
      return this.runHere(error, request, signal);
    }
    const raw = parseJson(await body(answer, signal));
    return isRecord(raw) ? raw : {};
  }

  async runAt(path: string, request: Promise<Request>, options: RunCall): Promise<SandboxResult> {
    let result: SandboxResult;
    try {
      result = new SandboxResult(await this.#runRaw(path, await request, options.signal));
    } catch (error) {
      if (options.raiseErrors === false && error instanceof SandboxError) return SandboxResult.ofError(error);
      throw error;
    }
    return options.check ? result.check() : result;
  }

  async startAt(path: string, request: Request, call: Call): Promise<Run> {
    const { signal } = call;
    return new Run(this, (await this.call("POST", path, {
      json: { ...request, background: true }, ...(signal ? { signal } : {}),
    })) as Record<string, unknown>);
  }
}
