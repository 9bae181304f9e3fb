// What cay could not do. What a program did is a result, and an error only with check.

import type { SandboxResult } from "./result.js";

export interface ErrorDetails {
  code?: string;
  hint?: string;
  details?: Record<string, unknown>;
  requestId?: string | null;
  status?: number;
  retryAfter?: number;
  result?: SandboxResult;
}

/** The family's head; code says whose fault it is, as the API has it. */
export class SandboxError extends Error {
  readonly code: string;
  readonly hint: string;
  readonly details: Record<string, unknown>;
  readonly requestId: string | null;
  readonly status: number | undefined;
  readonly retryAfter: number | undefined;
  /** Of a program, with check. */
  readonly result: SandboxResult | undefined;

  constructor(message: string, more: ErrorDetails = {}) {
    super(more.hint ? `${message} (${more.hint})` : message);
    this.name = new.target.name;
    this.code = more.code ?? "internal";
    this.hint = more.hint ?? "";
    this.details = more.details ?? {};
    this.requestId = more.requestId ?? null;
    this.status = more.status;
    this.retryAfter = more.retryAfter;
    this.result = more.result;
  }
}

/** A program's time was over (check), or nothing came of a call in time. */
export class SandboxTimeoutError extends SandboxError {}
/** Something is used up, too large, or a limit can't be enforced here. */
export class SandboxResourceError extends SandboxError {}
/** The operator or the key does not allow it. */
export class SandboxPolicyError extends SandboxError {}
/** There is no such sandbox, run, file, image or language. */
export class SandboxNotFoundError extends SandboxError {}

type Kind = new (message: string, more?: ErrorDetails) => SandboxError;

const BY_CODE = new Map<string, Kind>([
  ["unauthorized", SandboxPolicyError],
  ["policy_denied", SandboxPolicyError],
  ["not_found", SandboxNotFoundError],
  ["image_not_found", SandboxNotFoundError],
  ["runtime_not_found", SandboxNotFoundError],
  ["expired", SandboxNotFoundError],
  ["too_large", SandboxResourceError],
  ["not_enforceable", SandboxResourceError],
  ["rate_limited", SandboxResourceError],
  ["at_capacity", SandboxResourceError],
]);

const BY_STATUS = new Map<string, Kind>([
  ["timeout", SandboxTimeoutError],
  ["out_of_memory", SandboxResourceError],
  ["output_limit", SandboxResourceError],
]);

export function broken(what: string): SandboxError {
  return new SandboxError(`the daemon's answer makes no sense: ${what}`);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The error of an error object, as answers and events carry it. */
export function errorOf(body: unknown, status?: number, retryAfter?: string): SandboxError {
  const error = isRecord(body) && "error" in body ? body["error"] : body;
  const known = status === undefined ? {} : { status };
  if (!isRecord(error) || typeof error["message"] !== "string")
    return new SandboxError(`the daemon answered ${status} without an error object`, known);
  const code = String(error["code"]);
  const kind = BY_CODE.get(code) ?? SandboxError;
  return new kind(error["message"], {
    ...known,
    code,
    hint: String(error["hint"] ?? ""),
    requestId: typeof error["request_id"] === "string" ? error["request_id"] : null,
    ...(isRecord(error["details"]) ? { details: error["details"] } : {}),
    ...(retryAfter && /^\d{1,9}$/.test(retryAfter) ? { retryAfter: Number(retryAfter) } : {}),
  });
}

/** What check throws for a program that did not end well. */
export function errorOfResult(result: SandboxResult): SandboxError {
  let message = result.message || result.status;
  const last = result.stderr.trim().split("\n").pop();
  if (result.exception) message = `${result.exception.name}: ${result.exception.value}`;
  else if (last) message = `${message}: ${last.slice(0, 500)}`;
  return new (BY_STATUS.get(result.status) ?? SandboxError)(message, { code: result.status, result });
}
