/*
 * manifest - what a checkpoint consists of, as JSON: `cadre.checkpoint/v1`; where a variable has a
 * wire dtype of its own, `cadre.checkpoint/v2`, which is the same with the field `wire`.
 *
 * Owner:   whoever initialised the struct; cadre_manifest_fini frees everything in it.
 * Thread:  one thread at a time.
 *
 * The file's first two lines are `{` and `  "hash": "<16 hex digits>",`: the XXH3-64 hash of every
 * byte after them. It covers bytes and not values on purpose: no two JSON libraries, nor two
 * releases of one, need agree on how a number is printed, and not one bit of the file stays
 * unguarded.
 *
 * The variables come last, a line for each, so that neither writing nor reading holds them all as
 * trees of JSON at once: that took 9 KB for each. A file that is laid out otherwise is read as
 * well.
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

#define CADRE_MANIFEST_SCHEMA      "cadre.checkpoint/v1"
#define CADRE_MANIFEST_SCHEMA_WIRE "cadre.checkpoint/v2"
#define CADRE_MANIFEST_FILE_NAME   "manifest.json"

/* What stands before and behind the lines of the variables, all after the hash and the rest. */
#define CADRE_MANIFEST_VARIABLES_BEGIN ",\n  \"variables\": ["
#define CADRE_MANIFEST_VARIABLES_END   "\n  ]\n}\n"

enum {
    CADRE_MANIFEST_SIZE_MAX = 1 << 30,  /* bytes of the file; a larger one is refused: some four
                                           million variables of one partition */
    CADRE_MANIFEST_TEXT_SIZE_MAX = 128, /* bytes of job and created; longer ones are refused */
    CADRE_CHECKPOINT_NAME_SIZE = 32,    /* bytes for "ckpt-<id>" or "shard-<k>.mdb" */
};

/* A run of elements that one shard held. */
typedef struct {
    uint32_t shard;
    int64_t first_element;
    int64_t count; /* over all partitions of a variable: exactly its elements, in order */
} cadre_manifest_partition_t;

typedef struct {
    char *name;
    cadre_dtype_t dtype;
    cadre_dtype_t wire; /* how it travelled, for people: the checkpoint holds dtype; 0: dtype */
    int rank;
    int64_t shape[CADRE_RANK_MAX];
    json_t *initializer; /* an object that means something to the coordinator only */
    json_t *optimizer;   /* the same */
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
    uint64_t id; /* of the checkpoint; at most INT64_MAX, like every whole number but seed, epoch */
    uint64_t cut;   /* exactly the closures below it are in the checkpoint */
    uint64_t epoch; /* of the coordinator that wrote it */
    uint64_t seed;
    char *created; /* wall clock, for people: nothing is decided by it */
    size_t variable_count;
    cadre_manifest_variable_t *variables;
    cadre_name_map_t variable_names; /* of a manifest that was decoded; else empty */
    size_t shard_count;              /* shards[k] is shard k */
    cadre_manifest_shard_t *shards;
    json_t *progress; /* the user's object: epoch, data cursor, closure count */
} cadre_manifest_t;

/* Frees what the fields hold and clears the struct; harmless on a zeroed one. Strings and arrays
 * came from cadre_strdup and cadre_calloc, JSON objects are references. */
void cadre_manifest_fini(cadre_manifest_t *self);

/* Writes the file's text to *text (freed with free) and decodes it again, so that nothing is ever
 * written that would not be read: CADRE_EINVALID names the field. */
int cadre_manifest_encode(const cadre_manifest_t *self, char **text, size_t *size_bytes);

/* Reads `size_bytes` of text into a zeroed struct. `file` is for messages. CADRE_ECORRUPT when the
 * hash does not match, CADRE_EMALFORMED for syntax (with line and column) or a field (named),
 * CADRE_EPROTOCOL for another schema. */
int cadre_manifest_decode(const char *file, const char *text, size_t size_bytes,
                          cadre_manifest_t *out);

/* Encodes and writes CADRE_MANIFEST_FILE_NAME in the open directory, where it must not exist yet,
 * and fsyncs both. `directory` is its path, for messages. There is no temporary name: the commit is
 * the rename of the directory (checkpoint_directory.h), into which nobody looks before.
 * CADRE_EINVALID, CADRE_EEXISTS, CADRE_EIO. */
int cadre_manifest_write(const cadre_manifest_t *self, int directory_fd, const char *directory);

/* Reads and decodes CADRE_MANIFEST_FILE_NAME in the open directory. CADRE_ENOTFOUND, CADRE_EIO, and
 * those of decode.
 */
int cadre_manifest_read(int directory_fd, const char *directory, cadre_manifest_t *out);

/* "shard-3.mdb" into `text` of CADRE_CHECKPOINT_NAME_SIZE bytes; returns `text`. */
const char *cadre_checkpoint_shard_name(uint32_t shard, char *text);

/* The variable called `name`, or NULL. The array may be in any order; one that was not decoded is
 * searched from end to end. */
const cadre_manifest_variable_t *cadre_manifest_find(const cadre_manifest_t *self,
                                                     const char *name);

#endif
