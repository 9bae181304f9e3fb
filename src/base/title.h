/*
 * title.h: what /proc/PID/cmdline says of us. A forked process shows its
 * parent's command line to everybody who can see it, until it has its own title.
 */
#pragma once

/* Called by main(): remembers where the arguments are. */
void title_init(int argc, char **argv);

/* Puts title over the arguments; they can't be used after. Nothing happens without title_init(). */
void title_set(const char *title);
