/*
 * abilities - what a closure needs of a worker, and what a worker has: native functions, datasets,
 * resources.
 *
 * Owner:   a member of the job (members/membership.h); needs are borrowed from their closure or
 * lane.
 * Thread:  under the coordinator's lock.
 *
 * A worker counts as having a function until it says otherwise: a closure that it cannot run comes
 * back unrun. It counts as having a dataset only once it has said how many rows it has and they
 * match the job's: else the job would train on other rows before anybody notices. It counts as
 * having a resource once it has built that resource.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_ABILITIES_H
#define CADRE_COORDINATOR_CORE_CLOSURES_ABILITIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/resource_set.h"

/* A set of ids; zeroed memory is an empty one. */
typedef struct {
    uint64_t *words; /* id n is bit n % 64 of word n / 64 */
    size_t word_count;
} cadre_id_set_t;

bool cadre_id_set_has(const cadre_id_set_t *self, uint32_t id);
void cadre_id_set_put(cadre_id_set_t *self, uint32_t id);

/* What a closure needs. */
typedef struct {
    uint32_t function;
    const uint64_t *resources;
    size_t resource_count;
    const uint64_t *batches; /* as in the message CLOSURE: four numbers for each batch, the first is
                              * the id of its dataset */
    size_t batch_items;
} cadre_needs_t;

/* Returns whether two closures with these needs need the same; which rows of a dataset they read
 * does not matter. */
bool cadre_needs_equal(const cadre_needs_t *left, const cadre_needs_t *right);

/* What a worker has. Zeroed memory: every function, no resources and no data. */
typedef struct {
    cadre_id_set_t lacked;      /* native functions that the worker does not have */
    cadre_id_set_t admitted;    /* datasets that the worker has, with the job's rows */
    cadre_id_set_t refused;     /* datasets that the worker cannot open, or has with other rows */
    cadre_resource_set_t built; /* resources that the worker has built, or failed to build */
} cadre_abilities_t;

void cadre_abilities_fini(cadre_abilities_t *self);

/* Returns whether a worker with these abilities can run a closure with these needs now. */
bool cadre_abilities_meet(const cadre_abilities_t *self, const cadre_needs_t *needs);

#endif
