/*
 * catalogue - what a job has: variables, functions, datasets, resources and checkpoints.
 *
 *     s = cadre_variable_list(job, &variables, &count);
 *     for (size_t i = 0; i < count && !s; i++) {
 *         printf("%s\n", cadre_variable_name(variables[i]));
 *     }
 *     free(variables);
 *
 * A list is of the moment, in the order in which things were made, and the caller frees it with
 * free(); the handles in it are those that the calls which made them gave, and live as long. An
 * empty list is NULL. Names, errors, waiting and threads are as <cadre/coordinator.h> says.
 */
#ifndef CADRE_CATALOGUE_H
#define CADRE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- What there is --- */

/* Lists the variables that exist on all shards and were not dropped. The caller frees the list with
 * free(), which leaves the variables as they are; they stay the coordinator's. An empty list is
 * NULL. */
CADRE_API int cadre_variable_list(cadre_coordinator_t *self, cadre_variable_t ***variables,
                                  size_t *count);

/* Gives one of these by its name.
 *
 * CADRE_ENOTFOUND: there is none. */
CADRE_API int cadre_variable_find(cadre_coordinator_t *self, const char *name,
                                  cadre_variable_t **variable);

/* Lists the functions, programs and native ones. Those of one content are one function. */
CADRE_API int cadre_function_list(cadre_coordinator_t *self, cadre_function_t ***functions,
                                  size_t *count);

/* Lists the datasets that are open. */
CADRE_API int cadre_dataset_list(cadre_coordinator_t *self, cadre_dataset_t ***datasets,
                                 size_t *count);

/* Lists the resources, those included that workers have not built yet or cannot build. */
CADRE_API int cadre_resource_list(cadre_coordinator_t *self, cadre_resource_t ***resources,
                                  size_t *count);

/* Return the name: of a program, of a native function or of a dataset. It lives as long as the
 * coordinator. Those of variables and resources cadre_variable_name and cadre_resource_name
 * tell. */
CADRE_API const char *cadre_function_name(const cadre_function_t *self);
CADRE_API const char *cadre_dataset_name(const cadre_dataset_t *self);

/* --- Checkpoints --- */

/* A checkpoint in the job's directory. It cannot grow. */
typedef struct {
    uint64_t id;   /* as cadre_checkpoint_save gives it */
    char *path;    /* of its directory */
    bool is_valid; /* its manifest is sound and its files have their sizes; they are not read */
    bool is_best;  /* cadre_checkpoint_mark_best has marked it */
    char *reason;  /* why it is not valid; NULL: it is. All below is of valid ones */
    uint64_t cut;
    char *created; /* wall clock time, as "2026-01-31T12:00:00Z" */
    size_t shard_count;
    uint64_t size_bytes;
} cadre_checkpoint_info_t;

/* Lists the checkpoints that are there, of earlier sessions too, the newest first, for
 * cadre_checkpoint_infos_free. It reads every manifest and does not hold up the job; one that is
 * removed meanwhile, as older ones are after each commit, is listed as not valid or not at all.
 *
 * CADRE_ESTATE: there is no checkpoint directory.
 * CADRE_EIO: it cannot be read. */
CADRE_API int cadre_checkpoint_list(cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                                    size_t *count);
CADRE_API void cadre_checkpoint_infos_free(cadre_checkpoint_info_t **infos_p, size_t count);

/* Reads what a checkpoint holds of a variable, which need not exist now, into `value`, as
 * cadre_variable_read does: its values where `slot` is NULL, else that slot of its optimizer, as
 * "momentum" or "velocity" of adam, of the variable's shape. Every file that it is in is verified
 * first. To take values back into a running job, assign them:
 *
 *     s = cadre_checkpoint_read(job, infos[1].id, "weight", NULL, &value);
 *     s = s ? s : cadre_variable_assign(weight, CADRE_VARIABLE_SET, &value, -1);
 *
 * The slots of optimizers and the steps that they count go on as they are then; a job that is to be
 * as it was, those included, is opened again with `resume_path`.
 *
 * CADRE_ESTATE: there is no checkpoint directory.
 * CADRE_ENOTFOUND: there is no such checkpoint, or it has no such variable or slot.
 * CADRE_ECORRUPT, CADRE_EIO: it is damaged, or cannot be read. */
CADRE_API int cadre_checkpoint_read(cadre_coordinator_t *self, uint64_t checkpoint,
                                    const char *variable, const char *slot, cadre_tensor_t *value);

#ifdef __cplusplus
}
#endif
#endif
