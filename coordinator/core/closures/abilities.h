/*
 * abilities - what closures need, and which workers have it: native functions, data, resources.
 *
 * Owner:   a member of the job (members/membership.h); needs are borrowed from their closure or
 * lane.
 * Thread:  under the coordinator's lock.
 *
 * A function is there until the worker says that it is not: a closure that it cannot run comes back
 * unrun. A dataset is there once the worker has said which rows it has and they are the job's: else
 * rows would be mixed before anybody knows. A resource is there once it is built.
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
    const uint64_t *batches; /* as in CLOSURE: a dataset's id is every fourth item */
    size_t batch_items;
} cadre_needs_t;

/* Whether both need the same; the rows of a dataset do not matter. */
bool cadre_needs_equal(const cadre_needs_t *left, const cadre_needs_t *right);

/* Zeroed memory has no resources and no data, and every function. */
typedef struct {
    cadre_id_set_t lacked;      /* native functions that are not there */
    cadre_id_set_t admitted;    /* datasets that are, with the job's rows */
    cadre_id_set_t refused;     /* and those that are not, or with other rows */
    cadre_resource_set_t built; /* resources that are built, or have failed to be */
} cadre_abilities_t;

void cadre_abilities_fini(cadre_abilities_t *self);

bool cadre_abilities_meet(const cadre_abilities_t *self, const cadre_needs_t *needs);

#endif
