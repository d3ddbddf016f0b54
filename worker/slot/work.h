/*
 * work - one START on its way: from the network actor to a slot and back, with the outcome.
 *
 * Owner:   who holds it; the run in it stays the core's. Thread: its owner's.
 */
#ifndef CADRE_WORKER_SLOT_WORK_H
#define CADRE_WORKER_SLOT_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/tensor_list.h"
#include "worker/core/closure_run.h"
#include "worker/slot/load.h"

typedef struct cadre_work {
    struct cadre_work *next;
    const cadre_closure_call_t *call; /* what the slot is to run */
    const cadre_load_t *load;         /* its batches; NULL when it has none */
    uint32_t worker_index;

    /* The network actor's: the run, which does not know of its work; the slot that asks, and what,
     * while it waits for an answer. */
    cadre_run_t *run;
    uint32_t slot;
    struct cadre_slot_request *request;

    /* The outcome, which the slot fills in. */
    int status;
    cadre_failure_t failure; /* for a failure */
    char *text;              /* for a failure */
    uint64_t compute_us;
    uint64_t examples;
    char **names; /* of the results, NULL at the end; or NULL */
    cadre_tensor_list_t results;
    cadre_holding_t *holding; /* of a build: what it has put, and at the end its results */
} cadre_work_t;

cadre_work_t *cadre_work_new(cadre_run_t *run);
void cadre_work_destroy(cadre_work_t **self_p);

/* Ends the work with `status` and a copy of `text`; 0 with NULL. The first failure stays. */
void cadre_work_end(cadre_work_t *self, int status, cadre_failure_t failure, const char *text);

/* Argument `name`: of the batches, of `tensors` (cadre_closure_call_tensors), or of the resources
 * that it names; NULL when there is none. A name is one of these: the coordinator refuses other
 * calls. */
const cadre_tensor_t *cadre_work_argument(const cadre_work_t *self, const cadre_tensor_t *tensors,
                                          const char *name);

/* The end of a build on its slot: its results become part of what is held; all of that is destroyed
 * when it has failed. */
void cadre_work_end_build(cadre_work_t *self);

/* Whether anybody wants results. */
bool cadre_work_wants_results(const cadre_work_t *self);

/* Copies results into the outcome, named by names[count]. CADRE_EFULL for more than
 * CADRE_RESULTS_MAX, CADRE_ETOOLARGE beyond CADRE_RESULT_SIZE_MAX, CADRE_EINVALID. */
int cadre_work_give_results(cadre_work_t *self, const char *const *names,
                            const cadre_tensor_t *tensors, size_t count);

#endif
