/*
 * record_list - the lists of messages whose items are several numbers each, as structs.
 *
 * A U64S field travels as numbers. Where its schema (proto-schemas/messages.h) says that so many
 * of them belong together, `_view` gives a decoded list as structs, and `_list` what is to be
 * encoded: both borrow, nothing is copied. Numbers beyond the last whole record are not in a view.
 */
#ifndef CADRE_COMMON_WIRE_RECORD_LIST_H
#define CADRE_COMMON_WIRE_RECORD_LIST_H

#include "common/wire/message.h"

/* A partition of a PULL or PUSH. */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    uint64_t number; /* PULL: the version that the asker holds, plus 1; 0: it holds none. PUSH: the
                        version that the gradient was computed from */
} cadre_part_t;

/* Rows of one partition (common/wire/row_list.h). */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    uint64_t first; /* row of the variable; CADRE_ROWS_LISTED: their ids are in the payload */
    uint64_t count;
} cadre_row_part_t;

/* Gradients of rows of one partition. */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    uint64_t version; /* that the gradient was computed from */
    uint64_t count;   /* of rows, whose numbers are in the payload */
} cadre_pushed_rows_t;

/* What VALUES says of a partition; partitions are in the order of the PULL. */
typedef struct {
    uint64_t version;
    uint64_t chunk_count; /* 0: the asker holds this version */
} cadre_pulled_part_t;

/* A request that a PROBE asks after. */
typedef struct {
    uint64_t request;
    uint64_t update;   /* update id of a PUSH; 0 for others */
    uint64_t sequence; /* sequence of an ASSIGN; 0 for others */
} cadre_probe_t;

/* What PROBED says of a request. */
typedef struct {
    uint64_t request;
    uint64_t state; /* cadre_probed_t */
} cadre_probe_answer_t;

/* A closure that waits for a shard on a worker, as HEARTBEAT tells it. */
typedef struct {
    uint64_t closure;
    uint64_t shard;
    uint64_t waited_ms;
} cadre_wait_t;

/* A stretch of rows that a CLOSURE reads. */
typedef struct {
    uint64_t dataset;
    uint64_t order_seed; /* 0: file order */
    uint64_t first;      /* position of the first row in that order */
    uint64_t count;
} cadre_batch_rows_t;

/* A result of another closure that a CLOSURE takes as an argument. */
typedef struct {
    uint64_t closure;
    uint64_t attempt;
    uint64_t result;  /* position among that closure's results */
    uint64_t is_told; /* 1: the CLOSURE brings the value among its tensors; 0: the worker has it */
} cadre_taken_value_t;

/* A report that an ACK names. */
typedef struct {
    uint64_t closure;
    uint64_t attempt;
} cadre_acknowledged_t;

/* An update of a synchronous step, as END_STEP names it. */
typedef struct {
    uint64_t update;
    uint64_t rows; /* how many rows its gradient is the mean of: its weight in the step */
} cadre_step_update_t;

#define CADRE_RECORD_LIST(R)                                                                       \
    R(part)                                                                                        \
    R(row_part)                                                                                    \
    R(pushed_rows)                                                                                 \
    R(pulled_part)                                                                                 \
    R(probe)                                                                                       \
    R(probe_answer)                                                                                \
    R(wait)                                                                                        \
    R(batch_rows)                                                                                  \
    R(taken_value)                                                                                 \
    R(acknowledged)                                                                                \
    R(step_update)

#define R(name)                                                                                    \
    typedef struct {                                                                               \
        const cadre_##name##_t *items;                                                             \
        size_t count;                                                                              \
    } cadre_##name##_list_t;                                                                       \
    cadre_##name##_list_t cadre_##name##_list_view(const cadre_u64s_t *list);                      \
    cadre_u64s_t cadre_##name##_list(const cadre_##name##_t *items, size_t count);
CADRE_RECORD_LIST(R)
#undef R

#endif
