/*
 * worker_arguments - results of closures that are arguments of others: what is kept of them here,
 * and what a closure takes from that instead of being told (worker/core/kept_values.h).
 */
#include "common/base/memory.h"
#include "worker/core/worker_state.h"

/* The tensors of a message as a list; borrowed. */
static cadre_tensor_list_t
told_by(const cadre_message_t *message)
{
    const cadre_u64s_t *items = &message->closure.tensors;
    return (cadre_tensor_list_t){.items = (uint64_t *)(uintptr_t)items->items,
                                 .count = items->count,
                                 .chunks = message->chunks,
                                 .chunk_count = message->chunk_count};
}

bool
cadre_worker_take_values(cadre_worker_core_t *self, cadre_run_t *run)
{
    const cadre_u64s_t *told = &run->message.closure.values;
    const cadre_tensor_list_t list = told_by(&run->message);
    size_t count = cadre_run_value_count(run);
    bool found = true;
    if (count == 0) {
        return true;
    }
    run->values = cadre_calloc(count, sizeof(*run->values));
    for (size_t i = 0; i < count; i++) {
        const uint64_t *value = told->items + 4 * i;
        if (!value[3]) {
            run->values[i] = cadre_kept_values_take(&self->kept, value);
            found = found && run->values[i];
            self->counters[run->values[i] ? CADRE_WORKER_COUNTER_values_found
                                          : CADRE_WORKER_COUNTER_values_missed]++;
        }
    }
    /* Not before the others are taken, which these may drive out. */
    size_t position = run->message.closure.names.count - count; /* after its own */
    for (size_t i = 0; i < count; i++) {
        const uint64_t *value = told->items + 4 * i;
        if (value[3]) {
            cadre_kept_values_put(&self->kept, value, &list, position++);
        }
    }
    return found;
}

void
cadre_worker_keep_results(cadre_worker_core_t *self, const cadre_run_t *run,
                          const cadre_tensor_list_t *results, size_t count)
{
    for (size_t i = 0; i < count && results->size_bytes >= CADRE_KEPT_VALUE_SIZE_MIN; i++) {
        const uint64_t key[3] = {cadre_run_id(run), run->attempt, i};
        cadre_kept_values_put(&self->kept, key, results, i);
    }
}
