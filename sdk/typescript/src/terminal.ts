// A program of a sandbox on a terminal, by a WebSocket (the client's side of RFC 6455).

import { createHash, randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import type { Client } from "./client.js";
import { SandboxError, broken, errorOf, isRecord } from "./errors.js";
import { parseJson, type Query } from "./http.js";

const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;
const MESSAGE_MAX = 16 << 20;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

function frame(opcode: number, data: Uint8Array): Buffer {
  const mask = randomBytes(4);
  const size = data.length;
  const head = Buffer.alloc(size < 126 ? 2 : size < 65536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = 0x80 | (size < 126 ? size : size < 65536 ? 126 : 127);
  if (head.length === 4) head.writeUInt16BE(size, 2);
  else if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2);
  const masked = Buffer.from(data);
  for (let n = 0; n < size; n++) masked[n]! ^= mask[n & 3]!;
  return Buffer.concat([head, mask, masked]);
}

/** Whole messages out of pieces. */
export class Frames {
  #pending = Buffer.alloc(0);
  #message: Buffer[] = [];
  #size = 0;
  #opcode = 0;

  feed(data: Uint8Array): [number, Buffer][] {
    this.#pending = Buffer.concat([this.#pending, data]);
    const messages: [number, Buffer][] = [];
    for (let one = this.#frame(); one; one = this.#frame()) {
      const [last, opcode, payload] = one;
      if (opcode >= CLOSE) {
        messages.push([opcode, payload]);
        continue;
      }
      if (Boolean(opcode) === Boolean(this.#opcode)) throw broken("a WebSocket's message begins in another");
      this.#opcode = opcode || this.#opcode;
      this.#message.push(payload);
      this.#size += payload.length;
      if (this.#size > MESSAGE_MAX) throw broken("a WebSocket's message is too long");
      if (last) {
        messages.push([this.#opcode, Buffer.concat(this.#message)]);
        this.#message = [];
        this.#size = this.#opcode = 0;
      }
    }
    return messages;
  }

  #frame(): [boolean, number, Buffer] | undefined {
    const p = this.#pending;
    if (p.length < 2) return undefined;
    let size = p[1]!;
    let at = 2;
    if (p[0]! & 0x70 || size & 0x80) throw broken("a WebSocket's frame");
    if (size >= 126) {
      at = size === 126 ? 4 : 10;
      if (p.length < at) return undefined;
      size = at === 4 ? p.readUInt16BE(2) : Number(p.readBigUInt64BE(2));
    }
    if (size > MESSAGE_MAX) throw broken("a WebSocket's message is too long");
    if (p.length < at + size) return undefined;
    this.#pending = p.subarray(at + size);
    return [Boolean(p[0]! & 0x80), p[0]! & 15, Buffer.from(p.subarray(at, at + size))];
  }
}

/**
 * Iterate for what it prints, as bytes, up to its end; then exitCode or signal says how it ended. close() leaves it:
 * a terminal goes on for five minutes, and can be opened again by its id.
 */
export class Terminal implements AsyncIterable<Buffer> {
  exitCode: number | null = null;
  signal: number | null = null;
  hello: Record<string, unknown> = {};
  readonly #socket: Duplex;
  readonly #frames = new Frames();
  readonly #messages: [number, Buffer][] = [];
  #failure: unknown;
  #ended = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Duplex) {
    this.#socket = socket;
    socket.on("data", (data: Buffer) => this.#take(data));
    socket.on("error", (error) => this.#end(error));
    socket.on("close", () => this.#end());
  }

  static async open(client: Client, path: string, query: Query): Promise<Terminal> {
    const nonce = randomBytes(16).toString("base64");
    const answer = await client.told(() => client.ask({
      method: "GET", path, query,
      headers: { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": nonce },
    }));
    const accept = createHash("sha1").update(nonce + GUID).digest("base64");
    if (!answer.upgraded || answer.response.headers["sec-websocket-accept"] !== accept) {
      answer.response.destroy();
      throw broken("no WebSocket");
    }
    const made = new Terminal(answer.upgraded.socket);
    (answer.upgraded.socket as Duplex & { setTimeout?: (ms: number) => void }).setTimeout?.(0);
    made.#take(answer.upgraded.head);
    const first = await made.#next();
    if (first?.[0] !== TEXT) {
      made.close();
      throw broken("a terminal without a name");
    }
    made.hello = parseJson(first[1]) as Record<string, unknown>;
    return made;
  }

  get id(): string {
    return String(this.hello["terminal"]);
  }

  /** As if it was typed; "\n" is the Enter key of most programs. */
  send(data: string | Uint8Array): void {
    this.#socket.write(frame(BINARY, typeof data === "string" ? Buffer.from(data) : data));
  }

  resize(cols: number, rows: number): void {
    this.#say({ resize: [cols, rows] });
  }

  /** INT, QUIT and TSTP go to the foreground; HUP hangs up; TERM and KILL kill. */
  kill(signal = "KILL"): void {
    this.#say({ signal });
  }

  /** What it printed next; undefined at its end. */
  async read(): Promise<Buffer | undefined> {
    for (let one = await this.#next(); one; one = await this.#next()) {
      if (one[0] === BINARY && one[1].length) return one[1];
      if (one[0] === TEXT) this.#hear(parseJson(one[1]));
    }
    return undefined;
  }

  /** All up to and with mark, and what came behind it in the same breath. Less if it ends before. */
  async readUntil(mark: string): Promise<string> {
    let seen = Buffer.alloc(0);
    while (!seen.includes(mark)) {
      const data = await this.read();
      if (!data) break;
      seen = Buffer.concat([seen, data]);
    }
    return seen.toString();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let data = await this.read(); data; data = await this.read()) yield data;
  }

  close(): void {
    this.#socket.destroy();
    this.#end();
  }

  #say(message: object): void {
    this.#socket.write(frame(TEXT, Buffer.from(JSON.stringify(message))));
  }

  #take(data: Buffer): void {
    try {
      for (const [opcode, payload] of this.#frames.feed(data)) {
        if (opcode === PING) this.#socket.write(frame(PONG, payload));
        else if (opcode === CLOSE) this.close();
        else if (opcode !== PONG) this.#messages.push([opcode, payload]);
      }
    } catch (error) {
      this.#end(error);
      this.#socket.destroy();
    }
    // Who does not read is not sent more.
    if (this.#messages.length > 64) this.#socket.pause();
    this.#wake();
  }

  #hear(message: unknown): void {
    if (!isRecord(message)) return;
    if ("error" in message) throw errorOf(message);
    const exit = message["exit"];
    if (!isRecord(exit)) return;
    this.exitCode = typeof exit["exit_code"] === "number" ? exit["exit_code"] : null;
    this.signal = typeof exit["signal"] === "number" ? exit["signal"] : null;
  }

  #end(failure?: unknown): void {
    this.#failure ??= failure;
    this.#ended = true;
    this.#wake();
  }

  async #next(): Promise<[number, Buffer] | undefined> {
    while (!this.#messages.length) {
      if (this.#ended) {
        const failure = this.#failure;
        if (failure) throw failure instanceof SandboxError ? failure : broken(String(failure));
        return undefined;
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    const one = this.#messages.shift();
    if (!this.#messages.length && !this.#ended) this.#socket.resume();
    return one;
  }
}
