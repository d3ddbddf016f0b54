/*
 * directory - what the coordinator has told this worker: shards, variables, functions, datasets,
 * resources.
 *
 * Owner:   the worker core; cleared when another coordinator takes over.
 * Thread:  the network actor. Functions and variables are handed to slots by pointer: what slots
 * read of an entry is immutable once it is there, and it lives until the directory is cleared,
 * which happens only when no slot is running. So the entry of a variable or function that was
 * dropped stays. What a function or resource takes is freed when no run names it (is_leaving,
 * cadre_worker_runs_release_leaving).
 */
#ifndef CADRE_WORKER_CORE_DIRECTORY_H
#define CADRE_WORKER_CORE_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/name_map.h"
#include "common/base/u64_map.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/row_chunks.h"
#include "common/wire/message.h"
#include "common/wire/resource_set.h"
#include "common/wire/task.h"
#include "worker/core/holding.h"

/* What this worker knows of a shard. `task` and `address` are of the ps that serves the shard
 * now, or did last. */
typedef struct {
    bool known;        /* a SHARD about this shard has come */
    bool away;         /* no ps serves the shard now */
    cadre_task_t task; /* role ps, index; incarnation, 0 when no ps has served this generation */
    uint64_t generation;
    uint64_t restored; /* `restores` of the directory when the shard was last restored */
    char *address;
} cadre_shard_entry_t;

/* The rows that a table has, as far as a worker knows: keys may be any 64 bits. */
#define CADRE_TABLE_KEYS INT64_MAX

typedef struct cadre_variable_entry {
    uint32_t id;
    char *name;
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* type of its values and gradients in messages */
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    int64_t rows;               /* shape[0]; 1 for a scalar; of a table CADRE_TABLE_KEYS */
    size_t row_size_bytes;      /* of one index of axis 0, in the variable's dtype */
    size_t wire_row_size_bytes; /* of one index of axis 0 in messages, in the dtype `wire` */
    bool takes_rows;            /* of kind CADRE_VARIABLE_ROWS, or a table */
    bool is_table;              /* rows of `shape` by key, spread over the partitions by a hash */
    bool is_counted; /* a table of which each update names all partitions, with keys or without */
    uint32_t partitions;
    uint32_t shards_known; /* partitions whose shard is known; complete when equal to partitions */
    uint16_t *shards;      /* [partitions]: the shard that each partition is on */
    uint64_t drop;         /* number of the drop of this variable, from 1; 0: not dropped */
    bool is_gone;          /* no shard has the variable any more, and no closure may name it */
    struct cadre_variable_entry *older; /* the variable that had the same name before, and was
                                           dropped; NULL: none */
} cadre_variable_entry_t;

typedef struct {
    uint32_t id;
    cadre_function_kind_t kind;
    char *name;
    uint64_t hash;
    cadre_chunk_t *program; /* encoded; NULL for a native function, and for one that is gone */
    bool lacking;           /* a native function that this worker does not have */
    /* No closure may name it any more. Slots look at it, as they keep programs: it only goes from
     * false to true, so a late look is harmless. */
    atomic_bool is_gone;
} cadre_function_entry_t;

typedef struct {
    uint32_t id;
    char *name;
    char *description;       /* JSON; NULL of one whose rows the coordinator sends */
    cadre_row_chunks_t rows; /* those that came, until the reader takes them */
    uint64_t pieces;         /* how many pieces these rows come in; 0 of a dataset with a file */
    uint64_t piece;          /* how many of the pieces came */
    uint64_t wanted_ms;      /* when the next piece was last asked for */
    bool answered;           /* the reader has opened the dataset, or failed to */
    int status;
    cadre_dataset_ready_message_t ready; /* the answer, repeated when the coordinator asks again */
    char text[CADRE_TEXT_SIZE_MAX + 1];  /* ready.text */
} cadre_dataset_entry_t;

