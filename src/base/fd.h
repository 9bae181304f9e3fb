/*
 * fd.h: file descriptors. All functions return 0 (or a count, or an fd) or
 * -errno; all fds they make are O_CLOEXEC; short reads, short writes and EINTR
 * are dealt with here and nowhere else.
 */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* Closes *fd if it is open and sets it to -1; errno is kept. */
void fd_closep(int *fd);

int fd_write_all(int fd, const void *data, size_t len);

/* Reads exactly len bytes; -EPIPE when the stream ends before. */
int fd_read_exact(int fd, void *data, size_t len);

/* Appends everything up to the end of the stream; -EFBIG past the buffer's maximum. */
int fd_read_all(int fd, struct buf *out);

/* Whole small files, as those of /proc, /sys and cgroups are: one open, one write. */
int fd_write_file_at(int dir_fd, const char *path, const char *text);
int fd_read_file_at(int dir_fd, const char *path, struct buf *out);

/* Reads at most size - 1 bytes and ends them with NUL; returns the length. */
ssize_t fd_read_text_at(int dir_fd, const char *path, char *text, size_t size);

/* Creates or truncates, writes all, sets mode. */
int fd_create_file_at(int dir_fd, const char *path, const void *data, size_t len, mode_t mode);

/* Opens by openat2(2); resolve: RESOLVE_…, which says where links may lead. */
int fd_open_within(int dir_fd, const char *path, int flags, uint64_t resolve);

int fd_set_nonblock(int fd, int on);

/* The path the kernel knows for this fd, by /proc/self/fd. -ENAMETOOLONG if it does not fit. */
int fd_real_path(int fd, char *path, size_t size);

/* Moves fd to number 3 or above: 0 to 2 belong to the program that will be started. */
int fd_above_stdio(int fd);

/* A file in memory with these bytes, which nobody can change: an fd at its beginning, or -errno. */
int fd_sealed(const char *name, const void *data, size_t len);

/*
 * Between fork and exec: to the numbers from first to end, each fd of the list to its own index;
 * where that has -1, the number is closed. program, which is to be executed, is moved out of the
 * way. 0 or -errno.
 */
int fd_place(int *fds, int first, int end, int *program);

/* Takes fd over, whatever comes of it; NULL and errno, which is kept where fd is -1 already. */
DIR *fd_opendir(int fd);

/* The same directory opened once more, to be read from its beginning; dir stays the caller's. */
DIR *fd_opendir_again(int dir);

/* Standard input and output lead to /dev/null from here on. 0 or -errno. */
int fd_mute(void);

/* Closes every fd from 3 on but these n, which are put in order. 0 or -errno. */
int fd_close_others(int *keep, size_t n);

#define MSG_FDS_MAX 16

/* One packet of a SOCK_SEQPACKET with fds riding along. */
int msg_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds);

/*
 * Receives one packet into data; returns its length, 0 at end of stream.
 * *ret_n_fds is the number of fds that came, which are the caller's to close;
 * on failure none are left open, and those that were are -1. A packet cut short, or with more fds
 * than max_fds, is -EMSGSIZE.
 */
ssize_t msg_recv(int sock, void *data, size_t size, int *ret_fds, size_t max_fds,
		 size_t *ret_n_fds);
