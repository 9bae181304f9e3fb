/*
 * orders.h: PID 1 of an island that waits: made ahead for a program to come, or
 * kept for one command after the other.
 *
 * It is done with all of init's steps, the filter among them, but keeps what it
 * needs to become the island's user again for each command. Nothing on the island
 * can reach it: it is not dumpable, and where there is a range of ids it has
 * another one than any program.
 *
 * A command is a fork, not a vfork as the only program of an island: init goes on
 * serving while the command sets itself up, and the memory that the command's
 * process has while it changes ids is a copy of its own.
 */
#pragma once

#include "engine/native/island.h"

/* At once on one island; one more is refused. */
#define COMMANDS_MAX 64

/*
 * Carries out orders until the one that says it is the last; then returns, with
 * plan and stdio of that one in i, the plan in this function's memory; nothing of an
 * earlier command runs then.
 * Ends the process when the launcher is gone. A steward (bare.h) has no last order: it waits
 * on, to end what is left when the launcher is gone.
 * True: the last order has gone to what waited for it (waiter.h), and nothing is to be started.
 */
bool orders_serve(struct island *i);

/* The program's process, where it is there already: takes the order, which must be the last. */
void orders_take_last(struct island *i);
