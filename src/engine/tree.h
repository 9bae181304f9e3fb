/*
 * tree.h: trees of files that programs left.
 */
#pragma once

/* Empties a directory without following links out of it. */
void tree_empty(int dir_fd);
