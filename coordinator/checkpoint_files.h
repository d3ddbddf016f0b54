/*
 * checkpoint_files - reads the checkpoints of the job's directory for callers.
 *
 * Owner:   the coordinator.
 * Thread:  a caller's, beside the store, which commits and removes: a checkpoint is there as a
 *          whole, or is found to be gone.
 */
#ifndef CADRE_COORDINATOR_CHECKPOINT_FILES_H
#define CADRE_COORDINATOR_CHECKPOINT_FILES_H

#include <cadre/catalogue.h>

#include "coordinator/coordinator.h"

/* Lists them, the newest first. Fails as cadre_checkpoint_list says. */
int cadre_checkpoint_files_list(const cadre_coordinator_t *self, cadre_checkpoint_info_t **infos,
                                size_t *count);

/* Reads a variable's values (`slot` is NULL) or a slot into an empty tensor. Fails as
 * cadre_checkpoint_read says. */
int cadre_checkpoint_files_read(const cadre_coordinator_t *self, uint64_t id, const char *variable,
                                const char *slot, cadre_tensor_t *value);

#endif
