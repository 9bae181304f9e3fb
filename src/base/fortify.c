/*
 * Debian's static libraries are built for glibc with _FORTIFY_SOURCE. Linked
 * with musl, which has the rest of the ABI they use, they miss these four.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __snprintf_chk(char *s, size_t n, int flag, size_t size, const char *fmt, ...);
int __vsnprintf_chk(char *s, size_t n, int flag, size_t size, const char *fmt, va_list ap);
char *__strncpy_chk(char *d, const char *s, size_t n, size_t size);

int __vsnprintf_chk(char *s, size_t n, int flag, size_t size, const char *fmt, va_list ap)
{
	(void)flag;
	if (n > size)
		abort();
	return vsnprintf(s, n, fmt, ap);
}

int __snprintf_chk(char *s, size_t n, int flag, size_t size, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = __vsnprintf_chk(s, n, flag, size, fmt, ap);
	va_end(ap);
	return r;
}

char *__strncpy_chk(char *d, const char *s, size_t n, size_t size)
{
	size_t i;

	if (n > size)
		abort();
	for (i = 0; i < n && s[i]; i++)
		d[i] = s[i];
	memset(d + i, 0, n - i);
	return d;
}

/* musl's headers call fopen() by this name for large files, and newer ones do not have it at all.
 */
#undef fopen64
FILE *fopen64(const char *path, const char *mode);

__attribute__((weak)) FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}
