/*
 * closure_call - what is run for a closure, or for the build of a resource: its CLOSURE message,
 * and the function, resources and kept values of this worker that the message names.
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
    uint64_t functions_gone; /* how many functions were gone when this call got its function: for
                              * slots, which keep programs */
    /* The resource that this call builds; NULL for a closure. */
    const cadre_resource_entry_t *builds;
    /* What each resource of `closure.resources` holds, in that order; NULL until all are built. */
    const cadre_holding_t **holdings;
    /* References to the kept results that the closure takes as arguments
     * [cadre_closure_call_value_count]; an element is NULL where the message brings the value. The
     * array is NULL when the closure takes no results. */
    cadre_kept_value_t **values;
    atomic_bool cancelled; /* nobody wants the result any more */
} cadre_closure_call_t;

/* Runs that build resources are no closures: their ids begin here, above all ids of closures. */
#define CADRE_BUILD_IDS (UINT64_C(1) << 62)

/* Returns whether the lists of a CLOSURE agree in length and content, so that it can be run. */
bool cadre_closure_call_accepts(const cadre_closure_message_t *closure);

/* Makes a call of a CLOSURE; takes the message (zeroed afterwards). */
void cadre_closure_call_init(cadre_closure_call_t *self, cadre_message_t *message);
void cadre_closure_call_fini(cadre_closure_call_t *self);

/* The id of the closure, or of the build. */
uint64_t cadre_closure_call_id(const cadre_closure_call_t *self);

/* Set the function that is run, as the directory has it now (NULL: it has none of that id); set the
 * resource that the run builds. */
void cadre_closure_call_set_function(cadre_closure_call_t *self,
                                     const cadre_directory_t *directory);
void cadre_closure_call_set_builds(cadre_closure_call_t *self,
                                   const cadre_resource_entry_t *resource);

/* Marks the call as cancelled, since nobody wants its result any more; the slot looks now and
 * then. */
void cadre_closure_call_cancel(cadre_closure_call_t *self);
bool cadre_closure_call_is_cancelled(const cadre_closure_call_t *self);

/* Takes from `kept` the results that the CLOSURE names without their bytes, and keeps there those
 * whose bytes came with it. Returns false when a result that came without bytes is not kept. */
bool cadre_closure_call_take_values(cadre_closure_call_t *self, cadre_kept_values_t *kept,
                                    cadre_worker_counters_t *counters);

/* Sets what the resources hold that the closure names: `holdings` has one element for each of
 * `closure.resources`, in that order; takes the array. */
void cadre_closure_call_give_holdings(cadre_closure_call_t *self, const cadre_holding_t **holdings);

/* Return, for slots, what the resource called `resource` holds, and the result of a resource that
 * is called `argument` ("RESOURCE.RESULT"); NULL when the closure names no such resource or it has
 * no such result. */
const cadre_holding_t *cadre_closure_call_holding(const cadre_closure_call_t *self,
                                                  const char *resource);
const cadre_tensor_t *cadre_closure_call_resource_value(const cadre_closure_call_t *self,
                                                        const char *argument);

/* Decodes the arguments of the closure, for a slot: its own tensors and the results of other
 * closures that it takes, one for each of its names. The caller ends them with cadre_tensors_fini.
 * Fails with CADRE_EMALFORMED for bytes that are no tensors, or too few or too many. */
int cadre_closure_call_tensors(const cadre_closure_call_t *self, cadre_tensor_t **tensors,
                               size_t *count);

/* Returns how many arguments of the closure are results of other closures. */
size_t cadre_closure_call_value_count(const cadre_closure_call_t *self);

#endif
