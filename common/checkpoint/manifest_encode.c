#include "common/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"

static void
release(json_t **json_p)
{
    json_decref(*json_p);
}

/* Returns the list of a variable's partitions as JSON. */
static json_t *
encode_partitions(const cadre_manifest_variable_t *variable)
{
    json_t *partitions = json_array();
    for (size_t i = 0; i < variable->partition_count; i++) {
        const cadre_manifest_partition_t *partition = &variable->partitions[i];
        json_array_append_new(partitions,
                              json_pack("{s:I, s:I, s:I}", "shard", (json_int_t)partition->shard,
                                        "first_element", (json_int_t)partition->first_element,
                                        "count", (json_int_t)partition->count));
    }
    return partitions;
}

/* Returns whether the variable's values travel in another type than its own. */
static bool
has_wire(const cadre_manifest_variable_t *variable)
{
    return variable->wire != 0 && variable->wire != variable->dtype;
}

/* Returns a variable as JSON; NULL with `error` when a text of it is not UTF-8 or an object is
 * missing. */
static json_t *
encode_variable(const cadre_manifest_variable_t *variable, json_error_t *error)
{
    cadre_assert(variable->rank >= 0 && variable->rank <= CADRE_RANK_MAX);
    json_t *shape = json_array();
    for (int axis = 0; axis < variable->rank; axis++) {
        json_array_append_new(shape, json_integer(variable->shape[axis]));
    }

    json_t *object = json_pack_ex(error, 0, "{s:s, s:s, s:o, s:O, s:O, s:o}", "name",
                                  variable->name, "dtype", cadre_dtype_text(variable->dtype),
                                  "shape", shape, "initializer", variable->initializer, "optimizer",
                                  variable->optimizer, "partitions", encode_partitions(variable));
    if (object && has_wire(variable)) {
        json_object_set_new(object, "wire", json_string(cadre_dtype_text(variable->wire)));
    }
    if (object && variable->table) {
        json_object_set(object, "table", variable->table);
    }

    return object;
}

