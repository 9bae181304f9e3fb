// Where the daemon is: CAY_HOST, else the default socket; just as the command line finds it.

import { SandboxError } from "./errors.js";

const PATH_MAX = 107; // bytes of a socket's path, as the kernel has it
const TCP = /^(?:\[([0-9a-fA-F:.]{1,255})\]|([A-Za-z0-9._-]{1,255})):([0-9]{1,5})\/?$/;

export interface Place {
  /** By CAY_HOST or the caller; else it is the default socket. */
  named: boolean;
  path?: string;
  host?: string;
  port?: number;
}

export function placeText(place: Place): string {
  if (place.path !== undefined) return place.path;
  return place.host!.includes(":") ? `http://[${place.host}]:${place.port}` : `http://${place.host}:${place.port}`;
}

export function nobody(place: Place, why = ""): SandboxError {
  const hint = place.named
    ? "CAY_HOST says it would be there; `cay serve` is the daemon"
    : "start one: cay serve; or say where it is: CAY_HOST";
  return new SandboxError(`no daemon at ${placeText(place)}${why && `: ${why}`}`, { code: "engine_unavailable", hint });
}

function socket(path: string, named: boolean): Place {
  if (Buffer.byteLength(path) > PATH_MAX)
    throw new SandboxError(`the socket's path is longer than the kernel's ${PATH_MAX} bytes: ${path.slice(0, 128)}`, {
      code: "invalid_request",
    });
  return { named, path };
}

/** unix:PATH with an absolute path, or http://HOST:PORT. */
export function parsePlace(text: string): Place {
  if (text.startsWith("unix:")) {
    const path = text.startsWith("unix:///") ? text.slice(7) : text.slice(5); // the first as docker writes it
    if (path.startsWith("/") && path.length > 1) return socket(path, true);
  } else if (text.startsWith("https://")) {
    throw new SandboxError("CAY_HOST: https is not supported yet", {
      code: "unsupported",
      hint: "http://HOST:PORT, through a tunnel if it is another machine",
    });
  } else if (text.startsWith("http://")) {
    const found = TCP.exec(text.slice(7));
    const port = Number(found?.[3]);
    if (found && port >= 1 && port <= 65535) return { named: true, host: found[1] ?? found[2]!, port };
  }
  throw new SandboxError(`CAY_HOST can't be '${text.slice(0, 128)}'`, {
    code: "invalid_request",
    hint: "unix:PATH with an absolute path, or http://HOST:PORT",
  });
}

/** null: there is no default here. */
export function findPlace(host?: string): Place | null {
  const named = host || process.env["CAY_HOST"];
  if (named) return parsePlace(named);
  if (process.geteuid?.() === 0) return socket("/run/cay/cay.sock", false);
  const runtime = process.env["XDG_RUNTIME_DIR"] ?? "";
  return runtime.startsWith("/") ? socket(`${runtime}/cay.sock`, false) : null;
}

export function keyHeader(key?: string): Record<string, string> {
  const text = key || process.env["CAY_API_KEY"];
  if (!text) return {};
  if (!/^[!-~]{1,256}$/.test(text)) throw new SandboxError("CAY_API_KEY can't be a key", { code: "invalid_request" });
  return { Authorization: `Bearer ${text}` };
}
