/*
 * task - who one process of the job is, and its text form, which is its routing id.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_WIRE_TASK_H
#define CADRE_COMMON_WIRE_TASK_H

#include <stdbool.h>

#include "common/wire/message.h"

enum { CADRE_TASK_TEXT_SIZE = 40 }; /* "coordinator/4294967294/" + 16 digits + NUL */

typedef struct {
    cadre_role_t role;
    uint32_t index; /* CADRE_INDEX_ANY until the coordinator has chosen one */
    uint64_t incarnation;
} cadre_task_t;

bool cadre_task_equal(const cadre_task_t *left, const cadre_task_t *right);

/* Writes "worker/3/00009f0c2b1d4e55" into `text` of CADRE_TASK_TEXT_SIZE bytes: role, index ("*"
 * for CADRE_INDEX_ANY), and incarnation as 16 lower-case hexadecimal digits; returns `text`. */
const char *cadre_task_text(const cadre_task_t *self, char *text);

/* Reads exactly what cadre_task_text writes, from `size_bytes` bytes of unknown origin without NUL
 * at the end: a task has one routing id, so leading zeros, upper case and the like are refused.
 * CADRE_EMALFORMED otherwise. */
int cadre_task_parse(const void *bytes, size_t size_bytes, cadre_task_t *out);

#endif
