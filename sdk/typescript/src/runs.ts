// Programs under way: their events, and those in the background.

import type { Client } from "./client.js";
import { SandboxError, broken, errorOf, isRecord } from "./errors.js";
import { NoDaemon, pieces, serverEvents, type Query } from "./http.js";
import type { Call, Request } from "./options.js";
import { SandboxEvent, SandboxResult } from "./result.js";

export interface Following {
  method: string;
  path: string;
  request?: Promise<Request>;
  query?: Query;
  /** The name of the last one; without it they go on to the end of the stream. */
  last: string;
  signal?: AbortSignal | undefined;
}

/** What happens, as it does; the last one is the result, which result() has, too. Leaving early cancels. */
export class Events implements AsyncIterableIterator<SandboxEvent> {
  readonly #source: AsyncGenerator<SandboxEvent>;
  readonly #leaving = new AbortController();
  #result: SandboxResult | undefined;

  constructor(client: Client, what: Following) {
    what.request?.catch(() => undefined); // it is told when it is waited for
    this.#source = follow(client, what, this.#leaving.signal);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<SandboxEvent>> {
    const one = await this.#source.next();
    if (!one.done && one.value.name === "result") this.#result = one.value.result;
    return one;
  }

  async return(): Promise<IteratorResult<SandboxEvent>> {
    this.#leaving.abort();
    await this.#source.return(undefined).catch(() => undefined);
    return { done: true, value: undefined };
  }

  async close(): Promise<void> {
    await this.return();
  }

  /** Reads on to the end. */
  async result(): Promise<SandboxResult> {
    while (!this.#result) if ((await this.next()).done) break;
    if (!this.#result) throw new SandboxError("these events were left before their end");
    return this.#result;
  }
}

async function* follow(client: Client, what: Following, leaving: AbortSignal): AsyncGenerator<SandboxEvent> {
  const ends = new AbortController();
  const end = () => ends.abort(what.signal?.aborted ? what.signal.reason : leaving.reason);
  for (const signal of [what.signal, leaving]) {
    if (signal?.aborted) end();
    signal?.addEventListener("abort", end, { once: true });
  }
  const request = await what.request;
  try {
    const answer = await client.ask({
      method: what.method, path: what.path, query: what.query, headers: { Accept: "text/event-stream" },
      signal: ends.signal, patient: true, ...(request ? { json: request } : {}),
    });
    for await (const [name, data] of serverEvents(pieces(answer.response, ends.signal))) {
      if (name === "error") throw errorOf(data);
      yield new SandboxEvent(name, isRecord(data) ? data : {});
      if (name === what.last) return;
    }
    if (what.last === "result") throw broken("its events have no end");
  } catch (error) {
    if (!(error instanceof NoDaemon)) throw error;
    if (what.path !== "/v1/runs" || !request) throw error.error;
    const raw = await client.runHere(error, request, ends.signal);
    for (const stream of ["stdout", "stderr"]) {
      const exact = raw[`${stream}_base64`];
      if (exact || raw[stream]) yield new SandboxEvent(stream, exact ? { base64: exact } : { text: raw[stream] });
    }
    yield new SandboxEvent("result", raw);
  } finally {
    what.signal?.removeEventListener("abort", end);
  }
}

/** A program in the background. */
export class Run {
  constructor(readonly client: Client, public info: Record<string, unknown>) {}

  get id(): string {
    return String(this.info["id"]);
  }

  /** When it was last looked at. */
  get status(): string {
    return String(this.info["status"]);
  }

  async refresh(call: Call = {}): Promise<this> {
    this.info = (await this.client.call("GET", `/v1/runs/${this.id}`, call)) as Record<string, unknown>;
    return this;
  }

  /** What happens from now on, to the end. Leaving them does not end the run. */
  events(call: Call = {}): Events {
    return new Events(this.client, {
      method: "GET", path: `/v1/runs/${this.id}/events`, last: "result", signal: call.signal,
    });
  }

  /** Waits for its end. */
  async result(call: Call & { check?: boolean } = {}): Promise<SandboxResult> {
    await this.refresh(call);
    if (!("success" in this.info) && ["queued", "running"].includes(this.status)) {
      await this.events(call).result();
      await this.refresh(call);
    }
    if (!("success" in this.info)) {
      if (this.info["error"]) throw errorOf(this.info["error"]);
      throw new SandboxError(String(this.info["message"] ?? `the result of ${this.id} was not kept`), {
        code: "not_found",
      });
    }
    const result = new SandboxResult(this.info);
    return call.check ? result.check() : result;
  }

  async cancel(call: Call = {}): Promise<void> {
    this.info = (await this.client.call("DELETE", `/v1/runs/${this.id}`, call)) as Record<string, unknown>;
  }
}
