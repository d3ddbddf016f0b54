/*
 * layer_table - the key "table" of a layer over ids: its rows are those of a table
 * (<cadre/table.h>), and how it keeps them.
 *
 * Owner:   a layer (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_TABLE_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_TABLE_H

#include <cadre/table.h>

#include "common/spec/table_spec.h"
#include "coordinator/cli/train/json_source.h"

typedef struct {
    bool is_table;
    bool has_optimizer;      /* one of its own; else that of the job updates its rows */
    cadre_table_spec_t spec; /* without `dim`, which is the layer's */
} cadre_layer_table_t;

/* Reads the value at `pointer`: true, a table with every default; false, none; or an object that
 * says how its rows are kept. Fails with CADRE_ECONFIG and the place in the file. */
int cadre_layer_table_read(const cadre_json_source_t *source, const char *pointer,
                           const json_t *value, cadre_layer_table_t *out);

/* Checks the table of a layer of `units` numbers, with the optimizer of the job. Fails as
 * cadre_table_spec_check does. */
int cadre_layer_table_check(const cadre_layer_table_t *self, int64_t units,
                            const cadre_optimizer_spec_t *optimizer);

/* Returns the options of the layer's table; `optimizer` is that of the job. */
cadre_table_options_t cadre_layer_table_options(const cadre_layer_table_t *self,
                                                const cadre_optimizer_spec_t *optimizer);

#endif
