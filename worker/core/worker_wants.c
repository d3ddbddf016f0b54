/* What a worker asks the coordinator for, because what it was told has been lost. */
#include "worker/core/worker_state.h"

static void
want(cadre_worker_core_t *self, cadre_want_t kind, uint64_t id)
{
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_WANT);
    message.want = (cadre_want_message_t){.kind = kind, .id = id};
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
}

static void
want_for(cadre_worker_core_t *self, const cadre_run_t *run)
{
    const cadre_closure_message_t *closure = &run->message.closure;
    if (!cadre_directory_function(&self->directory, (uint32_t)closure->function)) {
        want(self, CADRE_WANT_FUNCTION, closure->function);
    }
    bool lags = cadre_directory_generations(&self->directory) < closure->generations;
    for (uint32_t i = 0; lags && i < self->directory.shard_count; i++) {
        want(self, CADRE_WANT_SHARD, i);
    }
    if (self->directory.variables_complete < closure->variables ||
        self->directory.drops < closure->drops) {
        want(self, CADRE_WANT_DEFINITIONS, self->directory.definitions);
    }
    for (size_t i = 0; i < closure->batches.count; i += 4) {
        if (!cadre_directory_dataset(&self->directory, (uint32_t)closure->batches.items[i])) {
            want(self, CADRE_WANT_DATASET, closure->batches.items[i]);
        }
    }
}

static bool
in_doubt(const cadre_worker_core_t *self, uint32_t shard, uint64_t now_ms)
{
    const cadre_shard_link_t *link = &self->links[shard];
    const cadre_shard_entry_t *entry = &self->directory.shards[shard];
    uint64_t owed_ms = cadre_shard_link_owed_ms(link);
    return entry->known ? entry->away || link->doubted ||
                              (now_ms > owed_ms && now_ms - owed_ms >= CADRE_WANT_RETRY_MS)
                        : self->waiting > 0;
}

void
cadre_worker_want(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (now_ms < self->want_due_ms) {
        return;
    }
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        if (in_doubt(self, i, now_ms)) {
            want(self, CADRE_WANT_SHARD, i);
            self->want_due_ms = now_ms + CADRE_WANT_RETRY_MS;
        }
    }
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0;
         self->waiting > 0 && (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_WAITING && !run->loading) {
            want_for(self, run);
            self->want_due_ms = now_ms + CADRE_WANT_RETRY_MS;
            break; /* one closure's needs at a time: the others mostly miss the same */
        }
    }
}
