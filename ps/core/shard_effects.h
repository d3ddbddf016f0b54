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
    cadre_shard_snapshot_t *snapshot; /* snapshot to be written; NULL: none */
    cadre_checkpoint_load_t **loads;  /* [load_count], in the order in which they are carried out */
    size_t load_count;
    size_t load_taken;   /* how many of `loads`, the first ones, the shell has taken */
    uint64_t loads_from; /* loads with a lower number need not be carried out any more */
} cadre_shard_effects_t;

/* Drops what was not taken, and zeroes the struct. */
void cadre_shard_effects_fini(cadre_shard_effects_t *self);

/* --- called by the shard --- */

/* Asks for a snapshot to be written (takes it), instead of one that the shell has not taken yet. */
void cadre_shard_effects_write(cadre_shard_effects_t *self, cadre_shard_snapshot_t **snapshot_p);

/* Asks for a load to be carried out (takes it), after the loads asked for before. */
void cadre_shard_effects_load(cadre_shard_effects_t *self, cadre_checkpoint_load_t **load_p);

/* Gives up what was asked for before: a snapshot that was not taken, and loads with a lower number
 * than `loads_from`. */
void cadre_shard_effects_give_up(cadre_shard_effects_t *self, uint64_t loads_from);

/* --- called by the shell --- */

/* Takes out the snapshot to be written, which is the caller's then; NULL when there is none. */
cadre_shard_snapshot_t *cadre_shard_effects_take_snapshot(cadre_shard_effects_t *self);

/* Takes out the next load, which is the caller's then; NULL when there is none. Loads are carried
 * out in this order. */
cadre_checkpoint_load_t *cadre_shard_effects_take_load(cadre_shard_effects_t *self);

#endif
