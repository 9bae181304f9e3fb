/*
 * workspace.h: scratch workspaces of direct runs, in the temporary directory.
 */
#pragma once

#include <stddef.h>

/* A template for mkdtemp(): it names the process that makes it. */
void direct_workspace_name(char *path, size_t size);

/* Removes workspaces whose maker is gone and which belong to us; returns how many. */
int direct_sweep(void);
