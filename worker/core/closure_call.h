/*
 * closure_call - what is run for a closure, or for the build of a resource: its CLOSURE, and what
 * that names of what is here.
 *
 * Owner:   its run. Thread: the network actor until START; then a slot's too, until the run is
 *          finished, and nobody writes it meanwhile. `cancelled` is atomic because the slot polls
 *          it while the network actor may set it; it only ever goes from false to true, so a late
 *          look is harmless.
 */
#ifndef CADRE_WORKER_CORE_CLOSURE_CALL_H
#define CADRE_WORKER_CORE_CLOSURE_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/wire/message.h"
#include "worker/core/directory.h"
#include "worker/core/kept_values.h"
#include "worker/core/worker_counters.h"

typedef struct {
    cadre_message_t message; /* the CLOSURE */
    const cadre_function_entry_t *function;
    const cadre_resource_entry_t *builds; /* when this is no closure but a build; else NULL */
    const cadre_holding_t **holdings;     /* [closure.resources], of those; or NULL */
    cadre_kept_value_t *
        *values; /* [cadre_closure_call_value_count], NULL where it was told; or NULL */
    atomic_bool cancelled;
} cadre_closure_call_t;

/* Ids of runs that build resources, who are no closures: above those of closures. */
#define CADRE_BUILD_IDS (UINT64_C(1) << 62)

/* Whether the lists of a CLOSURE agree, so that a run may be made of it. */
bool cadre_closure_call_accepts(const cadre_closure_message_t *closure);

/* Takes the message (zeroed afterwards). */
void cadre_closure_call_init(cadre_closure_call_t *self, cadre_message_t *message);
void cadre_closure_call_fini(cadre_closure_call_t *self);

/* The id of the closure, or of the build. */
uint64_t cadre_closure_call_id(const cadre_closure_call_t *self);

/* Says what is run, and what is built by that. */
void cadre_closure_call_set_function(cadre_closure_call_t *self,
                                     const cadre_function_entry_t *function);
void cadre_closure_call_set_builds(cadre_closure_call_t *self,
                                   const cadre_resource_entry_t *resource);

/* Nobody wants what it does any more. */
void cadre_closure_call_cancel(cadre_closure_call_t *self);
bool cadre_closure_call_is_cancelled(const cadre_closure_call_t *self);

/* Keeps the values that came with the closure, and gives it those that it was not told: false when
 * one of these is not here. */
bool cadre_closure_call_take_values(cadre_closure_call_t *self, cadre_kept_values_t *kept,
                                    cadre_worker_counters_t *counters);

/* Sets the values of the resources that the closure names, in the order of `closure.resources`, as
 * many; takes the array. */
void cadre_closure_call_give_holdings(cadre_closure_call_t *self, const cadre_holding_t **holdings);

/* Of the resources that the closure names: what the one called `resource` holds; the result that is
 * called `argument`. NULL when there is none. For slots. */
const cadre_holding_t *cadre_closure_call_holding(const cadre_closure_call_t *self,
                                                  const char *resource);
const cadre_tensor_t *cadre_closure_call_resource_value(const cadre_closure_call_t *self,
                                                        const char *argument);

/* The closure's own tensors and the values that it takes, one for each of its names, to be ended
 * with cadre_tensors_fini. CADRE_EMALFORMED. For slots. */
int cadre_closure_call_tensors(const cadre_closure_call_t *self, cadre_tensor_t **tensors,
                               size_t *count);

/* How many of its arguments are results of others. */
size_t cadre_closure_call_value_count(const cadre_closure_call_t *self);

#endif
