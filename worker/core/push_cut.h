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
    size_t partitions_max;
    size_t size_bytes_max; /* unless a single chunk is larger */
} cadre_push_limits_t;

/* What the shard gets; all borrowed. */
typedef struct {
    const cadre_run_part_t *parts; /* of the run, with their chunks */
    const size_t *indexes;         /* [count]: of those for this shard */
    const cadre_part_t *named;     /* [count]: these, as the messages name them */
    size_t count;
} cadre_push_content_t;

/* Puts the messages of the PUSH into `request`, and the RESERVE that asks for room for its
 * size_bytes. `head` is what all of them say. */
void cadre_push_cut(const cadre_push_content_t *content, const cadre_push_limits_t *limits,
                    const cadre_message_t *head, const cadre_task_t *ps,
                    cadre_link_request_t *request);

#endif
