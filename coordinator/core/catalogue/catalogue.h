/*
 * catalogue - what the job has: variables and where their parts live, functions, datasets.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock; the public handles are
 * pointers to its entries, whose defining fields never change once they are there.
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
#include "common/wire/message.h"
#include "common/wire/outbox.h"
#include "coordinator/core/catalogue/partitioner.h"
#include "coordinator/core/closures/abilities.h"
#include "coordinator/core/closures/closure.h"

struct cadre_variable {
    cadre_coordinator_t *coordinator; /* for the public calls; NULL in the simulation */
    uint32_t id;
    char *name;
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* between workers and ps */
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    int64_t rows; /* shape[0]; 1 for a scalar */
    size_t row_size_bytes;
    cadre_initializer_spec_t initializer;
    cadre_optimizer_spec_t optimizer;
    uint32_t partitions;
    uint16_t *shards; /* [partitions] */
    bool created;     /* exists on its shards */
    bool again;       /* its name was another's before, which was dropped */
    uint64_t dropped; /* number of its drop (drops.h); 0: it was not dropped */
};

struct cadre_function {
    cadre_coordinator_t *coordinator;
    uint32_t id;
    cadre_function_kind_t kind;
    char *name;
    uint64_t hash;
    bool may_push;             /* its closures may push updates */
    cadre_chunk_t *program;    /* encoded; NULL for a native function */
    cadre_outbox_entry_t told; /* the FUNCTION, once it was sent: of announcements */
};

/* What a worker says of a dataset. */
typedef struct {
    uint64_t worker; /* incarnation */
    int status;
    char *text; /* why it could not be opened */
    cadre_dataset_info_t info;
    uint64_t hash; /* of the content of all rows */
} cadre_data_answer_t;

struct cadre_dataset {
    cadre_coordinator_t *coordinator;
    uint32_t id;
    char *name;
    char *description;
    cadre_outbox_entry_t told; /* the DATASET, once it was sent: of announcements */

    /* What workers say of it and what it therefore is: kept by worker_admission. */
    cadre_data_answer_t *answers; /* of the workers that are there, in the order they came */
    uint32_t answer_count;
    uint64_t answered_ms; /* when the first of all came; 0: none has */
    bool opened;          /* decided: which rows the job has, or that nobody can open it */
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cadre_dataset_info_t info;
    uint64_t hash;

    /* The epoch being handed out: kept by the API. */
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
    cadre_closure_t *call; /* function, variables, arguments: never in a queue */

    /* Whether it kills those who build it: kept by resources. */
    cadre_suspicion_t suspicion;
    uint64_t trial; /* incarnation of the worker that tries it, as dispatch/trials chose; 0: none */
    char *error;    /* why it has failed, for good and everywhere; NULL: it has not */
};

typedef struct {
    cadre_placement_t placement;
    uint64_t seed;                /* of the job */
    cadre_variable_t **variables; /* by id - 1; `vacant` where there is none any more */
    uint32_t variable_count;
    uint32_t creating;               /* the newest of them, that are not yet there on all shards */
    cadre_name_map_t variable_names; /* of those that are there */
    cadre_name_map_t dropped_names;  /* that variables had which were dropped; to the name */
    cadre_variable_t vacant;         /* without a name, parts or an id, and not created */
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

/* CADRE_EINVALID unless 1 to CADRE_NAME_SIZE_MAX characters of [A-Za-z0-9._-], a letter or digit
 * first; `what` goes into the text. */
int cadre_name_check(const char *what, const char *name);

/* The newest variable is being created on the shards; it has been, or will not be. */
void cadre_catalogue_begin_creation(cadre_catalogue_t *self);
void cadre_catalogue_end_creation(cadre_catalogue_t *self);

/* Returns how many variables, the oldest ones, are not being created. */
uint32_t cadre_catalogue_whole_count(const cadre_catalogue_t *self);

/* Adds a variable with its parts placed, not yet created on the shards. CADRE_EEXISTS,
 * CADRE_EINVALID, CADRE_EDTYPE, CADRE_ENOTFOUND for an unknown initializer or optimizer. */
int cadre_catalogue_add_variable(cadre_catalogue_t *self, const char *name,
                                 const cadre_tensor_t *like,
                                 const cadre_variable_options_t *options,
                                 cadre_variable_t **variable);

/* Takes a variable out and ends it: its name and its share of the shards are free, its place is
 * vacant. */
void cadre_catalogue_drop_variable(cadre_catalogue_t *self, cadre_variable_t *variable);

/* Frees the name of a variable that is being dropped, for another one. */
void cadre_catalogue_free_name(cadre_catalogue_t *self, const cadre_variable_t *variable);

/* Returns whether a variable of this name was dropped, and the name was free since. */
bool cadre_catalogue_was_dropped(const cadre_catalogue_t *self, const char *name);

/* Returns whether one of its parts lives on `shard`. */
bool cadre_variable_is_on(const cadre_variable_t *variable, uint32_t shard);

/* Returns whether no variable has this id any more, which was one's. */
bool cadre_catalogue_is_vacant(const cadre_catalogue_t *self, uint32_t id);

cadre_variable_t *cadre_catalogue_variable(const cadre_catalogue_t *self, const char *name);

/* Adds a function, or finds the one with the same kind, name and hash. `like` gives those and the
 * program, of which a reference is taken where it is new: then `*is_new` is true. CADRE_EINVALID
 * for a bad name. */
int cadre_catalogue_add_function(cadre_catalogue_t *self, const cadre_function_t *like,
                                 cadre_function_t **function, bool *is_new);

int cadre_catalogue_add_dataset(cadre_catalogue_t *self, const char *name, const char *description,
                                cadre_dataset_t **dataset);

/* Adds a resource that `call` builds, which is taken on success. CADRE_EINVALID for a bad name,
 * CADRE_EEXISTS, CADRE_EFULL. */
int cadre_catalogue_add_resource(cadre_catalogue_t *self, const char *name,
                                 cadre_closure_t **call_p, cadre_resource_t **resource);

/* The CREATE of one part; lists are borrowed from the variable. `shape` is room for them. */
cadre_message_t cadre_catalogue_create_message(const cadre_variable_t *variable, uint32_t partition,
                                               uint64_t shape[CADRE_RANK_MAX]);

/* Whether a worker with these abilities can build it: does not lack its function. */
bool cadre_resource_is_buildable(const cadre_resource_t *self, const cadre_abilities_t *abilities);

/* Whether a worker that was told to build `told`, and has these abilities, has not said yet that it
 * has built this one; one that it cannot build does not count. */
bool cadre_resource_is_under_way(const cadre_resource_t *self, const cadre_resource_set_t *told,
                                 const cadre_abilities_t *abilities);

#endif
