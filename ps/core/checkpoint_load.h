/*
 * checkpoint_load - something that a shard wants of a checkpoint, on its way there and back.
 *
 * Owner:   the shard that made it, whoever carries it out, then the shard again.
 * Thread:  its owner's at the time; what it holds is nobody else's meanwhile.
 *
 * A shard touches no file and waits for none: RESTORE and CREATE have loads as effects
 * (shard_effects.h), and are answered when those come back (cadre_shard_loaded). They are carried
 * out in their order, one after the other, each on as many threads as its lanes have.
 */
#ifndef CADRE_PS_CORE_CHECKPOINT_LOAD_H
#define CADRE_PS_CORE_CHECKPOINT_LOAD_H

#include "ps/core/lanes.h"
#include "ps/core/loader.h"
#include "ps/core/partition.h"

typedef struct {
    uint64_t number; /* counts up */

    /* The checkpoint to be opened for shard `index`, "" to close the one that is open; NULL: fill
     * `partition` from the one that is open. */
    char *path;
    uint32_t index;

    uint64_t key;                       /* the shard's, of the partition */
    char name[CADRE_NAME_SIZE_MAX + 1]; /* of its variable */
    cadre_partition_t *partition;       /* blank */

    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1]; /* where it failed */
    cadre_shard_state_t state;          /* of the shard in the checkpoint that was opened */
    bool found; /* the partition is of the checkpoint; else initial values */
} cadre_checkpoint_load_t;

cadre_checkpoint_load_t *cadre_checkpoint_load_new(uint64_t number);

/* Closes the partition that is still in it. NULL inside is fine. */
void cadre_checkpoint_load_destroy(cadre_checkpoint_load_t **self_p);

/* Carries it out; `status` and `text` say what became of it. A variable that the checkpoint does
 * not hold gets its initial values. CADRE_EDTYPE and CADRE_ESHAPE when it holds another one of the
 * same name, CADRE_ECANCELLED when `give_up` (may be NULL) said so, otherwise as the loader's. */
void cadre_checkpoint_load_run(cadre_checkpoint_load_t *self, const cadre_loader_t *loader,
                               const cadre_lanes_t *lanes, const cadre_give_up_t *give_up);

#endif
