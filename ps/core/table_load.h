/*
 * table_load - a part of a table filled from a checkpoint.
 *
 * Owner:   nobody: it has no state. Thread: that of who carries out loads.
 *
 * From a checkpoint of as many shards a table is loaded page by page, and goes on bit by bit as the
 * one did that it was taken of. From one of another number each row goes to the shard of its key: a
 * part then reads the pages of all parts that there were. A table that keeps its rows otherwise, as
 * under another optimizer, takes them row by row (table/stored_rows.h).
 */
#ifndef CADRE_PS_CORE_TABLE_LOAD_H
#define CADRE_PS_CORE_TABLE_LOAD_H

#include "ps/core/loader.h"
#include "ps/core/shard_parts.h"

/* Which part of which table, of how many rows there may be. */
typedef struct {
    const char *name;
    uint32_t part;
    uint32_t parts;
    uint64_t size_bytes_max;
} cadre_table_load_t;

/* Fills a table without rows from a checkpoint that has it in `stored` parts; gives in `base` the
 * checkpoint that it has the pages of then. Fails with CADRE_ESHAPE as cadre_table_compare,
 * with CADRE_EFULL when it takes more than size_bytes_max, with CADRE_ECORRUPT for what no table
 * has, and as the loader. */
int cadre_table_load(cadre_table_t *table, const cadre_table_load_t *load, uint32_t stored,
                     const cadre_loader_t *loader, const cadre_give_up_t *give_up,
                     cadre_table_base_t *base);

#endif
