/*
 * log_line - one line of a log being put together, as text or as a JSON object.
 *
 * Owner:   the call of cadre_log that writes it.
 * Thread:  the caller's.
 *
 * Values may hold any bytes: those that would end a value or a line, or control a terminal, are
 * escaped, and bytes that are not UTF-8 are replaced.
 */
#ifndef CADRE_COMMON_SYSTEM_LOG_LINE_H
#define CADRE_COMMON_SYSTEM_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/system/log.h"

typedef struct {
    cadre_log_style_t style;
    bool cut;
    size_t size;
    char bytes[CADRE_LOG_LINE_SIZE + 1];
} cadre_log_line_t;

/* Begins a line, with the present time. */
void cadre_log_line_begin(cadre_log_line_t *self, cadre_log_style_t style, cadre_log_level_t level,
                          const char *task, const char *event);

/* Adds a pair. A pair that does not fit is left out as a whole, and the line will say cut=true.
 * `key` is a word of our code and is not escaped. `number`: the value was formatted from a number,
 * and is written without quotes in JSON if it is a valid JSON number. */
void cadre_log_line_add(cadre_log_line_t *self, const char *key, size_t key_size, const char *value,
                        bool number);

/* Ends the line: `bytes` holds `size` bytes with the newline, and a 0 behind them. */
void cadre_log_line_end(cadre_log_line_t *self);

#endif
