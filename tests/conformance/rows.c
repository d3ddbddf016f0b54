#include "tests/conformance/rows.h"

#include <stdio.h>

#include "common/base/memory.h"
#include "tests/conformance/functions.h"
#include "tests/system/scratch.h"

void
rows_write(const char *path, int rows)
{
    FILE *file = fopen(path, "we");
    require(file != NULL, path);
    for (int i = 0; i < rows; i++) {
        fprintf(file, "%d,0,%d\n", i, i);
    }
    require(fclose(file) == 0, path);
}

int
rows_open(cadre_coordinator_t *coordinator, const char *path, const char *name, int64_t timeout_ms,
          cadre_dataset_t **dataset)
{
    cadre_auto(cadre_free) char *description =
        cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"label\": \"last\"}", path);
    return cadre_dataset_open(coordinator, name, description, timeout_ms, dataset);
}

int
visits_create(cadre_coordinator_t *coordinator, int parts, cadre_variable_t **visits)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {VISIT_ROWS};
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    return cadre_variable_create(coordinator, "visits", CADRE_F32, shape, 1, &options, visits);
}
