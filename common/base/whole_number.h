/*
 * whole_number - whole numbers in text, as flags give them.
 *
 * Thread:  any; there is no state.
 */
#ifndef CADRE_COMMON_BASE_WHOLE_NUMBER_H
#define CADRE_COMMON_BASE_WHOLE_NUMBER_H

#include <stdint.h>

/* Reads a decimal number from `least` to `most` that is all of `text`.
 *
 * CADRE_EINVALID: there is none; the error text quotes `text` and names the range. */
int cadre_whole_number_parse(const char *text, int64_t least, int64_t most, int64_t *out);

#endif
