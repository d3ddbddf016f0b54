/*
 * shard_parts - the partitions, and parts of tables, that a shard has: made, found, dropped, and
 * the memory they take.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file.
 */
#ifndef CADRE_PS_CORE_SHARD_PARTS_H
#define CADRE_PS_CORE_SHARD_PARTS_H

#include "ps/core/partition.h"
#include "ps/core/table/table.h"
#include "ps/core/tables_told.h"

/* What a checkpoint has of a table on one shard: the number of the checkpoint, and the stamp of of
 * what was written, which no other writing of that number has. */
typedef struct {
    uint64_t checkpoint;
    uint64_t stamp;
} cadre_table_base_t;

/* One partition, or the part of a table. */
typedef struct cadre_shard_part {
    char name[CADRE_NAME_SIZE_MAX + 1]; /* name of the variable */
    cadre_partition_spec_t spec;
    cadre_partition_t *partition;  /* NULL while a load has it, and for a table */
    cadre_table_t *table;          /* NULL while a load has it, and for a partition */
    uint64_t size_bytes;           /* bytes that it takes of the shard's memory */
    cadre_table_figures_t figures; /* of a table, when they were noted last */
    uint64_t after; /* of a table: the checkpoint whose cut was opened last before it came */
    cadre_table_base_t
        base;       /* of a table: the checkpoint that it was loaded from, and still has the
                                pages of; 0: none */
    uint64_t named; /* number of the last list (of a PULL or PUSH) that named it */
    bool retired;   /* its variable was dropped; closures may still name it */
    uint64_t last_checkpoint;      /* when retired: the last checkpoint that holds it */
    struct cadre_shard_part *next; /* another part of the same variable; NULL: the last one */
} cadre_shard_part_t;

/* A part that a PULL or PUSH names. */
typedef struct {
    const cadre_shard_part_t *part;
    uint64_t number; /* what the message says of it: PULL the version in the worker's cache plus 1
                        (0: none), PUSH the version that the gradient was computed from */
    uint64_t rows;   /* of a PUSH: of how many rows gradients come; 0: of all, of a table of none */
    bool is_again;   /* the part stands in the list a second time */
} cadre_named_part_t;

typedef struct {
    const cadre_named_part_t *items;
    size_t count;
} cadre_named_parts_t;

typedef struct {
    uint64_t size_bytes_max;         /* values and slots together */
    cadre_lanes_t lanes;             /* that help where many rows are pulled; zeroed: none */
    cadre_huge_source_t huge_source; /* of large tables */
    /* Called after each chunk of initial values that is drawn; or NULL. */
    void (*on_step)(void *context);
    void *step_context;
} cadre_shard_parts_options_t;

typedef struct cadre_shard_parts cadre_shard_parts_t;

cadre_shard_parts_t *cadre_shard_parts_new(const cadre_shard_parts_options_t *options);
void cadre_shard_parts_destroy(cadre_shard_parts_t **self_p);

const cadre_lanes_t *cadre_shard_parts_lanes(const cadre_shard_parts_t *self);

void cadre_shard_parts_set_size_max(cadre_shard_parts_t *self, uint64_t size_bytes_max);

/* Drops every part, and forgets what was dropped before. */
void cadre_shard_parts_clear(cadre_shard_parts_t *self);

/* Makes the part that a CREATE, decoded as `spec`, asks for: with its initial values, or blank
 * (`is_blank`) where a load fills it. The part takes memory from now on, and is served once it is
 * added (cadre_shard_parts_add). Fails with CADRE_EFENCED when its variable was dropped,
 * CADRE_EFULL when the shard has no room, CADRE_ETOOLARGE when the partition does not fit one
 * message, or as cadre_partition_open. */
int cadre_shard_parts_make(cadre_shard_parts_t *self, const char *name,
                           const cadre_partition_spec_t *spec, bool is_blank,
                           cadre_shard_part_t **out);

/* Adds a part that was made, so that it is served from now on; takes it. `after`: the checkpoint
 * whose cut was opened last. */
void cadre_shard_parts_add(cadre_shard_parts_t *self, cadre_shard_part_t **part_p, uint64_t after);

/* Does the same with a part that was loaded; or frees it and fails with CADRE_EFULL when it is a
 * table whose rows have no room beside what came meanwhile: several may be loading, each with all
 * the room that there was. */
int cadre_shard_parts_add_loaded(cadre_shard_parts_t *self, cadre_shard_part_t **part_p,
                                 uint64_t after);

/* Frees a part that was made and not added, and gives its memory back. */
void cadre_shard_parts_give_up(cadre_shard_parts_t *self, cadre_shard_part_t **part_p);

