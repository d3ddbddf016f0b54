/*
 * work - one run that the core has STARTed: goes from the network actor to a slot, and back with
 * the outcome.
 *
 * Owner:   the actor that has it at the time; the run in it stays the core's. Thread: its owner's.
 */
#ifndef CADRE_WORKER_SLOT_WORK_H
#define CADRE_WORKER_SLOT_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/tensor_list.h"
#include "worker/core/closure_run.h"
#include "worker/slot/load.h"

struct cadre_slot_request; /* slot_link.h */

typedef struct cadre_work {
    struct cadre_work *next;
    const cadre_closure_call_t *call; /* what the slot is to run */
    const cadre_load_t *load;         /* the closure's batches; NULL when it has none */
    uint32_t worker_index;

    /* Answers a request on the slot's own thread, where worker and ps are in one process
     * (common/net/shortcut.h); NULL: requests go over the slot's pipe. */
    void (*ask)(void *asker, struct cadre_slot_request *request);
    void *asker;

    /* Used by the network actor only: the run; and, while the slot waits for an answer, which slot
     * that is and its request (NULL: none). */
    cadre_run_t *run;
    uint32_t slot;
    struct cadre_slot_request *request;

    /* The outcome, which the slot fills in. */
    int status;
    cadre_failure_t failure; /* for a failure */
    char *text;              /* for a failure */
    uint64_t compute_us;
    uint64_t examples;
    char **names; /* names of the results, ended by NULL; NULL without results */
    cadre_tensor_list_t results;
    /* Of a build of a resource: the object that its function has set and, at the end, its results;
     * else NULL. */
    cadre_holding_t *holding;
} cadre_work_t;

cadre_work_t *cadre_work_new(cadre_run_t *run);
void cadre_work_destroy(cadre_work_t **self_p);

/* Ends the work with `status` and a copy of `text` (NULL for status 0). If the work has failed
 * before, the first failure stays. */
void cadre_work_end(cadre_work_t *self, int status, cadre_failure_t failure, const char *text);

/* Returns argument `name`: of the batches, of `tensors` (cadre_closure_call_tensors), or a result
 * of a resource; NULL when there is none. The coordinator refuses a call in which a name could mean
 * two of these. */
const cadre_tensor_t *cadre_work_argument(const cadre_work_t *self, const cadre_tensor_t *tensors,
                                          const char *name);

/* Ends a build of a resource on its slot: its results become part of `holding`; if the build has
 * failed `holding` is destroyed. */
void cadre_work_end_build(cadre_work_t *self);

/* Returns whether the closure was scheduled with results wanted, or the work is a build. */
bool cadre_work_wants_results(const cadre_work_t *self);

/* Copies results, named by names[count], into the outcome. Fails with CADRE_EFULL for more than
 * CADRE_RESULTS_MAX, CADRE_ETOOLARGE for more than CADRE_RESULT_SIZE_MAX bytes, CADRE_EINVALID for
 * what is no tensor. */
int cadre_work_give_results(cadre_work_t *self, const char *const *names,
                            const cadre_tensor_t *tensors, size_t count);

#endif
