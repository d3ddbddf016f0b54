/*
 * sim_pages - a part of a table in a simulated file: its description and the pages that the file
 * has, alive by their references. What is left out stands in the file of its base.
 *
 * Owner:   the file.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_SIM_SIM_PAGES_H
#define CADRE_TESTS_SIM_SIM_PAGES_H

#include "ps/core/shard_snapshot.h"

typedef struct {
    char name[CADRE_NAME_SIZE_MAX + 1];
    cadre_partition_spec_t spec;
    cadre_table_record_t record;
    cadre_table_snapshot_t snapshot;
} sim_pages_t;

/* Takes the pages of a table out of a snapshot, as a store writes them. */
void sim_pages_init(sim_pages_t *self, cadre_shard_snapshot_part_t *part);
void sim_pages_fini(sim_pages_t *self);

/* A walk from a file to its base and so on: which pages were seen. */
typedef struct {
    bool *seen; /* [those of the newest file] */
    uint64_t count;
    uint64_t pages;
    cadre_table_record_t record; /* of the file before, or of the newest */
} sim_pages_walk_t;

void sim_pages_walk_init(sim_pages_walk_t *self, const sim_pages_t *newest);
void sim_pages_walk_fini(sim_pages_walk_t *self);

/* Visits the pages of the next file of the chain that no newer one had. CADRE_ECORRUPT when it is
 * not what the one before was written beside; ends with the first status that is not 0. */
int sim_pages_walk(sim_pages_walk_t *self, const sim_pages_t *file,
                   int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor);

#endif
