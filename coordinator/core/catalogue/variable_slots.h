/*
 * variable_slots - the slots that the optimizer of a variable keeps, by name.
 *
 * Thread: under the coordinator's lock, or any: what it reads does not change.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_VARIABLE_SLOTS_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_VARIABLE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"

/* Gives the slot of this name as a PULL names it: its number plus 1. Fails with CADRE_ENOTFOUND,
 * and a text that names those that there are. */
int cadre_variable_slots_find(const cadre_variable_t *variable, const char *name, uint64_t *slot);

/* Returns how many numbers of a slot a row has: those of its values, but one where a table keeps
 * one accumulator for each row. */
size_t cadre_variable_slots_row_elements(const cadre_variable_t *variable);

#endif
