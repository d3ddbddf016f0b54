/*
 * range_owners - which worker reads which range of a streamed dataset (common/spec/data_ranges.h).
 *
 * Owner:   the dispatcher. Thread: under the coordinator's lock.
 *
 * Whoever gets a batch of a range parses the blocks around it, so a range costs least where one
 * worker gets all of it. Each range has an owner, the worker that has it by the rules below; a
 * worker gets what is next of its own ranges, in the order of the queue. That is a preference and
 * no right: any worker can run any closure, nobody waits for an owner, and an owner that is gone is
 * nobody.
 *
 *     its share    a worker takes a range without an owner while it has fewer than its share: all
 *                  ranges by the workers of the job, rounded up; and beyond that when it would have
 *                  nothing to do
 *     run ahead    a worker that has done of its own ranges all that may be handed out so early
 *                  takes one from another worker, and has it from then on
 *     help         one that has nothing to do since little is queued, as in a synchronous step or
 *                  at the end of an epoch, helps another: the range changes its owner only where
 *                  that evens out their number
 *
 * It takes the range whose next closure is last in the queue: the owner comes to that one last.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_RANGE_OWNERS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_RANGE_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/closures/closure_lanes.h"
#include "coordinator/core/members/membership.h"

/* The owners of the ranges of one dataset. */
typedef struct {
    uint64_t dataset;
    uint64_t *owners; /* [count]: incarnations; 0: nobody */
    uint32_t count;
} cadre_range_list_t;

typedef struct {
    const cadre_membership_t *members; /* borrowed */
    cadre_range_list_t *lists;         /* [count], one for each dataset with ranges */
    size_t count;
    size_t capacity;
} cadre_range_owners_t;

/* What a worker may get. */
typedef struct {
    const cadre_closure_lanes_t *lanes;
    const cadre_member_t *worker;
    uint64_t below;                       /* as for cadre_closure_lanes_next */
    const cadre_closure_filter_t *filter; /* as there; may be NULL */
    bool is_full;                         /* as many closures have an id, and wait, as may */
    bool may_help;                        /* it may get closures of ranges that others own */
} cadre_range_choice_t;

void cadre_range_owners_init(cadre_range_owners_t *self, const cadre_membership_t *members);
void cadre_range_owners_fini(cadre_range_owners_t *self);

/* Returns the closure that the worker is to have in the place of `head`, which comes first for it
 * and is of a range: one of the same dataset that has an id. Returns `head` where none has, and
 * NULL where all of them are others' and it may not help. The worker becomes the owner of the range
 * by the rules above. */
cadre_closure_t *cadre_range_owners_choose(cadre_range_owners_t *self,
                                           const cadre_range_choice_t *choice,
                                           cadre_closure_t *head);

#endif
