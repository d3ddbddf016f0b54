/*
 * reader_link - what the network actor has the reader do: open datasets, read batches ahead.
 *
 * Owner:   the network actor. Thread: the network actor's; a load that the reader has, or a slot,
 *          is theirs meanwhile (worker/slot/load.h).
 *
 * A load whose closure has ended is used again for the next one, once the reader has given it back.
 */
#ifndef CADRE_WORKER_READER_LINK_H
#define CADRE_WORKER_READER_LINK_H

#include "common/base/u64_map.h"
#include "common/net/actor.h"
#include "worker/core/closure_run.h"
#include "worker/core/directory.h"
#include "worker/slot/reader_actor.h"

typedef struct {
    void *pipe;            /* the reader's, borrowed */
    uint64_t session;      /* count of cadre_reader_link_reset */
    cadre_u64_map_t loads; /* by closure id */
    size_t out;            /* loads and opens that the reader has */
    cadre_load_t *spare;
    size_t spare_count;
} cadre_reader_link_t;

void cadre_reader_link_init(cadre_reader_link_t *self, void *pipe);

/* Frees all loads; the reader must have given them back. */
void cadre_reader_link_fini(cadre_reader_link_t *self);

/* Whether the reader has given everything back. */
bool cadre_reader_link_is_idle(const cadre_reader_link_t *self);

/* Has the batches of the run's closure read. */
void cadre_reader_link_load(cadre_reader_link_t *self, const cadre_run_t *run);

/* The batches of a closure that are wanted; NULL without any. */
cadre_load_t *cadre_reader_link_find(const cadre_reader_link_t *self, uint64_t closure);

/* Nobody wants the closure's batches any more. */
void cadre_reader_link_forget(cadre_reader_link_t *self, uint64_t closure);

/* Has a dataset opened. */
void cadre_reader_link_open(cadre_reader_link_t *self, const cadre_dataset_entry_t *dataset);

/* Has what a resource held destroyed, on the reader's thread. */
void cadre_reader_link_release(cadre_reader_link_t *self, cadre_holding_t **holding_p);

/* Another session: has all datasets closed, and wants no batches any more. */
void cadre_reader_link_reset(cadre_reader_link_t *self);

/* An answer of the reader: takes an open request back; NULL for one of a session before. The caller
 * destroys it. */
cadre_open_request_t *cadre_reader_link_opened(cadre_reader_link_t *self, void *pointer);

/* An answer of the reader: takes a load back; NULL for one that nobody wants any more. */
const cadre_load_t *cadre_reader_link_loaded(cadre_reader_link_t *self, void *pointer);

#endif
