/*
 * manifest - describes the contents of a checkpoint as JSON: schema `cadre.checkpoint/v1`; if a
 * variable has a wire dtype of its own, `cadre.checkpoint/v2`, which is the same with the field
 * `wire`; and if there is a table, `cadre.checkpoint/v3`, which has the fields `table` and `since`,
 * too.
 *
 * Owner:   whoever initialised the struct; cadre_manifest_fini frees everything in it.
 * Thread:  one thread at a time.
 *
 * The file's first two lines are `{` and ` "hash": "<16 hex digits>",`: the XXH3-64 hash of every
 * byte after them. It covers bytes and not values on purpose: JSON libraries, and releases of one
 * library, need not agree on how a number is printed, and every bit of the file is protected.
 *
 * The variables come last, one per line, so that neither writing nor reading holds all of them as
 * JSON trees at once: that took 9 KB for each variable. A file with another layout is read as well.
 *
 * Parsing treats the file as untrusted: JSON syntax first (so that the error in an edited file
 * names its line), then the hash, then every field's presence, type and range. A field that is not
 * known is an error: the schema name changes before a field is added.
 */
#ifndef CADRE_COMMON_CHECKPOINT_MANIFEST_H
#define CADRE_COMMON_CHECKPOINT_MANIFEST_H

#include <jansson.h>

#include "common/base/name_map.h"
#include "common/checkpoint/shard_file.h"

#define CADRE_MANIFEST_SCHEMA        "cadre.checkpoint/v1"
#define CADRE_MANIFEST_SCHEMA_WIRE   "cadre.checkpoint/v2"
#define CADRE_MANIFEST_SCHEMA_TABLES "cadre.checkpoint/v3"
#define CADRE_MANIFEST_FILE_NAME     "manifest.json"

/* The texts before and after the lines of the variables, which come last in the file. */
#define CADRE_MANIFEST_VARIABLES_BEGIN ",\n  \"variables\": ["
#define CADRE_MANIFEST_VARIABLES_END   "\n  ]\n}\n"

enum {
    /* Most bytes of the file; room for some four million variables of one partition. */
    CADRE_MANIFEST_SIZE_MAX = 1 << 30,
    CADRE_MANIFEST_TEXT_SIZE_MAX = 128, /* most bytes of `job` and `created` */
    CADRE_CHECKPOINT_NAME_SIZE = 32,    /* bytes for "ckpt-<id>" or "shard-<k>.mdb" */
};

/* A partition: consecutive elements of a variable, which one shard held. */
typedef struct {
    uint32_t shard;
    int64_t first_element;
    int64_t count; /* of elements; a variable's partitions cover its elements, in order */
} cadre_manifest_partition_t;

typedef struct {
    char *name;
    cadre_dtype_t dtype;
    /* Type in which values travel, for information only: the checkpoint holds them as `dtype`. 0:
     * they travel as `dtype`, too. */
    cadre_dtype_t wire;
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    json_t *initializer; /* an object that only the coordinator understands */
    json_t *optimizer;   /* an object that only the coordinator understands */
    /* How a table keeps its rows, as the coordinator knows it; NULL: a dense variable. The shape of
     * a table is [0, dim]: its rows are no elements. Partition k is on shard k. */
    json_t *table;
    size_t partition_count;
    cadre_manifest_partition_t *partitions;
} cadre_manifest_variable_t;

typedef struct {
    char *file; /* cadre_checkpoint_shard_name, in the checkpoint's own directory */
    uint64_t size_bytes;
    uint64_t hash;
    cadre_shard_state_t state;
} cadre_manifest_shard_t;

typedef struct cadre_manifest {
    char *job;
    /* Id of the checkpoint; at most INT64_MAX, like all whole numbers except seed and epoch. */
    uint64_t id;
    uint64_t cut; /* the checkpoint holds exactly the closures with ids below this */
    /* Checkpoint whose files have the pages of tables that did not change since, and are not here;
     * 0: all are here. */
    uint64_t since;
    uint64_t epoch; /* epoch of the session that wrote it */
    uint64_t seed;
    char *created; /* wall clock time, for information only */
    size_t variable_count;
    cadre_manifest_variable_t *variables;
    cadre_name_map_t variable_names; /* name to variable, if the manifest was decoded; else empty */
    size_t shard_count;              /* shards[k] is shard k */
    cadre_manifest_shard_t *shards;
    json_t *progress; /* the user's object: epoch, data cursor, closure count */
} cadre_manifest_t;

/* Frees all fields and clears the struct; does nothing on a zeroed one. Strings and arrays must
 * come from cadre_strdup and cadre_calloc; JSON objects are references. */
void cadre_manifest_fini(cadre_manifest_t *self);

/* Writes the file's text to *text (freed with free) and decodes it again, so that no file is
 * written that could not be read: CADRE_EINVALID with a text that names the field. */
int cadre_manifest_encode(const cadre_manifest_t *self, char **text, size_t *size_bytes);

/* Reads `size_bytes` of text into a zeroed struct. `file` is for messages. CADRE_ECORRUPT when the
 * hash does not match, CADRE_EMALFORMED for syntax (with line and column) or a field (named),
 * CADRE_EPROTOCOL for another schema. */
int cadre_manifest_decode(const char *file, const char *text, size_t size_bytes,
                          cadre_manifest_t *out);

/* Encodes and writes CADRE_MANIFEST_FILE_NAME in the open directory, where it must not exist yet,
 * and fsyncs both. `directory` is its path, for messages. It needs no temporary name: the commit is
 * the rename of the directory (checkpoint_directory.h), and nobody reads that before.
 * CADRE_EINVALID, CADRE_EEXISTS, CADRE_EIO. */
int cadre_manifest_write(const cadre_manifest_t *self, int directory_fd, const char *directory);

/* Reads and decodes CADRE_MANIFEST_FILE_NAME in the open directory. CADRE_ENOTFOUND, CADRE_EIO, and
 * all statuses of cadre_manifest_decode. */
int cadre_manifest_read(int directory_fd, const char *directory, cadre_manifest_t *out);

/* Writes "shard-3.mdb" into `text` of CADRE_CHECKPOINT_NAME_SIZE bytes; returns `text`. */
const char *cadre_checkpoint_shard_name(uint32_t shard, char *text);

/* Writes "ckpt-00000012", the name of a checkpoint's directory, into `text` of
 * CADRE_CHECKPOINT_NAME_SIZE bytes; returns `text`. */
const char *cadre_checkpoint_name(uint64_t id, char *text);

/* Returns the variable called `name`, or NULL. In a manifest that was not decoded the whole array
 * is searched. */
const cadre_manifest_variable_t *cadre_manifest_find(const cadre_manifest_t *self,
                                                     const char *name);

#endif
