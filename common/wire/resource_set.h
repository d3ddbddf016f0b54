/*
 * resource_set - a set of resources, by their ids from 1 to CADRE_RESOURCES_MAX.
 *
 * Owner:   whoever it is part of. Thread: its owner's.
 *
 * A bitmap, because a worker tells with every heartbeat which resources it knows and which it has
 * built, and the coordinator asks for each closure whether a worker has those it names. As a list
 * of the wire it has no trailing zeros: no resources are no bytes.
 */
#ifndef CADRE_COMMON_WIRE_RESOURCE_SET_H
#define CADRE_COMMON_WIRE_RESOURCE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/wire/message.h"

enum { CADRE_RESOURCE_WORDS = CADRE_RESOURCES_MAX / 64 };

/* Zeroed memory is an empty set. */
typedef struct {
    uint64_t words[CADRE_RESOURCE_WORDS]; /* id n is bit (n - 1) % 64 of word (n - 1) / 64 */
} cadre_resource_set_t;

/* Returns whether the set has a resource; false for an id that no resource can have. */
bool cadre_resource_set_has(const cadre_resource_set_t *self, uint64_t id);

/* Returns whether the set has all `count` resources of `ids`. */
bool cadre_resource_set_has_all(const cadre_resource_set_t *self, const uint64_t *ids,
                                size_t count);

/* Adds a resource, whose id must be one that a resource can have. */
void cadre_resource_set_put(cadre_resource_set_t *self, uint64_t id);

/* Return the set as a list for a message (borrowed), and the set that a message's list says. */
cadre_u64s_t cadre_resource_set_list(const cadre_resource_set_t *self);
cadre_resource_set_t cadre_resource_set_of(cadre_u64s_t list);

#endif
