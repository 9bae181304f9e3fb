/*
 * files.h: the files of a sandbox that lives: read, written, listed, moved, packed,
 * watched. No path is looked at here: all that is done is done by the files agent
 * inside the island (engine/agent.h), and what it says is not believed.
 */
#pragma once

#include "api/router.h"

struct api;

extern const struct route route_file_read, route_file_write, route_file_remove, route_file_list,
	route_file_stat, route_file_mkdir, route_file_move, route_file_pack, route_file_unpack,
	route_file_watch;

/* The daemon ends: those who watch are told so, and left. */
void files_watch_leave(struct api *api);
