/*
 * row_plan - which rows of a variable are asked of which shard, in which messages.
 *
 * Owner:   who reads the rows. Thread: any one; no state of the core is needed.
 *
 * Rows are sorted by shard and partition, each partition's in the order of the request, and cut
 * into messages: one for each shard, or as many as its rows need (CADRE_ROW_PARTS_MAX,
 * CADRE_ROWS_MAX, CADRE_ROWS_SIZE_MAX). A row's position is its place in the request.
 */
#ifndef CADRE_COORDINATOR_CORE_PROVISIONING_ROW_PLAN_H
#define CADRE_COORDINATOR_CORE_PROVISIONING_ROW_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/wire/record_list.h"
#include "coordinator/core/catalogue/catalogue.h"

/* Rows of one partition in one message: those at order[first] to order[first + count - 1]. */
typedef struct {
    uint32_t partition;
    size_t first;
    size_t count;
} cadre_row_plan_part_t;

/* One message: `part_count` of the parts from number `first_part` on. */
typedef struct {
    uint32_t shard;
    size_t first_part;
    size_t part_count;
    size_t row_count;
} cadre_row_plan_message_t;

typedef struct {
    const cadre_variable_t *variable;
    /* [count] rows that are asked for, of a table their keys; NULL: those from `first_row` on */
    const int64_t *ids;
    int64_t first_row;
    size_t count;
    size_t *order; /* [count] positions, sorted by shard and partition */
    cadre_row_plan_part_t *parts;
    size_t part_count;
    cadre_row_plan_message_t *messages;
    size_t message_count;
} cadre_row_plan_t;

/* Plans `count` rows of a variable: those of `ids` (borrowed), or where that is NULL those from
 * `first_row` on. All are rows of the variable; one may stand in `ids` several times. Of a table
 * `ids` are keys: any numbers, as signed ones of the same bits. */
void cadre_row_plan_init(cadre_row_plan_t *self, const cadre_variable_t *variable,
                         const int64_t *ids, int64_t first_row, size_t count);
void cadre_row_plan_fini(cadre_row_plan_t *self);

/* Writes the records of a message to `records` [its part_count], and returns the ids of the rows
 * that are no span as a chunk, which the caller drops; NULL when there are none. */
cadre_chunk_t *cadre_row_plan_name(const cadre_row_plan_t *self,
                                   const cadre_row_plan_message_t *message,
                                   cadre_row_part_t *records);

#endif
