/* The public calls that tell what a job has. */
#include <stdlib.h>

#include <cadre/catalogue.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/checkpoint_files.h"
#include "coordinator/coordinator.h"

/* Returns whether a variable can be used: it exists on all shards and was not dropped. */
static bool
is_usable(const cadre_variable_t *variable)
{
    return variable->created && variable->dropped == 0;
}

/* Lists the variables that can be used. A caller that wants the count alone passes NULL for the
 * list. */
int
cadre_variable_list(cadre_coordinator_t *self, cadre_variable_t ***variables, size_t *count)
{
    size_t found = 0;
    cadre_gate_lock(self->gate);
    const cadre_catalogue_t *catalogue = &self->core.catalogue;
    cadre_variable_t **list = cadre_calloc(catalogue->variable_count, sizeof(*list));
    for (uint32_t i = 0; i < catalogue->variable_count; i++) {
        if (is_usable(catalogue->variables[i])) { /* false for a vacant id */
            list[found++] = catalogue->variables[i];
        }
    }
    cadre_gate_unlock(self->gate);

    if (found == 0 || !variables) {
        cadre_free(&list);
    }
    if (variables) {
        *variables = list;
    }
    if (count) {
        *count = found;
    }
    return 0;
}

/* Finds a variable that can be used by its name. */
int
cadre_variable_find(cadre_coordinator_t *self, const char *name, cadre_variable_t **variable)
{
    int status = cadre_name_check("variable", name);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    cadre_variable_t *found = cadre_catalogue_variable(&self->core.catalogue, name);
    found = found && is_usable(found) ? found : NULL;
    cadre_gate_unlock(self->gate);
    if (!found) {
        return cadre_fail(CADRE_ENOTFOUND, "there is no variable called %s", name);
    }
    if (variable) {
        *variable = found;
    }
    return 0;
}

/* Lists all functions, programs and native ones, that were not dropped; a list or count that is
 * NULL is not given. */
int
cadre_function_list(cadre_coordinator_t *self, cadre_function_t ***functions, size_t *count)
{
    size_t found = 0;
    cadre_gate_lock(self->gate);
    const cadre_catalogue_t *catalogue = &self->core.catalogue;
    cadre_function_t **list = cadre_calloc(catalogue->function_count, sizeof(*list));
    for (uint32_t i = 0; i < catalogue->function_count; i++) {
        if (!catalogue->functions[i]->dropped) {
            list[found++] = catalogue->functions[i];
        }
    }
    cadre_gate_unlock(self->gate);

    if (found == 0 || !functions) {
        cadre_free(&list);
    }
    if (functions) {
        *functions = list;
    }
    if (count) {
        *count = found;
    }
    return 0;
}

/* Lists the datasets that workers could open; a list or count that is NULL is not given. */
int
cadre_dataset_list(cadre_coordinator_t *self, cadre_dataset_t ***datasets, size_t *count)
{
    size_t found = 0;
    cadre_gate_lock(self->gate);
    const cadre_catalogue_t *catalogue = &self->core.catalogue;
    cadre_dataset_t **list = cadre_calloc(catalogue->dataset_count, sizeof(*list));
    for (uint32_t i = 0; i < catalogue->dataset_count; i++) {
        if (catalogue->datasets[i]->opened && catalogue->datasets[i]->status == 0) {
            list[found++] = catalogue->datasets[i];
        }
    }
    cadre_gate_unlock(self->gate);

    if (found == 0 || !datasets) {
        cadre_free(&list);
    }
    if (datasets) {
        *datasets = list;
    }
    if (count) {
        *count = found;
    }
    return 0;
}

/* Lists all resources, built or not, that were not dropped; a list or count that is NULL is not
 * given. */
int
cadre_resource_list(cadre_coordinator_t *self, cadre_resource_t ***resources, size_t *count)
{
    size_t found = 0;
    cadre_gate_lock(self->gate);
    const cadre_catalogue_t *catalogue = &self->core.catalogue;
    cadre_resource_t **list = cadre_calloc(catalogue->resource_count, sizeof(*list));
    for (uint32_t i = 0; i < catalogue->resource_count; i++) {
        if (!catalogue->resources[i]->dropped) {
            list[found++] = catalogue->resources[i];
        }
    }
    cadre_gate_unlock(self->gate);

    if (found == 0 || !resources) {
        cadre_free(&list);
    }
    if (resources) {
        *resources = list;
    }
    if (count) {
        *count = found;
    }
    return 0;
}

const char *
cadre_function_name(const cadre_function_t *self)
{
    return self->name;
}

const char *
cadre_dataset_name(const cadre_dataset_t *self)
{
    return self->name;
}

int
cadre_checkpoint_list(cadre_coordinator_t *self, cadre_checkpoint_info_t **infos, size_t *count)
{
    return cadre_checkpoint_files_list(self, infos, count);
}

/* Frees a list of cadre_checkpoint_list with its texts. */
void
cadre_checkpoint_infos_free(cadre_checkpoint_info_t **infos_p, size_t count)
{
    cadre_checkpoint_info_t *infos = infos_p ? *infos_p : NULL;
    for (size_t i = 0; infos && i < count; i++) {
        free(infos[i].path);
        free(infos[i].reason);
        free(infos[i].created);
    }
    free(infos);
    if (infos_p) {
        *infos_p = NULL;
    }
}

/* Reads values, or a slot of the optimizer, of a variable from a checkpoint; `value` keeps what it
 * has on failure. */
int
cadre_checkpoint_read(cadre_coordinator_t *self, uint64_t checkpoint, const char *variable,
                      const char *slot, cadre_tensor_t *value)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t read = {0};
    int status = cadre_name_check("variable", variable);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_files_read(self, checkpoint, variable, slot, &read);
    if (status < 0 || !value) {
        return status;
    }

    cadre_tensor_fini(value);
    *value = read;
    read = (cadre_tensor_t){0};
    return 0;
}
