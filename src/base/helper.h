/*
 * helper.h: the programs that come with ours: beside it where it was built, in
 * libexec where it was installed.
 */
#pragma once

/*
 * An O_PATH fd for fexecve(): what was looked at is what is run. -ENOENT where there
 * is none that only root or we ourselves may write to; or -errno.
 */
int helper_open(const char *name);
