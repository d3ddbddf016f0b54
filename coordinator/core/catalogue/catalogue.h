/*
 * catalogue - what exists in the job: variables and the shards of their partitions, functions,
 * datasets, resources.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock; the public handles are
 * pointers to its entries, whose defining fields never change once they are there, but for the
 * schedule of a learning rate, which grows.
 *
 * Ids are 1, 2, 3 in order of creation, so that "every variable up to n" says what a closure needs.
 * The id of a variable that could not be created, or was dropped, is never used again: its place is
 * vacant.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_CATALOGUE_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_CATALOGUE_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#include "common/base/name_map.h"
#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"
#include "common/spec/table_spec.h"
#include "common/tensor/row_chunks.h"
#include "common/wire/message.h"
#include "common/wire/outbox.h"
#include "coordinator/core/catalogue/partitioner.h"
#include "coordinator/core/closures/abilities.h"
#include "coordinator/core/closures/closure.h"

struct cadre_variable {
    /* Whose public calls take this handle; NULL in the simulation. */
    cadre_coordinator_t *coordinator;
    uint32_t id;
    char *name;
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* type of its elements on the wire between workers and ps */
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    int64_t rows; /* shape[0]; 1 for a scalar; 0 of a table, whose shape is that of a row */
    size_t row_size_bytes;
    cadre_initializer_spec_t initializer;
    cadre_optimizer_spec_t optimizer;
    /* How a table keeps its rows, but for initializer and optimizer, which are the variable's;
     * NULL: a dense variable. Part k of a table is on shard k. */
    cadre_table_spec_t *table;
    uint32_t partitions;
    uint16_t *shards; /* [partitions] */
    bool created;     /* all shards of the variable have created it */
    bool again;       /* a variable of the same name was dropped before */
    uint64_t dropped; /* number of its drop (drops.h); 0: it was not dropped */
};

struct cadre_function {
    cadre_coordinator_t *coordinator;
    uint32_t id;
    cadre_function_kind_t kind;
    char *name;
    uint64_t hash;
    bool may_push;          /* closures of this function may push updates */
    bool dropped;           /* no new closure may name it */
    bool removed;           /* no closure names it any more: its name alone is left */
    cadre_chunk_t *program; /* encoded; NULL for a native function */
    /* The encoded FUNCTION message, empty before it is first sent; written by announcements. */
    cadre_outbox_entry_t told;
};

/* A worker's answer about a dataset. */
typedef struct {
    uint64_t worker; /* incarnation of the worker */
    int status;
    char *text; /* why the worker could not open the dataset */
    cadre_dataset_info_t info;
    uint64_t hash; /* hash of the content of all rows */
} cadre_data_answer_t;

struct cadre_dataset {
    cadre_coordinator_t *coordinator;
    uint32_t id;
    char *name;
    char *description;       /* JSON; "" of one with `rows` */
    cadre_row_chunks_t rows; /* of the program's memory, for a dataset without a file */
    int64_t ranges;          /* of a streamed dataset (common/spec/data_ranges.h); else 1 */
    /* The encoded DATASET message, empty before it is first sent; written by announcements. */
    cadre_outbox_entry_t told;

    /* Workers' answers about it, and what was decided by them; written by worker_admission. */
    /* Answers of the connected workers, in the order in which they came. */
    cadre_data_answer_t *answers;
    uint32_t answer_count;
    uint64_t answered_ms; /* when the first answer about the dataset came; 0: none has */
    /* Whether it is decided which rows the job has, or that no worker can open the dataset. */
    bool opened;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cadre_dataset_info_t info;
    uint64_t hash;

    /* The call that opens it has ended before it was decided, and no caller has the dataset:
     * another may take it up. Written by the API. */
    bool unclaimed;

    /* The epoch whose batches are being handed out; written by the API. */
    uint64_t order;
    int64_t next;
    int64_t batch_size;
    bool drop_last;
};

struct cadre_resource {
    cadre_coordinator_t *coordinator;
    uint32_t id;
    char *name;
    uint64_t seed;
    bool dropped; /* no new closure may name it */
    bool removed; /* no closure names it any more: its name alone is left */
    /* Function, variables and arguments that build it; never put into a queue. NULL: removed. */
    cadre_closure_t *call;

