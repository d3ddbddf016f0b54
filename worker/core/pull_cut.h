/*
 * pull_cut - what a run pulls from one shard, cut into the PULLs that ask for it.
 *
 * A PULL names whole partitions, or rows of some; and as much as one VALUES may answer.
 *
 * Owner:   whoever cuts. Thread: any one.
 */
#ifndef CADRE_WORKER_CORE_PULL_CUT_H
#define CADRE_WORKER_CORE_PULL_CUT_H

#include "common/wire/record_list.h"
#include "worker/core/closure_run.h"

/* How much the PULL that is being made asks for. Zeroed memory is one that asks for nothing yet. */
typedef struct {
    bool is_of_rows; /* of rows of partitions; else of whole ones */
    size_t parts;
    size_t rows;
    size_t chunks;
    size_t size_bytes;
} cadre_pull_cut_t;

/* Adds a part to what the PULL asks for; false when it takes no further one, or none of this kind,
 * so that the part begins the next PULL. The first part is always taken. */
bool cadre_pull_cut_add(cadre_pull_cut_t *self, const cadre_run_part_t *part);

/* Names the rows of the parts at `indexes` for a PULL: returns a record for each part, which the
 * caller puts into the message and frees, and adds all ids to the message as one chunk. */
cadre_row_part_t *cadre_pull_cut_name_rows(const cadre_run_part_t *parts, const size_t *indexes,
                                           size_t count, cadre_message_t *message);

/* Says which of these rows the worker holds: returns the newest version of each part, which the
 * caller puts into the message and frees, and adds the ages of all rows to the message as one
 * chunk. NULL where it holds none. */
uint64_t *cadre_pull_cut_name_held(const cadre_run_part_t *parts, const size_t *indexes,
                                   size_t count, cadre_message_t *message);

#endif
