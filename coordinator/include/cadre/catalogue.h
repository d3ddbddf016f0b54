/*
 * catalogue - what a job has: variables, functions, datasets, resources and checkpoints.
 *
 *     s = cadre_variable_list(job, &variables, &count);
 *     for (size_t i = 0; i < count && !s; i++) {
 *         printf("%s\n", cadre_variable_name(variables[i]));
 *     }
 *     free(variables);
 *
 * A list shows the job at the moment of the call, in the order of creation. The caller frees the
 * list with free(), but not the handles in it: they are the ones that were given at creation. An
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

/* Finds a variable of that list by its name.
 *
 * CADRE_ENOTFOUND: no variable has the name, or it was dropped. */
CADRE_API int cadre_variable_find(cadre_coordinator_t *self, const char *name,
                                  cadre_variable_t **variable);

/* Lists the functions, both programs and native ones. A program registered twice is listed once. */
CADRE_API int cadre_function_list(cadre_coordinator_t *self, cadre_function_t ***functions,
                                  size_t *count);

/* Lists the datasets that are open. */
CADRE_API int cadre_dataset_list(cadre_coordinator_t *self, cadre_dataset_t ***datasets,
                                 size_t *count);

/* Lists the resources, also resources that workers have not built yet or cannot build. */
CADRE_API int cadre_resource_list(cadre_coordinator_t *self, cadre_resource_t ***resources,
                                  size_t *count);

/* Return the name of a function (program or native) or of a dataset. The text lives as long as the
 * coordinator. See also cadre_variable_name and cadre_resource_name. */
CADRE_API const char *cadre_function_name(const cadre_function_t *self);
CADRE_API const char *cadre_dataset_name(const cadre_dataset_t *self);

/* --- Checkpoints --- */

/* A checkpoint in the job's directory. The struct gets no more fields in later versions. */
typedef struct {
    uint64_t id;   /* the number that cadre_checkpoint_save gives */
    char *path;    /* path of the directory of this checkpoint */
    bool is_valid; /* its manifest is sound and its files have the right sizes; contents are not
                        checked */
    bool is_best;  /* cadre_checkpoint_mark_best has marked it */
    char *reason;  /* why it is not valid; NULL for a valid one */

    /* Only of a valid checkpoint; else 0 and NULL. */
    uint64_t cut;  /* the checkpoint holds closures with a smaller id (docs/glossary.md) */
    char *created; /* wall clock time, such as "2026-01-31T12:00:00Z" */
    size_t shard_count;
    uint64_t size_bytes; /* of all files */
} cadre_checkpoint_info_t;

/* Lists the checkpoints in the directory of the job, also those of earlier sessions, the newest
 * first; the caller frees the list with cadre_checkpoint_infos_free. The call reads every manifest
 * and does not hold up the job. A checkpoint that is removed meanwhile (the coordinator removes old
 * ones after each new one) is listed as not valid or not at all.
 *
 * CADRE_ESTATE: the job has no checkpoint directory.
 * CADRE_EIO: the directory cannot be read. */
CADRE_API int cadre_checkpoint_list(cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                                    size_t *count);
CADRE_API void cadre_checkpoint_infos_free(cadre_checkpoint_info_t **infos_p, size_t count);

/* Reads the values of a variable from a checkpoint into `value`, as cadre_variable_read does; the
 * variable need not exist any more. With `slot` that slot of its optimizer is read instead, such as
 * "momentum" or "velocity" of adam, which has the variable's shape. Each file read from is verified
 * first. To take values back into a running job there is cadre_checkpoint_restore_values. The rows
 * of a table (<cadre/table.h>) are read by key, so not by this call: `cadre checkpoint export`
 * writes all that a checkpoint holds, and those of the running job gives cadre_variable_read_keys.
 *
 * CADRE_EINVALID: a bad name, or the variable is a table in the checkpoint.
 * CADRE_ESTATE: the job has no checkpoint directory.
 * CADRE_ENOTFOUND: there is no such checkpoint, or it has no such variable or slot; the text names
 * the slots that there are.
 * CADRE_ECORRUPT, CADRE_EIO: the checkpoint is damaged, or cannot be read. */
CADRE_API int cadre_checkpoint_read(cadre_coordinator_t *self, uint64_t checkpoint,
                                    const char *variable, const char *slot, cadre_tensor_t *value);

