/** Code that nobody has read yet, run on an island of its own. */

import { Client, type Batched, type BatchEntry } from "./client.js";
import type { Call, Mount, RunCall, RunOptions } from "./options.js";
import type { SandboxResult } from "./result.js";
import type { Events, Run } from "./runs.js";

export { Client, type BatchEntry, type Batched, type ClientOptions } from "./client.js";
export {
  SandboxError, SandboxNotFoundError, SandboxPolicyError, SandboxResourceError, SandboxTimeoutError,
} from "./errors.js";
export { Files, type WriteOptions } from "./files.js";
export type {
  Call, CodeOptions, CommandOptions, Contents, Mount, RunCall, RunOptions, SandboxOptions, Size, Span,
} from "./options.js";
export { SandboxEvent, SandboxResult, type Bundle, type FileEntry, type OutputFile, type Usage } from "./result.js";
export { Events, Run } from "./runs.js";
export { Context, Sandbox, type TerminalOptions } from "./sandbox.js";
export { Terminal } from "./terminal.js";

export const version = "0.1.0";

/** new Client().run(): runs a program on an island of its own, and waits for its end. */
export function run(code: string | undefined, options?: RunOptions & RunCall): Promise<SandboxResult> {
  return new Client().run(code, options);
}

/** new Client().stream(): the same, with what it prints as it comes. */
export function stream(code: string | undefined, options?: RunOptions & Call): Events {
  return new Client().stream(code, options);
}

/** new Client().start(): in the background. */
export function start(code: string | undefined, options?: RunOptions & Call): Promise<Run> {
  return new Client().start(code, options);
}

/** new Client().batch(): many, as they end, with their index. */
export function batch(runs: Iterable<Batched>, options?: { parallel?: number } & Call): AsyncGenerator<BatchEntry> {
  return new Client().batch(runs, options);
}

/** new Client().validateMount(): SandboxPolicyError where the operator does not allow it. */
export function validateMount(source: string, target?: string, access?: "ro" | "rw"): Promise<Mount> {
  return new Client().validateMount(source, target, access);
}
