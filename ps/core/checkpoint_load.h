/*
 * checkpoint_load - one thing that a shard wants of a checkpoint, and what came of it: the
 * checkpoint opened or closed, or a partition filled.
 *
 * Owner:   the shard that made it, whoever carries it out, then the shard again.
 * Thread:  the owner's of the time; the partition in it is used by nobody else meanwhile.
 *
 * A shard touches no file and waits for none: RESTORE and CREATE have loads as effects
 * (shard_effects.h), and are answered when those come back (cadre_shard_loaded). They are carried
 * out in their order, one after the other, each on as many threads as its lanes have.
 */
#ifndef CADRE_PS_CORE_CHECKPOINT_LOAD_H
#define CADRE_PS_CORE_CHECKPOINT_LOAD_H

#include "ps/core/loader.h"
#include "ps/core/partition.h"
#include "ps/core/shard_parts.h"
#include "ps/core/values/lanes.h"

typedef struct {
    uint64_t number; /* counts up */

    /* The checkpoint to be opened for shard `index`, "" to close the one that is open; NULL: fill
     * `partition` from the one that is open. */
    char *path;
    uint32_t index;

    uint64_t key;                       /* cadre_partition_key of `partition` */
    char name[CADRE_NAME_SIZE_MAX + 1]; /* of its variable */
    cadre_partition_spec_t spec;        /* of the partition or table */
    cadre_partition_t *partition;       /* to be filled: blank before, whole afterwards */
    cadre_table_t *table;               /* to be filled instead: without rows before */
    uint64_t size_bytes_max;            /* of the table's rows */
    cadre_table_base_t base; /* of the table: what it was loaded from, if it has the same pages */

    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1]; /* where it failed */
    cadre_shard_state_t state;          /* state of the shard in the checkpoint that was opened */
    bool found; /* the partition's values came from the checkpoint; else they are initial values */
} cadre_checkpoint_load_t;

cadre_checkpoint_load_t *cadre_checkpoint_load_new(uint64_t number);

/* Frees the load and the partition that is still in it; harmless on a pointer to NULL. */
void cadre_checkpoint_load_destroy(cadre_checkpoint_load_t **self_p);

/* Carries the load out; `status` and `text` say what became of it. A partition whose variable the
 * checkpoint does not hold gets its initial values. Fails with CADRE_EDTYPE or CADRE_ESHAPE when
 * the checkpoint holds a variable of that name and another dtype or shape, with CADRE_ECANCELLED
 * when `give_up` (may be NULL) says so, else with the loader's status. */
void cadre_checkpoint_load_run(cadre_checkpoint_load_t *self, const cadre_loader_t *loader,
                               const cadre_lanes_t *lanes, const cadre_give_up_t *give_up);

#endif
