/*
 * clock - reading the time, for shells only: a core gets `now_ms` as an argument.
 *
 * Thread:  any.
 */
#ifndef CADRE_COMMON_SYSTEM_CLOCK_H
#define CADRE_COMMON_SYSTEM_CLOCK_H

#include <stdint.h>

enum { CADRE_CLOCK_TEXT_SIZE = 32 };

/* Monotonic time since an arbitrary start; never jumps, and means nothing to another machine. */
int64_t cadre_clock_now_ms(void);
int64_t cadre_clock_now_us(void);

/* The wall clock, for logs and file names only; it decides nothing. Into `text` of
 * CADRE_CLOCK_TEXT_SIZE bytes, which is returned: "2025-01-31T12:34:56.789Z" and, in the local time
 * zone, "12:34:56.789". */
const char *cadre_clock_utc_text(char *text);
const char *cadre_clock_local_text(char *text);

#endif