/* Puts the values that a checkpoint holds back into `count` variables of the running job, by their
 * names; NULL for `names` means all variables of the job. The number of ps, and how variables are
 * cut, may have changed since.
 *
 *     s = cadre_coordinator_join(job, -1);
 *     s = s ? s : cadre_checkpoint_restore_values(job, best, NULL, 0, -1);
 *
 * First the files of the checkpoint are verified, and dtypes and shapes of all variables compared:
 * if anything is wrong there, nothing changes. Then each variable is assigned. An assignment counts
 * exactly once, also when a ps is lost meanwhile or later. When the call fails after that, as by
 * CADRE_ETIMEOUT, some variables may have the values of the checkpoint and others not; the same
 * call again puts all right. A variable must not be dropped meanwhile.
 *
 * Of a table (<cadre/table.h>) the rows that the checkpoint holds are assigned, by key; rows that
 * were made since stay as they are, but for those that go where the table evicts rows to have room.
 * A ps that has not room for the rows of the checkpoint and those that its newest update has
 * changed, or assignments since, may evict some of the former.
 *
 * Closures must have ended, or each would see a mixture: join, or cancel, before. Pinned closures
 * are not looked at; they see each variable with old values or with those of the checkpoint.
 *
 * Slots of optimizers, their counted steps and the progress of the job stay as they are. To go back
 * to all of these there is cadre_checkpoint_restore.
 *
 * CADRE_ESTATE: closures are queued or in flight, or the job has no checkpoint directory.
 * CADRE_ENOTFOUND: there is no such checkpoint, or the job or the checkpoint has no variable of a
 *   name; with NULL each variable of the job must be in the checkpoint.
 * CADRE_EDTYPE, CADRE_ESHAPE: a variable has another dtype or shape in the checkpoint.
 * CADRE_ECORRUPT, CADRE_EIO: the checkpoint is damaged, or cannot be read. */
CADRE_API int cadre_checkpoint_restore_values(cadre_coordinator_t *self, uint64_t checkpoint,
                                              const char *const *names, size_t count,
                                              int64_t timeout_ms);

/* Takes the running job back to a checkpoint: values of all variables, slots of optimizers with
 * running averages, counted steps, the counters of shards, and the numbers of closures that
 * cadre_checkpoint_next leaves out are those of the checkpoint. Everything that was done after it
 * is undone, and counts nowhere. What is done from now on counts exactly once, also when a ps is
 * lost meanwhile or later. The number of ps, and how variables are cut, may have changed since the
 * checkpoint.
 *
 *     char *progress = NULL;
 *     s = cadre_coordinator_join(job, -1);
 *     s = s ? s : cadre_checkpoint_restore(job, best, -1, &progress);
 *     ...
 *     free(progress);
 *
 * `progress` (may be NULL) receives the checkpoint's progress record, which the caller frees; NULL
 * where it has none. Positions in data are the program's: an epoch that cadre_dataset_begin has
 * begun stays where it is, and batches that cadre_dataset_next has given stay valid. A program that
 * goes back there, too, begins its epoch again at the position in its progress record.
 *
 * What is not of checkpoints stays: datasets, functions, resources and futures, the totals of the
 * job, ids of closures, the seed; and the schedules of learning rates with the changes that
 * cadre_variable_change_rate has made, which belong to numbers of updates, so that each comes again
 * at its number. A variable that the checkpoint has and the job has dropped stays dropped; one that
 * was created again with another optimizer begins with new slots, as after a resume.
 *
 * First the files of the checkpoint are verified and all variables compared with it, in the turn in
 * which the job goes back: when the call fails by that, nothing has changed. After CADRE_ETIMEOUT
 * or CADRE_EINTERRUPTED the job may have gone back, or be about to; the call, repeated, puts that
 * right. Calls of other threads that need the shards meanwhile wait. A ps that cannot load the
 * checkpoint ends the job. The job can go back again, to any checkpoint, later ones too. They stay
 * in the directory as older ones do, and a job that is resumed by CADRE_RESUME_AUTO begins with the
 * newest as ever: cadre_checkpoint_save, with the progress, makes that the state which was gone
 * back to.
 *
 * CADRE_ESTATE: closures, pinned ones too, are queued or in flight; a variable of the checkpoint
 *   that was resumed is not created again yet; there are no variables, or no checkpoint directory.
 * CADRE_ENOTFOUND: there is no such checkpoint, or it lacks a variable of the job.
 * CADRE_EDTYPE, CADRE_ESHAPE: a variable has another dtype or shape in the checkpoint.
 * CADRE_ECORRUPT, CADRE_EIO: the checkpoint is damaged, or cannot be read. */
CADRE_API int cadre_checkpoint_restore(cadre_coordinator_t *self, uint64_t checkpoint,
                                       int64_t timeout_ms, char **progress);

#ifdef __cplusplus
}
#endif
#endif
