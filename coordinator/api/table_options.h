/*
 * table_options - the options of a table, as a program has filled them in, as the spec that the
 * core and the ps know.
 *
 * Owner:   nobody: it has no state. Thread: any one.
 */
#ifndef CADRE_COORDINATOR_API_TABLE_OPTIONS_H
#define CADRE_COORDINATOR_API_TABLE_OPTIONS_H

#include <cadre/table.h>

#include "common/spec/table_spec.h"

/* Copies the options of a program, as cadre_options_take does; NULL stands for the defaults. */
int cadre_table_options_take(const cadre_table_options_t *given, cadre_table_options_t *out);

/* Writes them as a spec of rows of `dim` numbers, whose values cadre_table_spec_check checks. Fails
 * with CADRE_EINVALID for a kind of initializer, optimizer or schedule that there is not. */
int cadre_table_options_spec(const cadre_table_options_t *self, uint32_t dim,
                             cadre_table_spec_t *spec);

#endif