    /* Whether it kills the workers that build it; written by resources. */
    cadre_suspicion_t suspicion;
    uint64_t trial; /* incarnation of the worker that tries it, as dispatch/trials chose; 0: none */
    char *error;    /* why the resource has failed on all workers for good; NULL: it has not */
};

typedef struct {
    cadre_placement_t placement;
    uint64_t seed; /* seed of the job */
    /* [variable_count], by id - 1; &vacant where there is no variable any more. */
    cadre_variable_t **variables;
    uint32_t variable_count;
    /* How many of the newest variables are not created on all shards yet. */
    uint32_t creating;
    cadre_name_map_t variable_names; /* name to variable, of variables that are not dropped */
    cadre_name_map_t dropped_names;  /* names of variables that were dropped; each maps to itself */
    /* Stands for every vacant id: has no name, no partitions and no id, and is not created. */
    cadre_variable_t vacant;
    cadre_function_t **functions;
    uint32_t function_count;
    cadre_dataset_t **datasets;
    uint32_t dataset_count;
    cadre_resource_t **resources;
    uint32_t resource_count;
} cadre_catalogue_t;

void cadre_catalogue_init(cadre_catalogue_t *self, uint32_t shard_count, bool round_robin,
                          uint64_t seed);
void cadre_catalogue_fini(cadre_catalogue_t *self);

/* Returns CADRE_EINVALID unless the name has 1 to CADRE_NAME_SIZE_MAX characters of [A-Za-z0-9._-],
 * a letter or digit first. `what` ("variable") goes into the error text. */
int cadre_name_check(const char *what, const char *name);

/* Note that the newest variable is being created on the shards (begin), and that its creation has
 * ended, well or not (end). */
void cadre_catalogue_begin_creation(cadre_catalogue_t *self);
void cadre_catalogue_end_creation(cadre_catalogue_t *self);

/* Returns how many variables, counted from the oldest, are not being created any more. */
uint32_t cadre_catalogue_whole_count(const cadre_catalogue_t *self);

/* Adds a variable and chooses the shards of its partitions; the shards are not asked to create it
 * yet. CADRE_EEXISTS for a name in use, CADRE_EINVALID and CADRE_EDTYPE for options that do not
 * fit, CADRE_ENOTFOUND for an unknown initializer or optimizer. */
int cadre_catalogue_add_variable(cadre_catalogue_t *self, const char *name,
                                 const cadre_tensor_t *like,
                                 const cadre_variable_options_t *options,
                                 cadre_variable_t **variable);

/* Adds a table, which has a part on every shard; its values travel as `wire` (0: as f32). The seed
 * of the spec may be 0: as in the options of a variable. Fails as cadre_catalogue_add_variable and
 * cadre_table_spec_check. */
int cadre_catalogue_add_table(cadre_catalogue_t *self, const char *name,
                              const cadre_table_spec_t *spec, cadre_dtype_t wire,
                              cadre_variable_t **variable);

/* Changes the learning rate of a variable for every update that at least `updates` others came
 * before; the shards are not asked to do so yet. Fails as cadre_schedule_spec_extend, and with
 * CADRE_EINVALID for the optimizer `add`, which has no rate. */
int cadre_catalogue_change_rate(cadre_variable_t *variable, uint64_t updates, double rate);

/* Frees a variable: its name is free, its bytes count for no shard any more, its id is vacant. */
void cadre_catalogue_drop_variable(cadre_catalogue_t *self, cadre_variable_t *variable);

/* Makes the name of a variable that is being dropped free for another variable. */
void cadre_catalogue_free_name(cadre_catalogue_t *self, const cadre_variable_t *variable);

/* Returns whether a variable of this name was ever dropped, so that the name was free. */
bool cadre_catalogue_was_dropped(const cadre_catalogue_t *self, const char *name);

/* Fails with CADRE_EINVALID for a table, which has no value as a whole. */
int cadre_variable_check_dense(const cadre_variable_t *variable);

/* Returns whether a partition of the variable is on `shard`. */
bool cadre_variable_is_on(const cadre_variable_t *variable, uint32_t shard);

