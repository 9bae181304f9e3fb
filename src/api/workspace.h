/*
 * workspace.h: the layer of a sandbox whose workspace is an overlay.
 */
#pragma once

#include "api/router.h"

/* What it has changed; a file of it, as it is in the layer (files_read.c). */
extern const struct route route_workspace_diff, route_workspace_read;
