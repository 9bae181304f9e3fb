/*
 * banned.h: functions that have hurt others, made compile errors. The build
 * includes it in front of every source file of ours (-include).
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANNED(f) sorry_##f##_is_banned

#undef strcpy
#define strcpy(d, s) BANNED(strcpy)
#undef strcat
#define strcat(d, s) BANNED(strcat)
#undef strncpy
#define strncpy(d, s, n) BANNED(strncpy)
#undef strncat
#define strncat(d, s, n) BANNED(strncat)
#undef strtok
#define strtok(s, d) BANNED(strtok)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(b, f, a) BANNED(vsprintf)
#undef gets
#define gets(b) BANNED(gets)
#undef atoi
#define atoi(s) BANNED(atoi)
#undef atol
#define atol(s) BANNED(atol)
#undef atoll
#define atoll(s) BANNED(atoll)
#undef atof
#define atof(s) BANNED(atof)
#undef system
#define system(c) BANNED(system)
#undef popen
#define popen(c, m) BANNED(popen)
#undef tmpnam
#define tmpnam(b) BANNED(tmpnam)
#undef mktemp
#define mktemp(t) BANNED(mktemp)
#undef alloca
#define alloca(n) BANNED(alloca)
