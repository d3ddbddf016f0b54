/*
 * log_line - one line of a log being put together, as text or as a JSON object.
 *
 * Owner:   the call of cadre_log that writes it.
 * Thread:  the caller's.
 *
 * Values may hold any bytes: what would end a value, a line or a terminal's patience is escaped,
 * and what is not UTF-8 does not get out.
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

/* Starts a line with the time of now. */
void cadre_log_line_begin(cadre_log_line_t *self, cadre_log_style_t style, cadre_log_level_t level,
                          const char *task, const char *event);

/* Adds a pair; one that does not fit is left out as a whole and the line remembers it. `key` is
 * Cadre's own and plain. `number` says that the value came from a number: in JSON it stands without
 * quotes if JSON can write it so. */
void cadre_log_line_add(cadre_log_line_t *self, const char *key, size_t key_size, const char *value,
                        bool number);

/* Ends the line: `bytes` holds `size` bytes with the newline, and a 0 behind them. */
void cadre_log_line_end(cadre_log_line_t *self);

#endif
