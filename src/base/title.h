/*
 * title.h: what /proc/PID/cmdline says of us. A forked process shows its
 * parent's command line to everybody who can see it, until it has its own title.
 */
#pragma once

/* Called by main(): remembers where the arguments are. */
void title_init(int argc, char **argv);

/* Puts title over the arguments; they can't be used after. Nothing happens without title_init(). */
/* The same for who did not get them, by what the kernel says of the process. 0 or -errno. */
int title_init_own(void);

void title_set(const char *title);
