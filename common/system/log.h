/*
 * log - one event, one line: key=value text for people, JSON for machines.
 *
 * Thread:  any, after cadre_log_setup. The settings are process-wide, an exception to "no statics"
 *          (README.md): they are written once before any thread of Cadre starts and only read
 *          afterwards, but for the task's index, which is an atomic.
 *
 * Only actors and main files log. Before cadre_log_setup nothing is written: the commands have
 * lines written to stderr, a program that uses libcadre may give a callback.
 */
#ifndef CADRE_COMMON_SYSTEM_LOG_H
#define CADRE_COMMON_SYSTEM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

enum {
    CADRE_LOG_LINE_SIZE = 4096,  /* bytes with the newline: one atomic write to a pipe; pairs that
                                    do not fit are left out and the line says cut=true */
    CADRE_LOG_VALUE_SIZE = 1024, /* bytes of one value before escaping; longer ones are cut */
    CADRE_LOG_STALL_MS = 2000,   /* a line waits so long for room in a pipe that nobody reads */
    CADRE_LOG_TASK_SIZE = 64,    /* bytes of the task's name with the 0; longer ones are cut */
};

typedef enum {
    CADRE_LOG_DEBUG = 0,
    CADRE_LOG_INFO = 1,
    CADRE_LOG_WARN = 2,
    CADRE_LOG_ERROR = 3,
} cadre_log_level_t;

typedef enum {
    CADRE_LOG_TEXT = 0,
    CADRE_LOG_JSON = 1,
} cadre_log_style_t;

/* Writes a line, which ends with a newline and a 0 (not counted in size_bytes); called on the
 * thread that logs it. It must not call into Cadre. */
typedef void (*cadre_log_write_t)(void *owner, cadre_log_level_t level, const char *line,
                                  size_t size_bytes);

typedef struct {
    cadre_log_level_t level; /* events below it are dropped */
    cadre_log_style_t style;
    const char *task;        /* "worker"; copied. NULL: "cadre" */
    cadre_log_write_t write; /* NULL: nothing is written */
    void *owner;             /* passed to `write` */
} cadre_log_options_t;

/* Sets the process's log; called before any thread that logs is started. */
void cadre_log_setup(const cadre_log_options_t *options);

/* Sets the log of a command: to stderr, as text when that is a terminal, else as JSON lines. Each
 * line is one write(2). Lines that find no room within CADRE_LOG_STALL_MS are dropped, so that no
 * thread blocks on the reader of a pipe; the next line that is written follows a log_lines_lost
 * with their number. */
void cadre_log_setup_stderr(cadre_log_level_t level, const char *task);

/* Adds the task's index to its name in lines from now on: "ps/3" where it was set up as "ps". The
 * coordinator often chooses the index, which may differ in the next session. Any thread. */
void cadre_log_set_index(uint32_t index);

/* Converts "debug", "info", "warn" or "error" to a level; fails with CADRE_EINVALID for other
 * texts. */
int cadre_log_level_parse(const char *text, cadre_log_level_t *level);

/* Returns the level for a letter: 'D' debug, 'I' info, 'W' warn, any other error. */
cadre_log_level_t cadre_log_level_of(char letter);

/* Logs `event` with pairs:
 *
 *     cadre_log(CADRE_LOG_WARN, "worker_lost", "worker=%u closures=%zu reason=%s", ...);
 *
 * `format` is key=value pairs, separated by one space; a value may be put in double quotes so that
 * its own text may contain spaces: `text="gave up after %d tries"`. The pairs are found in the
 * format, never in the values: whatever a value contains, spaces, quotes or bytes from a peer, it
 * stays that value, quoted and escaped as the style asks. A value that is one single %d, %u, %f or
 * the like becomes a number in JSON, any other a string. Conversions: d i u x X o c s p f F e E g G
 * % with flags, width, precision (also *) and the length modifiers hh h l ll z j t. Keys ts,
 * level, task, event and cut are taken. */
void cadre_log(cadre_log_level_t level, const char *event, const char *format, ...)
    CADRE_PRINTF(3, 4);

/* Logs `event` with key=value pairs that are formatted already, for callbacks that are given such a
 * text (cadre_audit_t). A value in quotes ends at the next quote. */
void cadre_log_pairs(cadre_log_level_t level, const char *event, const char *pairs);

#endif
