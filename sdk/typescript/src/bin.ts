#!/usr/bin/env node
// The command `cay` of a project that this package is installed in.

import { spawnSync } from "node:child_process";
import { constants } from "node:os";
import { packagedBinary } from "./local.js";

const binary = packagedBinary();
if (!binary) {
  console.error("cay: this package came without the program; it is built by `make` in cay's source");
  process.exit(125);
}
const done = spawnSync(binary, process.argv.slice(2), { stdio: "inherit" });
if (done.error) console.error(`cay: ${done.error.message}`);
process.exit(done.status ?? (done.signal ? 128 + constants.signals[done.signal] : 125));
