// Puts the static program into the package: the one CAY_BINARY names, or build/cay of the source tree.
import { chmodSync, copyFileSync, existsSync, mkdirSync } from "node:fs";

const binary = process.env.CAY_BINARY ?? new URL("../../build/cay", import.meta.url).pathname;
if (process.env.CAY_BINARY || existsSync(binary)) {
  mkdirSync("bin", { recursive: true });
  copyFileSync(binary, "bin/cay");
  chmodSync("bin/cay", 0o755);
}
