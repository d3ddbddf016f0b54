/*
 * table_totals - what all ps hold of each table, as their last heartbeats say.
 *
 * Owner:   none: it only looks. Thread: under the coordinator's lock.
 *
 * A ps that is away does not count: its rows are held by nobody until its shard is restored. Of
 * more than CADRE_TABLES_TOLD_MAX tables the later ones are not told.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_TABLE_TOTALS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_TABLE_TOTALS_H

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/members/membership.h"

typedef struct {
    const cadre_variable_t *table;
    uint64_t counters[CADRE_TABLE_COUNTER_COUNT]; /* sums over shards; of `steps` the most */
    uint32_t shards;                              /* how many ps have told of it */
} cadre_table_totals_t;

/* Gives the totals of all tables that are there and were not dropped, in the order in which they
 * were created; returns how many. */
size_t cadre_table_totals(const cadre_catalogue_t *catalogue, const cadre_membership_t *members,
                          cadre_table_totals_t totals[CADRE_TABLES_TOLD_MAX]);

#endif
