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

#include "coordinator/coordinator.h"

/* Lists the checkpoints, the newest first. Fails as cadre_checkpoint_list says. */
int cadre_checkpoint_files_list(const cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                                size_t *count);

/* Reads a variable's values (`slot` is NULL) or a slot of its optimizer into an empty tensor. Fails
 * as cadre_checkpoint_read says. */
int cadre_checkpoint_files_read(const cadre_coordinator_t *self, uint64_t id, const char *variable,
                                const char *slot, cadre_tensor_t *value);

#endif