/* Returns whether this id is vacant: its variable could not be created, or is gone. */
bool cadre_catalogue_is_vacant(const cadre_catalogue_t *self, uint32_t id);

cadre_variable_t *cadre_catalogue_variable(const cadre_catalogue_t *self, const char *name);

/* Adds a function like `like`, or finds the one with this kind, name and hash. `*is_new` is true
 * if the function was added; then a reference to the program is taken. CADRE_EINVALID for a bad
 * name. */
int cadre_catalogue_add_function(cadre_catalogue_t *self, const cadre_function_t *like,
                                 cadre_function_t **function, bool *is_new);

/* Drops a function: its name and program are free for another one. Fails with CADRE_ESTATE when a
 * resource that was not dropped is built by it. */
int cadre_catalogue_drop_function(const cadre_catalogue_t *self, cadre_function_t *function);

/* Returns CADRE_EINVALID when the closure names a function or resource that was dropped. */
int cadre_catalogue_check_names(const cadre_catalogue_t *self, const cadre_closure_t *closure);

/* Frees what a dropped function, or resource, takes, but for its name; its id is never used
 * again. */
void cadre_catalogue_remove_function(cadre_catalogue_t *self, uint32_t id);
void cadre_catalogue_remove_resource(cadre_catalogue_t *self, uint32_t id);

/* Returns the dataset of this name; NULL when there is none. */
cadre_dataset_t *cadre_catalogue_dataset(const cadre_catalogue_t *self, const char *name);

/* Frees the name of a dataset that could not be opened, and its rows of the program's memory. */
void cadre_catalogue_release_dataset(const cadre_catalogue_t *self, cadre_dataset_t *dataset);

int cadre_catalogue_add_dataset(cadre_catalogue_t *self, const char *name, const char *description,
                                cadre_dataset_t **dataset);

/* Adds a dataset of rows that the program has in memory. Takes the rows on success, and zeroes the
 * struct. */
int cadre_catalogue_add_memory_dataset(cadre_catalogue_t *self, const char *name,
                                       cadre_row_chunks_t *rows, cadre_dataset_t **dataset);

/* Notes which range the batch of `count` rows at `first` is of, of the order `order` (0: of the
 * file), in a closure of which it is the first batch. */
void cadre_dataset_note_range(const cadre_dataset_t *self, uint64_t order, int64_t first,
                              int64_t count, cadre_closure_t *closure);

/* Returns how many pieces the rows of the program's memory travel in; 0 of a dataset with a
 * file. */
uint64_t cadre_dataset_pieces(const cadre_dataset_t *self);

/* Adds a resource that `call` builds, which is taken on success. CADRE_EINVALID for a bad name,
 * CADRE_EEXISTS, CADRE_EFULL. */
int cadre_catalogue_add_resource(cadre_catalogue_t *self, const char *name,
                                 cadre_closure_t **call_p, cadre_resource_t **resource);

/* Drops a resource: its name is free for another one. */
void cadre_catalogue_drop_resource(const cadre_catalogue_t *self, cadre_resource_t *resource);

/* Room for the lists of a CREATE message that a variable holds as other types than the wire has. */
typedef struct {
    uint64_t shape[CADRE_RANK_MAX];
    double schedule[CADRE_SCHEDULE_NUMBERS_MAX];
    uint64_t table[6];
    double table_numbers[2];
} cadre_create_lists_t;

/* Returns the message CREATE for one partition. Its lists are borrowed from the variable and from
 * `lists`, which the caller provides. */
cadre_message_t cadre_catalogue_create_message(const cadre_variable_t *variable, uint32_t partition,
                                               cadre_create_lists_t *lists);

/* Returns whether a worker with these abilities can build the resource: it is not removed, and the
 * worker does not lack the function that builds it. */
bool cadre_resource_is_buildable(const cadre_resource_t *self, const cadre_abilities_t *abilities);

/* Returns whether a worker that was told to build the resources `told`, and has these abilities,
 * can build this resource but has not said yet that it has. */
bool cadre_resource_is_under_way(const cadre_resource_t *self, const cadre_resource_set_t *told,
                                 const cadre_abilities_t *abilities);

#endif
