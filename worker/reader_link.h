/*
 * reader_link - the network actor's end of its pipe to the reader, which opens datasets and reads
 * batches ahead.
 *
 * A batch of a few rows that are in memory is copied here: that takes less than to wake the reader,
 * and to be woken by it.
 *
 * Owner:   the network actor. Thread: the network actor's; a load that was given to the reader or a
 *          slot is used by its thread only (worker/slot/load.h).
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
    size_t out;            /* loads and open requests that the reader has */
    uint64_t opens;        /* open requests so far */
    cadre_u64_map_t known; /* by dataset id: a known_t of the source, of the last open request */
    uint64_t blocks_read;  /* of the load that was taken back last */
    cadre_load_t *spare;   /* list of loads that can be used again */
    size_t spare_count;
} cadre_reader_link_t;

void cadre_reader_link_init(cadre_reader_link_t *self, void *pipe);

/* Frees all loads; the reader must have given them back. */
void cadre_reader_link_fini(cadre_reader_link_t *self);

/* Returns whether the reader has given back all loads and open requests. */
bool cadre_reader_link_is_idle(const cadre_reader_link_t *self);

/* Has the batches of the run's closure read. Returns their load where that is done already; NULL
 * where the reader gives it back later. */
const cadre_load_t *cadre_reader_link_load(cadre_reader_link_t *self, const cadre_run_t *run);

/* Returns the load of a closure's batches; NULL when the closure has none. */
cadre_load_t *cadre_reader_link_find(const cadre_reader_link_t *self, uint64_t closure);

/* Forgets the batches of a closure, which has ended. */
void cadre_reader_link_forget(cadre_reader_link_t *self, uint64_t closure);

/* Has a dataset opened; moves its rows, where it has any, to the reader. */
void cadre_reader_link_open(cadre_reader_link_t *self, cadre_dataset_entry_t *dataset);

/* Has what a resource held destroyed, on the reader's thread. */
void cadre_reader_link_release(cadre_reader_link_t *self, cadre_holding_t **holding_p);

/* Another session: has all datasets closed, and wants no batches any more. */
void cadre_reader_link_reset(cadre_reader_link_t *self);

/* Takes back an open request that the reader has answered; the caller destroys it. NULL for a
 * request of an earlier session. */
cadre_open_request_t *cadre_reader_link_opened(cadre_reader_link_t *self, void *pointer);

/* Takes back a load that the reader has filled; NULL when its closure has ended. */
const cadre_load_t *cadre_reader_link_loaded(cadre_reader_link_t *self, void *pointer);

#endif
