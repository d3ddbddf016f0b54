/*
 * sim_resize - the whole job stops, and is resumed with another number of ps.
 *
 * Thread:  one.
 *
 * Files stay what they are: what a new shard begins with it takes out of those of the shards that
 * there were. What the oracle has of each checkpoint is dealt out anew: a part of a dense variable
 * goes to its new shard as it is; of a table each row goes to the part that has its key, and the
 * part counts the updates of the one that had most. Which keys were seen is forgotten.
 */
#ifndef CADRE_TESTS_SIM_SIM_RESIZE_H
#define CADRE_TESTS_SIM_SIM_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

struct sim_cluster;

/* Whether the job may be resumed with another number of ps: one in ten; nothing is dropped there,
 * no creation given up, and no table has fewer rows than keys. */
bool sim_is_resized(uint64_t seed);

/* Stops all tasks and the coordinator, which begin again with `shard_count` shards. */
void sim_resize(struct sim_cluster *cluster, uint32_t shard_count);

#endif
