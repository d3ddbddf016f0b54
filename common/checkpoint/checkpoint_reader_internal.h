/*
 * checkpoint_reader_internal - the reader's inside, for checkpoint_reader.c and
 * checkpoint_contents.c.
 *
 * Thread: as checkpoint_reader.h.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_INTERNAL_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_READER_INTERNAL_H

#include "common/checkpoint/checkpoint_reader.h"

struct cadre_checkpoint_reader {
    int directory_fd;
    char *path; /* for messages */
    cadre_manifest_t manifest;
    cadre_shard_reader_t **shards;             /* NULL until first needed */
    const cadre_manifest_variable_t **by_name; /* the manifest's variables, sorted */
};

/* The reader of shard k, verified and opened now if it was not before. */
int cadre_checkpoint_reader_shard(cadre_checkpoint_reader_t *self, size_t k,
                                  const cadre_give_up_t *give_up, cadre_shard_reader_t **out);

/* The variable called `name`, or NULL. */
const cadre_manifest_variable_t *
cadre_checkpoint_reader_variable(const cadre_checkpoint_reader_t *self, const char *name);

/* The index of the partition that holds `element`, partition_count when none does. */
size_t cadre_checkpoint_partition_at(const cadre_manifest_variable_t *variable, int64_t element);

#endif
