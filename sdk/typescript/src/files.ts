// The files of a sandbox. Relative paths count from its workspace.

import { constants, createReadStream, createWriteStream, promises as fs } from "node:fs";
import * as path from "node:path";
import { pipeline } from "node:stream/promises";
import { SandboxNotFoundError, broken } from "./errors.js";
import { body, parseJson, pieces, type Body, type Query } from "./http.js";
import type { Client } from "./client.js";
import type { Call } from "./options.js";
import type { FileEntry } from "./result.js";
import { Events } from "./runs.js";

export interface WriteOptions extends Call {
  mode?: number;
  append?: boolean;
  /** false: it must be new. */
  overwrite?: boolean;
}

const octal = (mode: number | undefined) => (mode === undefined ? undefined : mode.toString(8).padStart(3, "0"));

export class Files {
  readonly #client: Client;
  readonly #path: string;

  constructor(client: Client, sandbox: string) {
    this.#client = client;
    this.#path = `${sandbox}/files`;
  }

  async read(name: string, call: Call = {}): Promise<Buffer> {
    return this.#client.told(async () => body(
      await this.#client.ask({ method: "GET", path: this.#path, query: { path: name }, ...call }), call.signal));
  }

  async readText(name: string, call: Call = {}): Promise<string> {
    return (await this.read(name, call)).toString("utf8");
  }

  /** Of a file of any size. */
  async *readPieces(name: string, call: Call = {}): AsyncGenerator<Buffer> {
    const answer = await this.#client.told(() =>
      this.#client.ask({ method: "GET", path: this.#path, query: { path: name }, ...call }));
    yield* pieces(answer.response, call.signal);
  }

  /** All of it or nothing; directories on the way are made. */
  async write(name: string, data: string | Body, options: WriteOptions = {}): Promise<FileEntry> {
    const { signal, mode, append, overwrite } = options;
    return (await this.#send("PUT", this.#path, typeof data === "string" ? Buffer.from(data) : data, {
      path: name, mode: octal(mode), append, overwrite: overwrite === false ? "0" : undefined,
    }, "application/octet-stream", signal)) as FileEntry;
  }

  async #send(method: string, where: string, data: Body, query: Query, type: string, signal?: AbortSignal) {
    return this.#client.told(async () => parseJson(await body(await this.#client.ask({
      method, path: where, query, body: data, headers: { "Content-Type": type }, ...(signal ? { signal } : {}),
    }), signal)));
  }

  /** What is in a directory, by name; depth: how many levels. */
  async list(name = ".", options: { depth?: number } & Call = {}): Promise<FileEntry[]> {
    const found: FileEntry[] = [];
    let cursor: string | null | undefined;
    do {
      const page = (await this.#client.call("GET", `${this.#path}/list`, {
        query: { path: name, depth: options.depth ?? 1, limit: 10000, cursor: cursor ?? undefined },
        ...(options.signal ? { signal: options.signal } : {}),
      })) as { entries: FileEntry[]; cursor: string | null };
      found.push(...page.entries);
      cursor = page.cursor;
    } while (cursor);
    return found;
  }

  async stat(name: string, options: { follow?: boolean } & Call = {}): Promise<FileEntry> {
    return (await this.#client.call("GET", `${this.#path}/stat`, {
      query: { path: name, follow: options.follow }, ...(options.signal ? { signal: options.signal } : {}),
    })) as FileEntry;
  }

  async exists(name: string, call: Call = {}): Promise<boolean> {
    try {
      await this.stat(name, call);
      return true;
    } catch (error) {
      if (error instanceof SandboxNotFoundError) return false;
      throw error;
    }
  }

  /** And those on the way. */
  async mkdir(name: string, options: { mode?: number } & Call = {}): Promise<FileEntry> {
    const mode = octal(options.mode);
    return (await this.#client.call("POST", `${this.#path}/mkdir`, {
      json: { path: name, ...(mode ? { mode } : {}) }, ...(options.signal ? { signal: options.signal } : {}),
    })) as FileEntry;
  }

  async move(from: string, to: string, options: { overwrite?: boolean } & Call = {}): Promise<FileEntry> {
    return (await this.#client.call("POST", `${this.#path}/move`, {
      json: { from, to, overwrite: options.overwrite ?? false }, ...(options.signal ? { signal: options.signal } : {}),
    })) as FileEntry;
  }

  /** How many entries are gone. */
  async remove(name: string, options: { recursive?: boolean } & Call = {}): Promise<number> {
    const answer = (await this.#client.call("DELETE", this.#path, {
      query: { path: name, recursive: options.recursive }, ...(options.signal ? { signal: options.signal } : {}),
    })) as { removed: number };
    return answer.removed;
  }

  /** A file or a directory of this machine; links in a directory are left out. */
  async upload(source: string, target = path.basename(path.resolve(source)), call: Call = {}): Promise<void> {
    const found = await fs.stat(source);
    if (!found.isDirectory()) {
      const runs = await fs.access(source, constants.X_OK).then(() => true, () => false);
      await this.write(target, createReadStream(source), { mode: runs ? 0o755 : 0o644, ...call });
      return;
    }
    await this.mkdir(target, call);
    for (const entry of await fs.readdir(source, { withFileTypes: true }))
      if (entry.isFile() || entry.isDirectory())
        await this.upload(path.join(source, entry.name), `${target}/${entry.name}`, call);
  }

  /**
   * A file or a directory to this machine, where target must not be there yet. Only files and directories are made
   * of what a sandbox says, and only below target.
   */
  async download(source: string, target = path.posix.basename(source) || "download", call: Call = {}): Promise<string> {
    const found = await this.stat(source, { follow: true, ...call });
    if (found.type !== "directory") {
      await this.#fetch(source, target, 0o644, call);
      return target;
    }
    await fs.mkdir(target);
    for (const entry of await this.list(source, call)) {
      if (!entry.name || /[/\0]/.test(entry.name) || [".", ".."].includes(entry.name))
        throw broken("a name that leads out of its directory");
      const there = `${source}/${entry.name}`;
      const here = path.join(target, entry.name);
      if (entry.type === "directory") await this.download(there, here, call);
      else if (entry.type === "file")
        await this.#fetch(there, here, parseInt(entry.mode, 8) & 0o100 ? 0o755 : 0o644, call);
    }
    return target;
  }

  async #fetch(source: string, target: string, mode: number, call: Call): Promise<void> {
    await pipeline(this.readPieces(source, call), createWriteStream(target, { flags: "wx", mode }));
  }

  /** An archive (tar, plain or in gzip or zstd, or zip), into a directory. */
  async unpack(archive: Body, name = ".", call: Call = {}): Promise<void> {
    await this.#send("POST", `${this.#path}/archive`, archive, { path: name }, "application/x-tar", call.signal);
  }

  /** A tree as an archive. */
  async *pack(name = ".", options: { format?: "tar" | "tar.gz" | "tar.zst" } & Call = {}): AsyncGenerator<Buffer> {
    const answer = await this.#client.told(() => this.#client.ask({
      method: "GET", path: `${this.#path}/archive`, query: { path: name, format: options.format ?? "tar" },
      ...(options.signal ? { signal: options.signal } : {}),
    }));
    yield* pieces(answer.response, options.signal);
  }

  /** What changes below a directory: events called "change", and "end". */
  watch(name = ".", options: { recursive?: boolean } & Call = {}): Events {
    return new Events(this.#client, {
      method: "GET", path: `${this.#path}/watch`, query: { path: name, recursive: options.recursive }, last: "end",
      signal: options.signal,
    });
  }
}
