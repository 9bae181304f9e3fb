// One request and its answer, on a connection of its own: leaving it cancels what it began.

import * as http from "node:http";
import type { Duplex } from "node:stream";
import { SandboxError, SandboxTimeoutError, broken, errorOf } from "./errors.js";
import { nobody, type Place } from "./place.js";

const ANSWER_MAX = 192 << 20; // a result with its files in base64
const CONNECT_MS = 10_000;

export type Query = Record<string, string | number | boolean | undefined>;
export type Body = Uint8Array | AsyncIterable<Uint8Array>;

export interface Ask {
  method: string;
  path: string;
  query?: Query | undefined;
  headers?: Record<string, string>;
  body?: Body | undefined;
  /** How long nothing may come; undefined: as long as it takes. */
  idleMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** Nobody listens on the default socket: for some calls there is another way. */
export class NoDaemon extends Error {
  constructor(readonly error: SandboxError) {
    super(error.message);
  }
}

function target(path: string, query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => `${name}=${encodeURIComponent(value === true ? "1" : String(value))}`);
  return pairs.length ? `${path}?${pairs.join("&")}` : path;
}

function reached(error: NodeJS.ErrnoException): boolean {
  return !["ENOENT", "ECONNREFUSED", "EACCES", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT",
    "ENOTSOCK", "ENOTDIR"].includes(error.code ?? "");
}

export interface Answer {
  response: http.IncomingMessage;
  /** Of a WebSocket. */
  upgraded?: { socket: Duplex; head: Buffer };
}

/** An answer that has begun, and is none of an error. */
export async function ask(place: Place, what: Ask): Promise<Answer> {
  what.signal?.throwIfAborted();
  const headers: http.OutgoingHttpHeaders = { "User-Agent": "cay-node", Connection: "close", ...what.headers };
  const whole = what.body instanceof Uint8Array ? what.body : undefined;
  if (whole) headers["Content-Length"] = whole.byteLength;
  else if (!what.body && (what.method === "POST" || what.method === "PUT")) headers["Content-Length"] = 0;
  const request = http.request({
    ...(place.path !== undefined ? { socketPath: place.path } : { host: place.host!, port: place.port! }),
    method: what.method,
    path: target(what.path, what.query),
    headers: { Host: place.path !== undefined ? "localhost" : hostHeader(place), ...headers },
    agent: false,
    ...(what.signal ? { signal: what.signal } : {}),
  });
  const answered = new Promise<Answer>((resolve, reject) => {
    let connected = false;
    const connecting = setTimeout(() => {
      if (!connected) request.destroy(Object.assign(new Error("timed out"), { code: "ETIMEDOUT" }));
    }, CONNECT_MS);
    const settle = () => clearTimeout(connecting);
    request.once("socket", (socket) => socket.once("connect", () => {
      connected = true;
      settle();
      if (what.idleMs !== undefined) socket.setTimeout(what.idleMs, () => request.destroy(
        new SandboxTimeoutError("nothing came of the daemon in time", { code: "timeout" })));
    }));
    request.once("response", (response) => resolve({ response }));
    request.once("upgrade", (response, socket, head) => resolve({ response, upgraded: { socket, head } }));
    request.on("error", (error: NodeJS.ErrnoException) => {
      settle();
      if (what.signal?.aborted) reject(what.signal.reason);
      else if (error instanceof SandboxError) reject(error);
      else if (!connected && !reached(error))
        reject(place.named ? nobody(place, error.message) : new NoDaemon(nobody(place)));
      else reject(broken(error.message));
    });
  });
  const sending = send(request, whole, whole ? undefined : (what.body as AsyncIterable<Uint8Array> | undefined));
  const answer = await Promise.race([answered, sending.then(() => answered)]);
  const status = answer.response.statusCode ?? 0;
  if (status >= 400) {
    const body = await wholeBody(answer.response);
    throw errorOf(parseJson(body), status, answer.response.headers["retry-after"]);
  }
  await sending;
  return answer;
}

function hostHeader(place: Place): string {
  return place.host!.includes(":") ? `[${place.host}]:${place.port}` : `${place.host}:${place.port}`;
}

async function send(request: http.ClientRequest, whole: Uint8Array | undefined,
                    pieces: AsyncIterable<Uint8Array> | undefined): Promise<void> {
  if (!pieces) {
    request.end(whole);
    return;
  }
  for await (const piece of pieces) {
    if (request.destroyed) return;
    if (!request.write(piece)) await writable(request);
  }
  request.end();
}

function writable(request: http.ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      request.off("drain", go).off("close", go);
      resolve();
    };
    request.on("drain", go).on("close", go);
  });
}

async function wholeBody(response: http.IncomingMessage): Promise<Buffer> {
  const found: Buffer[] = [];
  let size = 0;
  for await (const data of pieces(response)) {
    found.push(data);
    size += data.length;
    if (size > ANSWER_MAX) throw broken("it is too long");
  }
  return Buffer.concat(found);
}

/** The body as it comes. Leaving it closes the connection. */
export async function* pieces(response: http.IncomingMessage, signal?: AbortSignal): AsyncGenerator<Buffer> {
  try {
    for await (const data of response) yield data as Buffer;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof SandboxError) throw error;
    throw broken("it ended in the middle");
  } finally {
    response.destroy();
  }
}

export async function body(answer: Answer, signal?: AbortSignal): Promise<Buffer> {
  try {
    return await wholeBody(answer.response);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw error;
  }
}

export function parseJson(data: Buffer | string): unknown {
  try {
    return JSON.parse(data.toString()) as unknown;
  } catch {
    throw broken("no JSON");
  }
}

/** Newline-separated text. */
export async function* lines(source: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let kept: Buffer[] = [];
  let size = 0;
  for await (const data of source) {
    let from = 0;
    for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
      kept.push(data.subarray(from, at));
      yield Buffer.concat(kept).toString();
      kept = [];
      size = 0;
      from = at + 1;
    }
    kept.push(data.subarray(from));
    size += data.length - from;
    if (size > ANSWER_MAX) throw broken("a line has no end");
  }
}

/** [name, object] of each server-sent event. */
export async function* serverEvents(source: AsyncIterable<Buffer>): AsyncGenerator<[string, unknown]> {
  let name = "";
  let data = "";
  for await (const raw of lines(source)) {
    const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
    else if (!line && name) {
      yield [name, parseJson(data || "{}")];
      name = data = "";
    }
  }
}