/* Returns a shard as JSON. The hash has all 64 bits, so it is stored as text. */
static json_t *
encode_shard(const cadre_manifest_shard_t *shard, json_error_t *error)
{
    char hash[17];
    snprintf(hash, sizeof(hash), "%016" PRIx64, shard->hash);
    json_t *counters = json_object();
#define ENCODE_COUNTER(name)                                                                       \
    json_object_set_new(counters, #name, json_integer((json_int_t)shard->state.name));
    CADRE_SHARD_COUNTER_LIST(ENCODE_COUNTER)
#undef ENCODE_COUNTER
    return json_pack_ex(error, 0, "{s:s, s:I, s:s, s:I, s:I, s:o}", "file", shard->file,
                        "size_bytes", (json_int_t)shard->size_bytes, "hash", hash, "window_base",
                        (json_int_t)shard->state.window_base, "generation",
                        (json_int_t)shard->state.generation, "counters", counters);
}

/* A text that is being built. */
typedef struct {
    char *bytes;
    size_t size_bytes;
    size_t capacity;
} text_t;

/* Appends bytes, and ends the text with a zero byte. */
static void
add_bytes(text_t *self, const char *bytes, size_t size_bytes)
{
    if (self->size_bytes + size_bytes + 1 > self->capacity) {
        self->capacity = 2 * (self->size_bytes + size_bytes + 1);
        self->bytes = cadre_realloc(self->bytes, self->capacity, 1);
    }
    memcpy(self->bytes + self->size_bytes, bytes, size_bytes);
    self->size_bytes += size_bytes;
    self->bytes[self->size_bytes] = '\0';
}

static void
add_text(text_t *self, const char *text)
{
    add_bytes(self, text, strlen(text));
}

static int
fail_utf8(void)
{
    return cadre_fail(CADRE_EINVALID, "manifest: a text is not UTF-8");
}

/* Appends one line per variable, whose JSON tree is built and freed by itself: all variables in one
 * tree took 9 KB of memory each. */
static int
add_variables(text_t *self, const cadre_manifest_t *manifest)
{
    add_text(self, CADRE_MANIFEST_VARIABLES_BEGIN);
    for (size_t i = 0; i < manifest->variable_count; i++) {
        json_error_t error = {.text = ""};
        cadre_auto(release) json_t *variable = encode_variable(&manifest->variables[i], &error);
        if (!variable) {
            return cadre_fail(CADRE_EINVALID, "manifest: %s", error.text);
        }

        cadre_auto(cadre_free) char *line =
            json_dumps(variable, JSON_REAL_PRECISION(17)); /* json_dumps writes no line breaks */
        if (!line) {
            return fail_utf8();
        }

        add_text(self, i > 0 ? ",\n    " : "\n    ");
        add_text(self, line);
    }

    add_text(self, CADRE_MANIFEST_VARIABLES_END);
    return 0;
}

/* Appends `item` to the array; false when `item` is NULL. */
static bool
append(json_t *array, json_t *item)
{
    return item && json_array_append_new(array, item) == 0;
}

/* Returns the first schema that has all fields of the manifest. */
static const char *
schema_of(const cadre_manifest_t *self)
{
    const char *schema = CADRE_MANIFEST_SCHEMA;
    for (size_t i = 0; i < self->variable_count; i++) {
        if (self->variables[i].table) {
            return CADRE_MANIFEST_SCHEMA_TABLES;
        }
        schema = has_wire(&self->variables[i]) ? CADRE_MANIFEST_SCHEMA_WIRE : schema;
    }
    return self->since > 0 ? CADRE_MANIFEST_SCHEMA_TABLES : schema;
}

/* Returns the manifest as JSON without the variables. */
static json_t *
encode_root(const cadre_manifest_t *self, json_error_t *error)
{
    cadre_auto(release) json_t *shards = json_array();
    for (size_t k = 0; k < self->shard_count; k++) {
        if (!append(shards, encode_shard(&self->shards[k], error))) {
            return NULL;
        }
    }

    /* Numbers that use all 64 bits are stored as text: many JSON readers keep only 53 bits, jansson
     * 63. */
    char epoch[24], seed[24];
    snprintf(epoch, sizeof(epoch), "%" PRIu64, self->epoch);
    snprintf(seed, sizeof(seed), "%" PRIu64, self->seed);
    json_t *root = json_pack_ex(
        error, 0, "{s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:O, s:O}", "schema", schema_of(self), "job",
        self->job, "id", (json_int_t)self->id, "cut", (json_int_t)self->cut, "epoch", epoch, "seed",
        seed, "created", self->created, "shards", shards, "progress", self->progress);
    if (root && self->since > 0) {
        json_object_set_new(root, "since", json_integer((json_int_t)self->since));
    }
    return root;
}

static void
fini_text(text_t *self)
{
    free(self->bytes);
}

/* The first lines of the file. write_hash puts the hash of all bytes that follow them in the place
 * of the zeros. */
static const char HASH_LINE[] = "{\n  \"hash\": \"0000000000000000\",\n";

/* Writes the hash of all that follows the first lines over the zeros in them. */
static void
write_hash(text_t *self)
{
    enum { DIGITS = 16, BEHIND = 3 }; /* quote, comma, line end */
    char digits[DIGITS + 1];
    size_t line_size = sizeof(HASH_LINE) - 1;
    uint64_t hash = XXH3_64bits(self->bytes + line_size, self->size_bytes - line_size);
    snprintf(digits, sizeof(digits), "%016" PRIx64, hash);
    memcpy(self->bytes + line_size - BEHIND - DIGITS, digits, DIGITS);
}

/* Writes a manifest as text, and decodes the text again, so that none is written that could not be
 * read. */
int
cadre_manifest_encode(const cadre_manifest_t *self, char **text, size_t *size_bytes)
{
    json_error_t error = {.text = ""};
    cadre_auto(release) json_t *root = encode_root(self, &error);
    if (!root) {
        return cadre_fail(CADRE_EINVALID, "manifest: %s", error.text);
    }

    cadre_auto(cadre_free) char *plain = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!plain) {
        return fail_utf8();
    }

    size_t plain_size = strlen(plain);
    cadre_assert(strncmp(plain, "{\n", 2) == 0 && strcmp(plain + plain_size - 2, "\n}") == 0);
    cadre_auto(fini_text) text_t whole = {.bytes = NULL};
    add_text(&whole, HASH_LINE);
    /* The head goes without its first and last lines, "{" and "}": HASH_LINE has the one, the end
     * of the variables the other. */
    add_bytes(&whole, plain + 2, plain_size - 4);
    int status = add_variables(&whole, self);
    if (status != 0) {
        return status;
    }

    write_hash(&whole);

    cadre_manifest_t again = {0};
    status = cadre_manifest_decode("manifest", whole.bytes, whole.size_bytes, &again);
    cadre_manifest_fini(&again);
    if (status != 0) {
        return CADRE_EINVALID;
    }

    *text = whole.bytes;
    *size_bytes = whole.size_bytes;
    whole.bytes = NULL;
    return 0;
}

/* Encodes the manifest, writes its file in an open directory, and syncs both. */
int
cadre_manifest_write(const cadre_manifest_t *self, int directory_fd, const char *directory)
{
    cadre_auto(cadre_free) char *text = NULL;
    size_t size_bytes = 0;
    int status = cadre_manifest_encode(self, &text, &size_bytes);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", directory, CADRE_MANIFEST_FILE_NAME);
    status = cadre_disk_create(directory_fd, CADRE_MANIFEST_FILE_NAME, path, text, size_bytes);
    return status == 0 ? cadre_disk_sync_directory(directory_fd, directory) : status;
}
