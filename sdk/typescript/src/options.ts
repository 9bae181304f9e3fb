// What can be asked for, and how that becomes a request. Fields are api/openapi.yaml's, in camel case.

import { constants, promises as fs } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";
import { SandboxError } from "./errors.js";

/** Bytes, or "512m". */
export type Size = number | string;
/** Seconds, or "5m". */
export type Span = number | string;
export type Contents = string | Uint8Array | { file: string };
export interface Mount { source: string; target: string; access?: "ro" | "rw" }

export interface Call {
  /** Ends the call, and what it runs. */
  signal?: AbortSignal;
}

export interface RunCall extends Call {
  /** What does not end well is an error, too. */
  check?: boolean;
  /** false: what cay could not do is an unsuccessful result, whose error says why. */
  raiseErrors?: boolean;
}

interface Common {
  language?: string;
  version?: string;
  env?: Record<string, string>;
  workdir?: string;
  /** By name: text, bytes, or {file} for one of this machine. */
  files?: Record<string, Contents> | Record<string, unknown>[];
  labels?: Record<string, string>;
  limits?: Record<string, unknown>;
  timeout?: Span;
  output?: Size;
  idempotencyKey?: string;
  /** Fields that this version does not know, as the API has them. */
  extra?: Record<string, unknown>;
}

/** Of a program in a sandbox that is there already. */
export interface CodeOptions extends Common {
  file?: string;
  filename?: string;
  args?: string[];
  stdin?: string | Uint8Array;
  get?: string | string[];
  wait?: Span;
  context?: string;
  rich?: boolean;
}

export interface CommandOptions extends CodeOptions {
  command?: string;
  argv?: string[];
}

interface Island {
  memory?: Size;
  cpus?: number | string;
  pids?: number;
  disk?: Size;
  cpuTime?: Span;
  openFiles?: number;
  fileSize?: Size;
  network?: "none" | "allowlist" | "full" | Record<string, unknown>;
  allow?: string | string[];
  block?: string | string[];
  /** "SRC:DEST:ro", or the API's objects. */
  mounts?: (string | Mount)[];
  /** "SRC:ro", or the API's object. */
  workspace?: string | Record<string, unknown>;
  engine?: string;
  image?: string;
  writable?: boolean;
  user?: "cay" | "root";
  mode?: string;
  tier?: string;
  trusted?: boolean;
  scope?: string;
  cold?: boolean;
  allowDegraded?: boolean;
}

/** Of a program on an island of its own. */
export interface RunOptions extends CommandOptions, Island {}

/** Of a new sandbox. */
export interface SandboxOptions extends Common, Island {
  name?: string;
  ttl?: Span;
  idleTimeout?: Span;
  persistent?: boolean;
}

export type Request = Record<string, unknown>;

export const LIMITS = ["memory", "cpus", "pids", "disk", "timeout", "cpu_time", "output", "open_files", "file_size"];
const OF_THE_CALL = new Set(["signal", "check", "raiseErrors", "extra"]);

function invalid(message: string): SandboxError {
  return new SandboxError(message, { code: "invalid_request" });
}

const base64 = (data: Uint8Array) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");

async function contents(value: Contents): Promise<Record<string, unknown>> {
  if (typeof value === "string") return { text: value };
  if (value instanceof Uint8Array) return { data: base64(value) };
  const runs = await fs.access(value.file, constants.X_OK).then(() => true, () => false);
  return { data: (await fs.readFile(value.file)).toString("base64"), ...(runs ? { executable: true } : {}) };
}

async function files(value: NonNullable<Common["files"]>): Promise<unknown[]> {
  if (Array.isArray(value)) return value;
  return Promise.all(Object.entries(value).map(async ([name, what]) => ({ path: name, ...(await contents(what)) })));
}

export function hostPath(source: string): string {
  return path.resolve(source === "~" || source.startsWith("~/") ? homedir() + source.slice(1) : source);
}

function splitAccess(text: string): [string, string] {
  const found = /^(.+):(ro|rw|overlay)$/s.exec(text);
  return found ? [found[1]!, found[2]!] : [text, "ro"];
}

/** SRC:DEST[:ro|rw], as the command line has it, or the API's object. */
export function mountOf(value: string | Mount): Mount {
  if (typeof value !== "string") return { ...value, source: hostPath(value.source) };
  const [rest, access] = splitAccess(value);
  const at = rest.lastIndexOf(":");
  if (at <= 0) throw invalid(`a mount is SRC:DEST[:ro|rw], not '${value}'`);
  return { source: hostPath(rest.slice(0, at)), target: rest.slice(at + 1), access: access as "ro" | "rw" };
}

function workspaceOf(value: string | Record<string, unknown>): unknown {
  if (typeof value !== "string") // one that is kept has a name and no source
    return "source" in value ? { ...value, source: hostPath(String(value["source"])) } : value;
  const [source, access] = splitAccess(value);
  return { source: hostPath(source), access };
}

const many = (value: unknown) => (typeof value === "string" ? [value] : value);

const CONVERT: Record<string, (value: never) => unknown> = {
  files,
  mounts: (value: (string | Mount)[]) => value.map(mountOf),
  workspace: workspaceOf,
  get: many,
  args: (value: unknown[]) => value.map(String),
};

/** The request. undefined means not said; what is not known here goes on as it is, for the daemon to judge. */
export async function requestOf(options: object, code?: string): Promise<Request> {
  const fields: Request = {};
  for (const [name, value] of Object.entries(options))
    if (value !== undefined && !OF_THE_CALL.has(name))
      fields[name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)] = value;
  if (code !== undefined) fields["code"] = code;
  const limits: Request = { ...((fields["limits"] as Request | undefined) ?? {}) };
  for (const name of LIMITS)
    if (name in fields) {
      limits[name] = fields[name];
      delete fields[name];
    }
  if (Object.keys(limits).length) fields["limits"] = limits;
  takeNetwork(fields);
  if (fields["stdin"] instanceof Uint8Array) {
    fields["stdin_base64"] = base64(fields["stdin"]);
    delete fields["stdin"];
  }
  for (const [name, convert] of Object.entries(CONVERT))
    if (name in fields) fields[name] = await convert(fields[name] as never);
  return { ...fields, ...((options as Common).extra ?? {}) };
}

function takeNetwork(fields: Request): void {
  const network = fields["network"];
  const rules: Request = typeof network === "string" ? { mode: network } : { ...((network as Request) ?? {}) };
  for (const name of ["allow", "block"])
    if (name in fields) {
      rules[name] = many(fields[name]);
      delete fields[name];
    }
  delete fields["network"];
  if (Object.keys(rules).length) fields["network"] = rules;
}
