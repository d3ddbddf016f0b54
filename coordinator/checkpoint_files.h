/*
 * checkpoint_files - reads the checkpoints of the job's directory for callers.
 *
 * Owner:   the coordinator.
 * Thread:  any caller's. The checkpoint store may add and remove checkpoints at the same time, each
 *          as a whole: one that is removed meanwhile is found to be missing.
 */
#ifndef CADRE_COORDINATOR_CHECKPOINT_FILES_H
#define CADRE_COORDINATOR_CHECKPOINT_FILES_H

#include <cadre/catalogue.h>

#include "common/checkpoint/checkpoint_reader.h"
#include "coordinator/coordinator.h"

/* Lists the checkpoints, the newest first. Fails as cadre_checkpoint_list says. */
int cadre_checkpoint_files_list(const cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                                size_t *count);

/* Returns the path of a checkpoint's directory, which the caller frees; the job must have a
 * directory of checkpoints. */
char *cadre_checkpoint_files_path(const cadre_coordinator_t *self, uint64_t id);

/* Opens a checkpoint and all of its files, each of which is verified: from then on it can be read
 * whole, even if the store removes it. The caller destroys the reader. Fails as
 * cadre_checkpoint_read says. */
int cadre_checkpoint_files_open(const cadre_coordinator_t *self, uint64_t id,
                                cadre_checkpoint_reader_t **out);

/* Gives dtype and shape that a variable has in the checkpoint, as a tensor without data.
 * CADRE_ENOTFOUND: it holds no such variable. */
int cadre_checkpoint_files_like(const cadre_checkpoint_reader_t *reader, const char *variable,
                                cadre_tensor_t *like);

/* Reads the values of a variable into an empty tensor, which the caller ends, also on failure. */
int cadre_checkpoint_files_values(cadre_checkpoint_reader_t *reader, const char *variable,
                                  cadre_tensor_t *value);

/* Reads a variable's values (`slot` is NULL) or a slot of its optimizer into an empty tensor. Fails
 * as cadre_checkpoint_read says. */
int cadre_checkpoint_files_read(const cadre_coordinator_t *self, uint64_t id, const char *variable,
                                const char *slot, cadre_tensor_t *value);

#endif
