/*
 * log.h: lines on standard error: for people on a terminal, else one JSON object a
 * line. Only a main and the API's edge log.
 */
#pragma once

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* who: "api"; static. Nothing below the level is written. */
void log_init(const char *who, enum log_level level);

/* Pairs of key and value follow the message, and a NULL; a NULL value leaves its pair out. */
void log_write(enum log_level level, const char *message, ...) __attribute__((sentinel));

#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__, (char *)0)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__, (char *)0)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__, (char *)0)
#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__, (char *)0)
