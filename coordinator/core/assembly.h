/*
 * assembly - links the objects of the coordinator's core to those that each reads and calls.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * The order is that of the rooms: an object is made after those that it reads at its birth. What
 * each object may touch stands in its `..._links_t`; nothing else of the core is within its reach.
 */
#ifndef CADRE_COORDINATOR_CORE_ASSEMBLY_H
#define CADRE_COORDINATOR_CORE_ASSEMBLY_H

#include "coordinator/core/coordinator_core.h"

/* Makes all objects of a core whose `options` and `effects` are set. They hold pointers to each
 * other, so the core must not be moved after this. */
void cadre_core_assemble(cadre_core_t *self);

#endif
