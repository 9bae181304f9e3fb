/*
 * tree.h: trees of files that programs left.
 */
#pragma once

/* A directory of somebody's own, also where its mode lets nobody in: an fd, or -errno. */
int tree_open(int dir_fd, const char *name);

/* Empties a directory, however deep, without following links out of it. */
void tree_empty(int dir_fd);
