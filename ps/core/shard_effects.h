/*
 * shard_effects - what a shard wants done that it cannot do itself: messages sent, a snapshot
 * written, checkpoints read.
 *
 * Owner:   the shard's shell, which takes everything out after every call that was given it.
 * Thread:  its owner's.
 */
#ifndef CADRE_PS_CORE_SHARD_EFFECTS_H
#define CADRE_PS_CORE_SHARD_EFFECTS_H

#include "common/wire/outbox.h"
#include "ps/core/checkpoint_load.h"
#include "ps/core/shard_snapshot.h"

/* Zeroed: nothing. */
typedef struct {
    cadre_outbox_t outbox;            /* to be sent */
    cadre_shard_snapshot_t *snapshot; /* to be written; NULL: none */
    cadre_checkpoint_load_t **loads;  /* [load_count], the first load_taken of them taken */
    size_t load_count;
    size_t load_taken;
    uint64_t loads_from; /* loads with a lower number need not be carried out any more */
} cadre_shard_effects_t;

/* Drops what was not taken, and zeroes the struct. */
void cadre_shard_effects_fini(cadre_shard_effects_t *self);

/* --- for the shard --- */

/* Has a snapshot written, in the place of one that was not taken; takes it. */
void cadre_shard_effects_write(cadre_shard_effects_t *self, cadre_shard_snapshot_t **snapshot_p);

/* Has a load carried out after those before it; takes it. */
void cadre_shard_effects_load(cadre_shard_effects_t *self, cadre_checkpoint_load_t **load_p);

/* Gives up what was asked for before: a snapshot that was not taken, and loads with a lower number
 * than `loads_from`. */
void cadre_shard_effects_give_up(cadre_shard_effects_t *self, uint64_t loads_from);

/* --- for the shell --- */

/* The snapshot, NULL when there is none: the caller's from now on. */
cadre_shard_snapshot_t *cadre_shard_effects_take_snapshot(cadre_shard_effects_t *self);

/* The next load, NULL when there is none: the caller's from now on. They are carried out in this
 * order. */
cadre_checkpoint_load_t *cadre_shard_effects_take_load(cadre_shard_effects_t *self);

#endif
