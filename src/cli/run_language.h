/*
 * run_language.h: which language a run is in, where -l does not say it.
 */
#pragma once

#include "core/error.h"
#include "spec/spec.h"

/*
 * The extension of FILE if a language has it, else the script's first line, else
 * python, unless an extension or an interpreter speaks against it: CAY_E_RUNTIME.
 */
int run_language_choose(struct spec *s, struct cay_error *err);