uint64_t cadre_shard_part_key(const cadre_shard_part_t *self); /* cadre_partition_key */

/* Takes a part's partition or table away to be loaded, and gives it back; of the two one is NULL.
 * `base`: the checkpoint that a table has the pages of. */
void cadre_shard_part_lend(cadre_shard_part_t *self, cadre_partition_t **partition,
                           cadre_table_t **table);
void cadre_shard_part_return(cadre_shard_part_t *self, cadre_partition_t **partition_p,
                             cadre_table_t **table_p, cadre_table_base_t base);

uint64_t cadre_shard_part_version(const cadre_shard_part_t *self);

/* Takes a CREATE of a part that is there already, or is being loaded. Its schedule of the learning
 * rate may be longer than the part's, which the part then takes over, or shorter, as in a CREATE
 * from before: so schedules only grow, and it does not matter how often and in which order CREATEs
 * come. CADRE_EEXISTS when name or spec differ in anything else. */
int cadre_shard_part_create_again(cadre_shard_part_t *self, const char *name,
                                  const cadre_partition_spec_t *spec);

/* Does the same for the part of this variable and partition that is served; CADRE_ENOTFOUND where
 * none is. */
int cadre_shard_parts_create_again(cadre_shard_parts_t *self, const char *name,
                                   const cadre_partition_spec_t *spec);

/* Returns whether a checkpoint holds the part: its variable was not dropped before that
 * checkpoint. */
bool cadre_shard_part_is_in(const cadre_shard_part_t *self, uint64_t checkpoint);

/* Returns `status` with a text that names the part. */
int cadre_shard_part_fail(const cadre_shard_part_t *self, int status);

/* Finds a part that is served; fails with CADRE_ENOTFOUND. */
int cadre_shard_parts_find(const cadre_shard_parts_t *self, uint64_t variable, uint64_t partition,
                           const cadre_shard_part_t **out);

/* Finds the parts that a PULL or PUSH names, in its order; `out` is valid until the next call.
 * Fails with CADRE_EMALFORMED for a list that is malformed or empty, CADRE_ENOTFOUND for an
 * unknown part. */
int cadre_shard_parts_find_named(cadre_shard_parts_t *self, const cadre_u64s_t *list,
                                 cadre_named_parts_t *out);

/* Finds the parts that a PUSH names, whole ones and those of which there are rows, in its order. As
 * cadre_shard_parts_find_named, of which one list may be empty here. */
int cadre_shard_parts_find_pushed(cadre_shard_parts_t *self, const cadre_push_message_t *push,
                                  cadre_named_parts_t *out);

/* Returns the first part of a variable, whose others follow by `next`; NULL when there is none. */
const cadre_shard_part_t *cadre_shard_parts_of(const cadre_shard_parts_t *self, uint64_t variable);

/* Notes that the variable is in no checkpoint after `checkpoint`. */
void cadre_shard_parts_retire(cadre_shard_parts_t *self, uint64_t variable, uint64_t checkpoint);

/* Drops a variable; no CREATE of it or of a lower id is accepted any more. */
void cadre_shard_parts_drop(cadre_shard_parts_t *self, uint64_t variable);

/* Walks the parts that are served in no particular order: start with *cursor = 0; NULL at the end.
 */
const cadre_shard_part_t *cadre_shard_parts_next(const cadre_shard_parts_t *self, size_t *cursor);

/* Returns how many bytes of memory are left. */
uint64_t cadre_shard_parts_room(const cadre_shard_parts_t *self);

/* Fails with CADRE_EFULL when there is no memory for tables to become `size_bytes` larger. */
int cadre_shard_parts_check_growth(const cadre_shard_parts_t *self, uint64_t size_bytes);

/* Notes what a table takes, and what has become of its rows, after a change. */
void cadre_shard_parts_note(cadre_shard_parts_t *self, const cadre_shard_part_t *part);

/* Returns the sum of the figures of all tables. Rows that were created, evicted, expired or not
 * admitted stay counted when their table is dropped. */
cadre_table_figures_t cadre_shard_parts_figures(const cadre_shard_parts_t *self);

/* Returns what it has of each table that is there. */
cadre_tables_told_t cadre_shard_parts_told(const cadre_shard_parts_t *self);

/* Returns the most bytes of numbers that one update may bring: those of all partitions, and of each
 * table CADRE_TABLE_KEYS_MAX rows, as far as the shard has memory. */
uint64_t cadre_shard_parts_update_size(const cadre_shard_parts_t *self);

size_t cadre_shard_parts_count(const cadre_shard_parts_t *self);
uint64_t cadre_shard_parts_size_bytes(const cadre_shard_parts_t *self);

#endif
