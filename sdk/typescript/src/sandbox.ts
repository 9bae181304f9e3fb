// A sandbox that lives on, and its interpreters that remember.

import { Client, quote } from "./client.js";
import { Files } from "./files.js";
import { body, type Query } from "./http.js";
import {
  requestOf, type Call, type CodeOptions, type CommandOptions, type RunCall, type SandboxOptions, type Span,
} from "./options.js";
import { SandboxEvent, type SandboxResult } from "./result.js";
import { Events, type Run } from "./runs.js";
import { Terminal } from "./terminal.js";

type Info = Record<string, unknown>;

export interface TerminalOptions {
  /** A line for sh; without it a shell. */
  command?: string;
  cols?: number;
  rows?: number;
  term?: string;
  /** The id of one that is there already. */
  terminal?: string;
}

/** An interpreter that remembers: code finds what the one before it left. Its first code decides the language. */
export class Context {
  readonly #path: string;

  constructor(readonly client: Client, readonly sandbox: string, readonly name: string) {
    this.#path = `${sandbox}/contexts/${quote(name)}`;
  }

  /** Its results are what the code showed, last the value of the last expression. */
  async run(code: string, options: CodeOptions & RunCall = {}): Promise<SandboxResult> {
    return this.client.runAt(`${this.sandbox}/runs`, requestOf({ ...options, context: this.name }, code), options);
  }

  stream(code: string, options: CodeOptions & Call = {}): Events {
    return new Events(this.client, {
      method: "POST", path: `${this.sandbox}/runs`, last: "result", signal: options.signal,
      request: requestOf({ ...options, context: this.name }, code),
    });
  }

  async info(): Promise<Info> {
    return (await this.client.call("GET", this.#path)) as Info;
  }

  /** As Ctrl-C: the code ends, and what is remembered stays. */
  async interrupt(): Promise<void> {
    await this.client.call("POST", `${this.#path}/interrupt`);
  }

  /** One line for the input() that waits. */
  async answer(text: string): Promise<void> {
    await this.client.call("POST", `${this.#path}/input`, { json: { text } });
  }

  async restart(): Promise<void> {
    await this.client.call("POST", `${this.#path}/restart`);
  }

  async delete(): Promise<void> {
    await this.client.call("DELETE", this.#path);
  }
}

/** Files, packages and processes stay from one program to the next, until kill() or its time is over. */
export class Sandbox {
  readonly files: Files;
  readonly #made: boolean;

  private constructor(readonly client: Client, public info: Info, made: boolean) {
    this.#made = made;
    this.files = new Files(client, this.#path);
  }

  static async create(options: SandboxOptions & Call & { client?: Client } = {}): Promise<Sandbox> {
    const { client = new Client(), signal, ...fields } = options;
    return new Sandbox(client, (await client.call("POST", "/v1/sandboxes", {
      json: await requestOf(fields), ...(signal ? { signal } : {}),
    })) as Info, true);
  }

  /** One that is there, by its id or the name of one's own. */
  static async connect(id: string, { client = new Client() }: { client?: Client } = {}): Promise<Sandbox> {
    return new Sandbox(client, (await client.call("GET", `/v1/sandboxes/${quote(id)}`)) as Info, false);
  }

  static async list({ client = new Client() }: { client?: Client } = {}): Promise<Sandbox[]> {
    const answer = (await client.call("GET", "/v1/sandboxes")) as { sandboxes: Info[] };
    return answer.sandboxes.map((info) => new Sandbox(client, info, false));
  }

  /** `await using` ends a sandbox that was made there. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#made) await this.kill();
  }

  get id(): string {
    return String(this.info["id"]);
  }

  get name(): string | null {
    return this.info["name"] as string | null;
  }

  /** When it was last looked at: live, paused, stopped, unusable, lost or gone. */
  get state(): string {
    return String(this.info["state"]);
  }

  get #path(): string {
    return `/v1/sandboxes/${this.id}`;
  }

  // Programs

  /** Runs code; with context: "main" in an interpreter of that name, which remembers. */
  async runCode(code: string, options: CodeOptions & RunCall = {}): Promise<SandboxResult> {
    return this.client.runAt(`${this.#path}/runs`, requestOf(options, code), options);
  }

  /** Runs a line for sh, or a list of words as they are. */
  async runCommand(command: string | string[], options: CodeOptions & RunCall = {}): Promise<SandboxResult> {
    const what = typeof command === "string" ? { command } : { argv: command };
    return this.client.runAt(`${this.#path}/runs`, requestOf({ ...options, ...what }), options);
  }

  /** As runCode(), or with command, what it prints and shows as it comes. */
  stream(code: string | undefined, options: CommandOptions & Call = {}): Events {
    return new Events(this.client, {
      method: "POST", path: `${this.#path}/runs`, request: requestOf(options, code), last: "result",
      signal: options.signal,
    });
  }

  /** In the background. */
  async start(code: string | undefined, options: CommandOptions & Call = {}): Promise<Run> {
    return this.client.startAt(`${this.#path}/runs`, await requestOf(options, code), options);
  }

  context(name = "main"): Context {
    return new Context(this.client, this.#path, name);
  }

  async contexts(): Promise<Info[]> {
    return ((await this.client.call("GET", `${this.#path}/contexts`)) as { contexts: Info[] }).contexts;
  }

  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.client, `${this.#path}/terminal`, { cols: 80, rows: 24, ...options });
  }

  /** The last of what its programs printed. */
  async logs(query: { run?: string } = {}): Promise<SandboxEvent[]> {
    const answer = (await this.client.call("GET", `${this.#path}/logs`, { query })) as { logs: Info[] };
    return answer.logs.map((entry) => new SandboxEvent(String(entry["stream"]), entry));
  }

  /** What is there, then what comes; "end" is the last one, or "lost" for who can't keep up. */
  followLogs(options: { run?: string } & Call = {}): Events {
    const query: Query = { run: options.run, follow: true };
    return new Events(this.client, { method: "GET", path: `${this.#path}/logs`, query, last: "end", signal: options.signal });
  }

  /** What was changed in a workspace that is an overlay (workspace: "SRC:overlay"). */
  async workspaceDiff(): Promise<Info> {
    return (await this.client.call("GET", `${this.#path}/workspace/diff`)) as Info;
  }

  /** A changed file of it. */
  async workspaceRead(path: string): Promise<Buffer> {
    return this.client.told(async () => body(
      await this.client.ask({ method: "GET", path: `${this.#path}/workspace/files`, query: { path } })));
  }

  // Its life

  async refresh(): Promise<this> {
    this.info = (await this.client.call("GET", this.#path)) as Info;
    return this;
  }

  /** New labels and rules take the place of the old ones; a time to live counts from now. */
  async update(fields: {
    labels?: Record<string, string>; ttl?: Span; idleTimeout?: Span; allow?: string[]; block?: string[];
    extra?: Record<string, unknown>;
  }): Promise<this> {
    this.info = (await this.client.call("PATCH", this.#path, { json: await requestOf(fields) })) as Info;
    return this;
  }

  async pause(): Promise<this> {
    this.info = (await this.client.call("POST", `${this.#path}/pause`)) as Info;
    return this;
  }

  async resume(): Promise<this> {
    this.info = (await this.client.call("POST", `${this.#path}/resume`)) as Info;
    return this;
  }

  /** Ends it, with all that runs there. */
  async kill(): Promise<void> {
    await this.client.call("DELETE", this.#path);
    this.info = { ...this.info, state: "gone" };
  }
}