typedef enum {
    CADRE_RESOURCE_UNBUILT, /* its function is still to run, again or for the first time */
    CADRE_RESOURCE_BUILDING,
    CADRE_RESOURCE_BUILT,
    CADRE_RESOURCE_FAILED, /* for good: its function failed, or the device did too often */
} cadre_resource_state_t;

/* The ids of functions, or resources, that no closure may name any more, and that runs may still
 * name here: of closures that have ended by another attempt. */
typedef struct {
    uint64_t *ids;
    size_t count;
} cadre_leaving_t;

typedef struct {
    cadre_message_t message; /* the RESOURCE */
    cadre_resource_state_t state;
    uint64_t due_ms;                    /* UNBUILT: not before */
    uint32_t tries;                     /* how many builds of the resource failed because of the
                                           device */
    cadre_holding_t *holding;           /* what was built, read by closures on slots; NULL unless
                                           BUILT */
    char text[CADRE_TEXT_SIZE_MAX + 1]; /* why the build failed, when FAILED */
} cadre_resource_entry_t;

typedef struct {
    uint32_t shard_count;
    cadre_shard_entry_t *shards;     /* [shard_count] */
    uint64_t restores;               /* how often the coordinator has said that a shard was
                                        restored */
    cadre_u64_map_t variables;       /* by id */
    cadre_name_map_t variable_names; /* of several with one name, the one with the highest id */
    uint32_t variables_complete;     /* the ids from 1 to this have a complete variable or are
                                        vacant */
    uint64_t drops;                  /* the first so many drops of variables are known */
    uint64_t gone;                   /* how many variables are gone */
    uint64_t definitions;            /* the first so many records of the definitions log were
                                        taken */
    cadre_u64_map_t functions;
    uint32_t functions_complete; /* functions with the ids from 1 to this are known */
    uint64_t *lacks;             /* ids of functions that this worker lacks, CADRE_LACKS_MAX at
                                    most */
    size_t lack_count;
    cadre_u64_map_t datasets;
    cadre_u64_map_t resources;
    cadre_resource_set_t resources_known; /* ids of the resources in `resources` */
    cadre_resource_set_t resources_built; /* ids of those that are BUILT or FAILED */
    size_t resources_unbuilt;             /* how many resources are UNBUILT */
    cadre_leaving_t functions_leaving;
    cadre_leaving_t resources_leaving;
    uint64_t functions_gone; /* how many functions are gone */
} cadre_directory_t;

/* Empties the directory and makes room for `shard_count` shards; harmless on zeroed memory.
 * Destroys what the resources hold, unless cadre_resource_entry_release took it out before. */
void cadre_directory_init(cadre_directory_t *self, uint32_t shard_count);
void cadre_directory_fini(cadre_directory_t *self);

/* Take over what SHARD says of a shard, and VARIABLE of a variable. Fail with CADRE_EMALFORMED,
 * and change nothing, when the message contradicts itself or what is known. `changed`: whether
 * the shard is served by another incarnation or generation now, at another address, by no ps any
 * more, or by a ps again. Another incarnation or generation means that the shard was restored
 * (`restored`); a ps that was away and comes back with its state was not restored. */
int cadre_directory_set_shard(cadre_directory_t *self, const cadre_shard_message_t *message,
                              bool *changed);
int cadre_directory_set_variable(cadre_directory_t *self, const cadre_variable_message_t *message);

/* Takes the records of a DEFINITIONS, skipping known ones. Takes none, and returns 0, if earlier
 * records of the log are missing: the worker asks for the missing ones (WANT). Fails with
 * CADRE_EMALFORMED for bytes that are no VARIABLE messages, for more or fewer than `count` of them,
 * and for a record that contradicts what is known; the records before a bad one are taken. */
int cadre_directory_take_definitions(cadre_directory_t *self, const cadre_message_t *message);

/* Takes a FUNCTION. `lacking`: it is a native function that this worker does not have. */
int cadre_directory_set_function(cadre_directory_t *self, const cadre_message_t *message,
                                 bool lacking);

/* Takes a DATASET, or a piece of its rows. `*is_whole`: with this message all came that the reader
 * needs to open the dataset. CADRE_EMALFORMED for other chunks than the message needs, a dtype that
 * labels do not have, and rows beyond the limit. */
