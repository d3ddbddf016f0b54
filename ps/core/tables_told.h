/*
 * tables_told - what a shard has of its tables, as a HEARTBEAT says it.
 *
 * Owner:   whoever holds it (plain data). Thread: its.
 */
#ifndef CADRE_PS_CORE_TABLES_TOLD_H
#define CADRE_PS_CORE_TABLES_TOLD_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/wire/message.h"
#include "ps/core/table/table.h"

enum { CADRE_TABLE_TOLD = 1 + CADRE_TABLE_COUNTER_COUNT }; /* numbers of one table */

typedef struct {
    uint64_t items[CADRE_TABLES_TOLD_MAX * CADRE_TABLE_TOLD]; /* by the ids of variables */
    size_t count;                                             /* of items */
} cadre_tables_told_t;

/* Adds a table: the id of its variable and its figures. Of more than CADRE_TABLES_TOLD_MAX those
 * with the lowest ids stay. */
void cadre_tables_told_add(cadre_tables_told_t *self, uint64_t variable,
                           const cadre_table_figures_t *figures);

/* Writes the figures of a table as messages have them. */
void cadre_tables_told_counters(const cadre_table_figures_t *figures,
                                uint64_t counters[CADRE_TABLE_COUNTER_COUNT]);

#endif
