/*
 * loader - how a load (checkpoint_load.h) gets at a checkpoint: an interface.
 *
 * Owner:   the object that carries loads out; `context` outlives the loads.
 * Thread:  `open`, `find` and `prepare` are called on the owner's thread, `read` on any of the
 *          threads that carry out loads, several at once.
 *
 * The load actor's one reads files (checkpoint_loader.h); the simulation and tests have their own.
 */
#ifndef CADRE_PS_CORE_LOADER_H
#define CADRE_PS_CORE_LOADER_H

#include "common/checkpoint/disk.h"
#include "common/checkpoint/shard_file.h"
#include "common/checkpoint/shard_reader.h"

/* What a checkpoint says of a variable. */
typedef struct {
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    uint32_t table_parts; /* of a table, how many parts it was in; 0: a dense variable */
} cadre_stored_variable_t;

typedef struct {
    void *context;

    /* Opens the checkpoint at `path`, closing the one that was open, and gives the state of shard
     * `index` in it; zeros when it had fewer shards. Any failure is final for this path. */
    int (*open)(void *context, const char *path, uint32_t index, cadre_shard_state_t *state);

    /* Finds a variable; fails with CADRE_ENOTFOUND when the checkpoint does not hold it. */
    int (*find)(void *context, const char *variable, cadre_stored_variable_t *out);

    /* Does what takes long before a range (of values or of a slot) can be read: verifies files.
     * Fails as cadre_checkpoint_reader_prepare. */
    int (*prepare)(void *context, const cadre_checkpoint_range_t *range,
                   const cadre_give_up_t *give_up);

    /* Reads a range into `out`, as cadre_checkpoint_reader_read; called on several threads at
     * once. */
    int (*read)(void *context, const cadre_checkpoint_range_t *range, void *out,
                cadre_change_counts_t *counts);

    /* Reads how a part of a table is described, its pages, and its blocks of sightings, as
     * cadre_checkpoint_reader_table, cadre_checkpoint_reader_pages and
     * cadre_checkpoint_reader_sightings. */
    int (*table)(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
                 cadre_table_record_t *record);
    int (*pages)(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
                 int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor);
    int (*sightings)(void *context, const char *variable, uint32_t part,
                     const cadre_give_up_t *give_up,
                     int (*visit)(void *visitor, const cadre_table_page_t *block), void *visitor);

    /* Closes the checkpoint, if one is open. */
    void (*close)(void *context);
} cadre_loader_t;

#endif