int cadre_directory_set_dataset(cadre_directory_t *self, const cadre_message_t *message,
                                bool *is_whole);

/* Returns the number of the piece of the dataset's rows that is to be asked for now, and notes that
 * it is; 0 when there is none: all came, or the next one was asked for less than `retry_ms` ago. */
uint64_t cadre_dataset_entry_take_wanted(cadre_dataset_entry_t *self, uint64_t retry_ms,
                                         uint64_t now_ms);

/* Moves the rows out of the entry, for the reader. */
cadre_row_chunks_t cadre_dataset_entry_take_rows(cadre_dataset_entry_t *self);

/* Notes the resource of a RESOURCE. Takes the message (zeroed afterwards) when the resource is new;
 * else the message stays the caller's. Fails with CADRE_EMALFORMED for id 0. */
int cadre_directory_set_resource(cadre_directory_t *self, cadre_message_t *message);

/* Notes whether the dataset could be opened, as `ready` says; the entry's own id replaces
 * `ready->id`. */
void cadre_dataset_entry_answer(cadre_dataset_entry_t *self,
                                const cadre_dataset_ready_message_t *ready);

/* Move a resource to another state: it is being built; was built, and owns `holding` from now on;
 * has failed for good; or is to be built again, not before `due_ms`. */
void cadre_directory_build(cadre_directory_t *self, cadre_resource_entry_t *entry);
void cadre_directory_built(cadre_directory_t *self, cadre_resource_entry_t *entry,
                           cadre_holding_t *holding);
void cadre_directory_build_failed(cadre_directory_t *self, cadre_resource_entry_t *entry,
                                  const char *text);
void cadre_directory_build_again(cadre_directory_t *self, cadre_resource_entry_t *entry,
                                 uint64_t due_ms);

/* Counts a build that a failure of the device has ended; returns how many there were. */
uint32_t cadre_resource_entry_tried(cadre_resource_entry_t *self);

/* Takes out what the resource holds; NULL when it holds nothing. */
cadre_holding_t *cadre_resource_entry_release(cadre_resource_entry_t *self);

/* Free what a function that is leaving takes, but for its entry; free a resource that is leaving,
 * and return what it held, NULL for nothing. No run may name it. */
void cadre_directory_remove_function(cadre_directory_t *self, uint64_t id);
cadre_holding_t *cadre_directory_remove_resource(cadre_directory_t *self, uint64_t id);

/* Returns the sum of the shards' generations. They only grow, so the coordinator sees by the sum
 * whether a SHARD was missed. */
uint64_t cadre_directory_generations(const cadre_directory_t *self);

/* Return how a partition of the variable, and how so many rows of one, are cut into the chunks of a
 * message. */
cadre_chunk_layout_t cadre_variable_entry_layout(const cadre_variable_entry_t *self,
                                                 uint32_t partition);
cadre_chunk_layout_t cadre_variable_entry_rows_layout(const cadre_variable_entry_t *self,
                                                      size_t rows);

/* Returns the variable with this id; NULL when it is not known, or the shards of some of its
 * partitions are not known yet. */
const cadre_variable_entry_t *cadre_directory_variable(const cadre_directory_t *self, uint32_t id);

/* Returns the variable that a closure means by `name`, given that `drops` variables had been
 * dropped when the closure was scheduled; NULL when no variable had the name then: `*was_dropped`
 * says whether an earlier one had. */
const cadre_variable_entry_t *cadre_directory_variable_by_name(const cadre_directory_t *self,
                                                               const char *name, uint64_t drops,
                                                               bool *was_dropped);
const cadre_function_entry_t *cadre_directory_function(const cadre_directory_t *self, uint32_t id);
cadre_dataset_entry_t *cadre_directory_dataset(const cadre_directory_t *self, uint32_t id);
cadre_resource_entry_t *cadre_directory_resource(const cadre_directory_t *self, uint64_t id);

#endif
