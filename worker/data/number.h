/*
 * number - decimal numbers out of text, strictly and quickly.
 *
 * Thread: any; no state.
 *
 * strtod obeys the locale, skips blanks, takes "nan", "inf" and hexadecimal, needs a terminating
 * zero, and is slow. Here a number is [+-] digits [. digits] [e [+-] digits], with at least one
 * digit before the exponent, and finite.
 */
#ifndef CADRE_WORKER_DATA_NUMBER_H
#define CADRE_WORKER_DATA_NUMBER_H

#include <stdint.h>

enum { CADRE_NUMBER_SIZE_MAX = 255 }; /* characters of a number; a longer one is none */

/* Reads the longest number at the start of [text, end), correctly rounded. Returns where it stops,
 * or NULL when there is none or it is not finite; `out` is written on success only. */
const char *cadre_number_scan(const char *text, const char *end, double *out);

/* Reads digits. Returns where they stop, or NULL when there are none or they exceed `most`. */
const char *cadre_number_scan_index(const char *text, const char *end, uint64_t most,
                                    uint64_t *out);

#endif
