#include "worker/core/worker_wants.h"

#include "common/wire/record_list.h"

/* Sends WANT: asks the coordinator for a definition of this kind and id. */
static void
want(cadre_worker_effects_t *effects, cadre_want_t kind, uint64_t id)
{
    cadre_message_t message = cadre_worker_effects_message(effects, CADRE_MESSAGE_WANT);
    message.want = (cadre_want_message_t){.kind = kind, .id = id};
    cadre_worker_effects_tell(effects, &message);
}

/* Asks for all definitions that a run needs and the directory lacks. Of shards it is only known
 * that some are outdated (`generations` is a sum), so all are asked for. */
static void
want_for(const cadre_directory_t *directory, const cadre_run_t *run,
         cadre_worker_effects_t *effects)
{
    const cadre_closure_message_t *closure = &run->call.message.closure;
    if (!cadre_directory_function(directory, (uint32_t)closure->function)) {
        want(effects, CADRE_WANT_FUNCTION, closure->function);
    }
    bool lags = cadre_directory_generations(directory) < closure->generations;
    for (uint32_t i = 0; lags && i < directory->shard_count; i++) {
        want(effects, CADRE_WANT_SHARD, i);
    }
    if (directory->variables_complete < closure->variables || directory->drops < closure->drops) {
        want(effects, CADRE_WANT_DEFINITIONS, directory->definitions);
    }
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    for (size_t i = 0; i < batches.count; i++) {
        if (!cadre_directory_dataset(directory, (uint32_t)batches.items[i].dataset)) {
            want(effects, CADRE_WANT_DATASET, batches.items[i].dataset);
        }
    }
}

/* Asks the coordinator for what it may have told and this worker has lost: who serves a shard that
 * is away, does not answer or is not known; and the definitions that a waiting closure misses. Asks
 * at most once in CADRE_WANT_RETRY_MS. */
void
cadre_worker_wants_ask(cadre_worker_wants_t *self, const cadre_directory_t *directory,
                       const cadre_worker_runs_t *runs, const cadre_worker_values_t *values,
                       cadre_worker_effects_t *effects, uint64_t now_ms)
{
    if (now_ms < self->due_ms) {
        return;
    }
    for (uint32_t i = 0; i < directory->shard_count; i++) {
        const cadre_shard_entry_t *shard = &directory->shards[i];
        bool in_doubt = shard->known ? shard->away || cadre_worker_values_doubts(values, i, now_ms)
                                     : cadre_worker_runs_waiting(runs) > 0;
        if (in_doubt) {
            want(effects, CADRE_WANT_SHARD, i);
            self->due_ms = now_ms + CADRE_WANT_RETRY_MS;
        }
    }

    /* Ask for what one closure misses at a time: other waiting closures mostly miss the same
     * definitions. */
    const cadre_run_t *run = cadre_worker_runs_wanting(runs);
    if (run) {
        want_for(directory, run, effects);
        self->due_ms = now_ms + CADRE_WANT_RETRY_MS;
    }
}

void
cadre_worker_wants_rows(cadre_worker_effects_t *effects, uint32_t dataset, uint64_t piece)
{
    cadre_message_t message = cadre_worker_effects_message(effects, CADRE_MESSAGE_WANT);
    message.want = (cadre_want_message_t){.kind = CADRE_WANT_ROWS, .id = dataset, .piece = piece};
    cadre_worker_effects_tell(effects, &message);
}
