/*
 * java.h: the class that a Java source file begins with: as `java FILE` finds it,
 * the first one at the top, or the public one if there is such.
 */
#pragma once

#include <stddef.h>

/* Its full name, "com.example.Main", in memory of its own; NULL if there is none. */
char *java_entry(const char *text, size_t len);
