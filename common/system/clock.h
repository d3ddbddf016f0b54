/*
 * clock - reading the time, for shells only: a core gets `now_ms` as an argument.
 *
 * Thread:  any.
 */
#ifndef CADRE_COMMON_SYSTEM_CLOCK_H
#define CADRE_COMMON_SYSTEM_CLOCK_H

#include <stdint.h>

enum { CADRE_CLOCK_TEXT_SIZE = 32 };

/* Return the monotonic time since an arbitrary start, which never jumps and cannot be compared with
 * another machine's. */
int64_t cadre_clock_now_ms(void);
int64_t cadre_clock_now_us(void);

/* Write the wall clock into `text` of CADRE_CLOCK_TEXT_SIZE bytes, and return `text`: as
 * "2025-01-31T12:34:56.789Z", or in the local time zone as "12:34:56.789". For logs and file names
 * only; no decision depends on it. */
const char *cadre_clock_utc_text(char *text);
const char *cadre_clock_local_text(char *text);

#endif
