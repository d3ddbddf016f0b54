/*
 * push_cut - the update of a run for one shard, cut into the messages that it goes in.
 *
 * Owner:   nobody: it has no state. Thread: any one.
 */
#ifndef CADRE_WORKER_CORE_PUSH_CUT_H
#define CADRE_WORKER_CORE_PUSH_CUT_H

#include "common/wire/record_list.h"
#include "worker/core/closure_run.h"
#include "worker/core/shard_link.h"

/* Of one message. */
typedef struct {
    size_t partitions_max; /* whole ones; of those of which there are rows CADRE_ROW_PARTS_MAX */
    size_t size_bytes_max; /* of a message's chunks; a single larger chunk goes alone */
} cadre_push_limits_t;

/* What one shard gets of a run's update; all borrowed. */
typedef struct {
    const cadre_run_part_t *parts; /* all parts of the run's update, with their chunks */
    const size_t
        *indexes; /* [count]: which elements of `parts` go to this shard, whole ones first */
    size_t count;
    /* The same parts in the form that PUSH carries: [whole_count], [count - whole_count]. */
    const cadre_part_t *named;
    const cadre_pushed_rows_t *named_rows;
    size_t whole_count;
} cadre_push_content_t;

/* Puts into `request` the messages of the PUSH, and the RESERVE that asks for room for
 * `request->size_bytes`. Every message begins as a copy of `head`. */
void cadre_push_cut(const cadre_push_content_t *content, const cadre_push_limits_t *limits,
                    const cadre_message_t *head, const cadre_task_t *ps,
                    cadre_link_request_t *request);

#endif
