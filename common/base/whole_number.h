/*
 * whole_number - whole numbers in text, as flags give them.
 *
 * Thread:  any; there is no state.
 */
#ifndef CADRE_COMMON_BASE_WHOLE_NUMBER_H
#define CADRE_COMMON_BASE_WHOLE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a decimal number from `least` to `most` that is all of `text`.
 *
 * CADRE_EINVALID: there is none; the error text quotes `text` and names the range. */
int cadre_whole_number_parse(const char *text, int64_t least, int64_t most, int64_t *out);

/* Reads the key of 64 bits that `text` begins with, a decimal number from -2^63 to 2^64 - 1: a
 * negative one is the key with the same bits, so that -1 is 2^64 - 1. Sets `end` to what is behind
 * it. Returns whether there is one, with no blank or plus before it. */
bool cadre_whole_number_scan_key(const char *text, uint64_t *key, const char **end);

#endif
