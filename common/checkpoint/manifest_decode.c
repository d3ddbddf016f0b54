/*
 * Decodes a manifest, a text of unknown origin.
 *
 * The decoder keeps its first failure, after which every getter returns nothing: so the functions
 * below need not check each field, and read like the format itself.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"
#include "common/checkpoint/manifest.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

/* Number of the newest schema. */
enum { SCHEMA_TABLES = 3 };

typedef struct {
    const char *file;
    int status;
    /* number of the manifest's schema: from 2 on, variables may have the field `wire`, from 3 on
     * `table`, and the manifest `since` */
    int schema;
    const char *lines; /* begin of the variables' lines, if the file has one for each; else NULL */
    const char *lines_end;
    char place[96]; /* the object that is being read, "" or such as "shards[3]." */
} decoder_t;

static void fail(decoder_t *self, const char *key, const char *format, ...) CADRE_PRINTF(3, 4);

/* Notes the first failure, with the file and the place of the field `key`; later ones are ignored.
 * */
static void
fail(decoder_t *self, const char *key, const char *format, ...)
{
    if (self->status != 0) {
        return;
    }
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    self->status = cadre_fail(CADRE_EMALFORMED, "%s: %s%s: %s", self->file, self->place, key, text);
}

static void enter(decoder_t *self, const char *format, ...) CADRE_PRINTF(2, 3);

/* Notes which object is being read from now on, for error texts. */
static void
enter(decoder_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(self->place, sizeof(self->place), format, arguments);
    va_end(arguments);
}

/* Returns what to call a JSON type in an error text. */
static const char *
type_text(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        break;
    }

    return "something else";
}

/* Returns the field, borrowed; NULL, as a failure, when it is missing or of another type. */
static json_t *
get(decoder_t *self, const json_t *object, const char *key, json_type type)
{
    json_t *field = json_object_get(object, key);
    if (!field) {
        fail(self, key, "missing");
    } else if (json_typeof(field) != type) {
        fail(self, key, "must be %s", type_text(type));
    }
    return self->status == 0 ? field : NULL;
}

/* Fails on every field that is not among `keys`. */
static void
only(decoder_t *self, json_t *object, const char *const *keys, size_t key_count)
{
    const char *key;
    json_t *field;
    json_object_foreach(object, key, field)
    {
        bool known = false;
        for (size_t i = 0; i < key_count; i++) {
            known = known || strcmp(key, keys[i]) == 0;
        }
        if (!known) {
            char shown[64];
            snprintf(shown, sizeof(shown), "%s", key);
            fail(self, shown, "unknown field");
        }
    }
}

/* Returns a field that is a whole number from 0 to `max`; 0 after a failure. */
static uint64_t
get_number(decoder_t *self, const json_t *object, const char *key, uint64_t max)
{
    const json_t *field = get(self, object, key, JSON_INTEGER);
    json_int_t number = field ? json_integer_value(field) : 0;
    if (number < 0 || (uint64_t)number > max) {
        fail(self, key, "%lld is not in 0..%llu", (long long)number, (unsigned long long)max);
        return 0;
    }
    return (uint64_t)number;
}

/* Returns a 64-bit number that is stored as text; only the text that PRIu64 (016 PRIx64 if
 * `hexadecimal`) prints for it is accepted. */
static uint64_t
get_wide(decoder_t *self, const json_t *object, const char *key, bool hexadecimal)
{
    const json_t *field = get(self, object, key, JSON_STRING);
    if (!field) {
        return 0;
    }

    const char *text = json_string_value(field);
    uint64_t number = strtoull(text, NULL, hexadecimal ? 16 : 10);
    char again[24];
    snprintf(again, sizeof(again), hexadecimal ? "%016" PRIx64 : "%" PRIu64, number);
    if (strcmp(again, text) != 0) {
        fail(self, key, "must be %s", hexadecimal ? "16 hex digits" : "a number of 64 bits");
    }

    return number;
}

/* Returns a copy of a text without control characters. */
static char *
get_text(decoder_t *self, const json_t *object, const char *key)
{
    const json_t *field = get(self, object, key, JSON_STRING);
    if (!field) {
        return NULL;
    }

    const unsigned char *text = (const unsigned char *)json_string_value(field);
    size_t size = json_string_length(field);
    if (size == 0 || size > CADRE_MANIFEST_TEXT_SIZE_MAX) {
        fail(self, key, "has %zu bytes, not 1 to %d", size, CADRE_MANIFEST_TEXT_SIZE_MAX);
    }

    /* In UTF-8 the bytes 0xc2 0x80 to 0xc2 0x9f are control characters, too. */
    for (size_t i = 0; i < size; i++) {
        if (text[i] < 0x20 || text[i] == 0x7f || (text[i] == 0xc2 && text[i + 1] < 0xa0)) {
            fail(self, key, "holds a control character");
        }
    }

    return self->status == 0 ? cadre_strdup((const char *)text) : NULL;
}

/* Returns a reference to an object whose fields are not checked here. */
static json_t *
get_opaque(decoder_t *self, const json_t *object, const char *key)
{
    return json_incref(get(self, object, key, JSON_OBJECT));
}

/* Returns an array of at most `max` items, each of which must be an object. */
static json_t *
get_list(decoder_t *self, const json_t *object, const char *key, size_t max)
{
    json_t *list = get(self, object, key, JSON_ARRAY);
    if (list && json_array_size(list) > max) {
        fail(self, key, "has %zu items, more than %zu", json_array_size(list), max);
    }

    for (size_t i = 0; self->status == 0 && i < json_array_size(list); i++) {
        if (!json_is_object(json_array_get(list, i))) {
            fail(self, key, "item %zu must be an object", i);
        }
    }

    return self->status == 0 ? list : NULL;
}

/* Decodes "dtype", the type of the variable's values. */
static void
decode_dtype(decoder_t *self, const json_t *object, cadre_manifest_variable_t *variable)
{
    const json_t *field = get(self, object, "dtype", JSON_STRING);
    variable->dtype = cadre_dtype_of_text(field ? json_string_value(field) : "");
    if (!cadre_dtype_valid((uint64_t)variable->dtype)) {
        fail(self, "dtype", "no such data type");
    }
}

/* Decodes "wire", the type in which values travel; without the field it is the variable's own. */
static void
decode_wire(decoder_t *self, const json_t *object, cadre_manifest_variable_t *variable)
{
    variable->wire = variable->dtype;
    if (!json_object_get(object, "wire")) {
        return;
    }

    const json_t *field = get(self, object, "wire", JSON_STRING);
    cadre_dtype_t wire = cadre_dtype_of_text(field ? json_string_value(field) : "");
    /* Refuses 0, which would mean the variable's own type. */
    bool is_known = cadre_dtype_valid((uint64_t)wire);
    if (self->status == 0 && (!is_known || cadre_wire_dtype_decode((uint64_t)wire, variable->dtype,
                                                                   &variable->wire) < 0)) {
        fail(self, "wire", "no such type on the wire of %s", cadre_dtype_text(variable->dtype));
    }
}

/* Decodes the shape; returns how many elements the variable has. */
static int64_t
decode_shape(decoder_t *self, const json_t *object, cadre_manifest_variable_t *variable)
{
    const json_t *shape = get(self, object, "shape", JSON_ARRAY);
    if (shape && json_array_size(shape) > CADRE_RANK_MAX) {
        fail(self, "shape", "has %zu dimensions, more than %d", json_array_size(shape),
             CADRE_RANK_MAX);
    }

    if (self->status != 0) {
        return 0;
    }

    variable->rank = (int)json_array_size(shape);
    for (int axis = 0; axis < variable->rank; axis++) {
        const json_t *dimension = json_array_get(shape, (size_t)axis);
        variable->shape[axis] = json_is_integer(dimension) ? json_integer_value(dimension) : -1;
    }

    int64_t count = 0;
    if (cadre_shape_size(variable->dtype, variable->shape, variable->rank, &count, NULL) != 0) {
        char text[192];
        snprintf(text, sizeof(text), "%s", cadre_error_text());
        fail(self, "shape", "%s", text);
    }

    return count;
}

/* Decodes the partitions, which must cover the variable's elements in order, without gap or
 * overlap. */
static void
decode_partitions(decoder_t *self, const json_t *object, cadre_manifest_variable_t *variable,
                  int64_t count, size_t shard_count)
{
    static const char *const KEYS[] = {"shard", "first_element", "count"};
    json_t *list = get_list(self, object, "partitions", CADRE_PARTITIONS_PER_VARIABLE_MAX);
    if (!list) {
        return;
    }

    variable->partition_count = json_array_size(list);
    variable->partitions = cadre_calloc(variable->partition_count, sizeof(*variable->partitions));
    int64_t next = 0;
    for (size_t i = 0; self->status == 0 && i < variable->partition_count; i++) {
        json_t *item = json_array_get(list, i);
        cadre_manifest_partition_t *partition = &variable->partitions[i];
        only(self, item, KEYS, CADRE_COUNT_OF(KEYS));
        partition->shard = (uint32_t)get_number(self, item, "shard", shard_count - 1);
        partition->first_element = (int64_t)get_number(self, item, "first_element", INT64_MAX);
        partition->count = (int64_t)get_number(self, item, "count", (uint64_t)count);
        if (partition->first_element != next || partition->count > count - next) {
            fail(self, "partitions", "item %zu does not continue the one before", i);
        }
        next += partition->count;
    }

    if (next != count) {
        fail(self, "partitions", "hold %lld of %lld elements", (long long)next, (long long)count);
    }
}

/* Decodes "table" of a variable that has it, and checks what all tables have in common. */
static void
decode_table(decoder_t *self, const json_t *object, cadre_manifest_variable_t *variable,
             size_t shard_count)
{
    if (!json_object_get(object, "table")) {
        return;
    }

    variable->table = get_opaque(self, object, "table");
    if (variable->dtype != CADRE_F32 || variable->rank != 2 || variable->shape[0] != 0 ||
        variable->shape[1] < 1 || variable->shape[1] > CADRE_TABLE_DIM_MAX) {
        fail(self, "shape", "is not that of a table");
    }
    if (variable->partition_count != shard_count) {
        fail(self, "partitions", "are %zu, not one on each of %zu shards",
             variable->partition_count, shard_count);
    }
    for (size_t i = 0; self->status == 0 && i < variable->partition_count; i++) {
        if (variable->partitions[i].shard != i) {
            fail(self, "partitions", "item %zu is on another shard", i);
        }
    }
}

/* Decodes one variable. `shard_count` is the number of shards that its partitions may name. */
static void
decode_variable(decoder_t *self, json_t *object, cadre_manifest_variable_t *variable,
                size_t shard_count)
{
    /* The last two keys are each known from one more schema on. */
    static const char *const KEYS[] = {"name",      "dtype",      "shape", "initializer",
                                       "optimizer", "partitions", "wire",  "table"};
    only(self, object, KEYS, CADRE_COUNT_OF(KEYS) - (size_t)(SCHEMA_TABLES - self->schema));
    variable->name = get_text(self, object, "name");
    if (variable->name && !cadre_checkpoint_name_valid(variable->name, CADRE_NAME_SIZE_MAX)) {
        fail(self, "name", "is no valid name");
    }

    decode_dtype(self, object, variable);
    decode_wire(self, object, variable);
    int64_t count = decode_shape(self, object, variable);
    variable->initializer = get_opaque(self, object, "initializer");
    variable->optimizer = get_opaque(self, object, "optimizer");
    decode_partitions(self, object, variable, count, shard_count);
    decode_table(self, object, variable, shard_count);
}

/* Adds the variable to the names; fails if another variable has the same name. */
static void
note_name(decoder_t *self, cadre_manifest_t *manifest, cadre_manifest_variable_t *variable)
{
    if (self->status != 0) {
        return;
    }
    if (cadre_name_map_get(&manifest->variable_names, variable->name)) {
        enter(self, "%s", "");
        fail(self, "variables", "%s is there twice", variable->name);
        return;
    }
    cadre_name_map_put(&manifest->variable_names, variable->name, variable);
}

/* Lets a variable share the optimizer object of the previous one if both are equal, as they mostly
 * are: saves memory. */
static void
share_optimizer(cadre_manifest_t *manifest, size_t index)
{
    cadre_manifest_variable_t *variable = &manifest->variables[index];
    json_t *before = index > 0 ? manifest->variables[index - 1].optimizer : NULL;
    if (before && variable->optimizer && json_equal(before, variable->optimizer)) {
        json_decref(variable->optimizer);
        variable->optimizer = json_incref(before);
    }
}

/* Decodes the next variable of the manifest, whose array has room for it. */
static void
decode_item(decoder_t *self, json_t *object, cadre_manifest_t *manifest)
{
    size_t index = manifest->variable_count++;
    enter(self, "variables[%zu].", index);
    decode_variable(self, object, &manifest->variables[index], manifest->shard_count);
    share_optimizer(manifest, index);
    note_name(self, manifest, &manifest->variables[index]);
}

/* Decodes the variables of a manifest whose layout is not one variable to a line. */
static void
decode_list(decoder_t *self, const json_t *root, cadre_manifest_t *manifest)
{
    json_t *list = get_list(self, root, "variables", SIZE_MAX);
    if (!list) {
        return;
    }
    size_t count = json_array_size(list);
    manifest->variables = cadre_calloc(count, sizeof(*manifest->variables));
    for (size_t i = 0; self->status == 0 && i < count; i++) {
        decode_item(self, json_array_get(list, i), manifest);
    }
}

/* Returns the next line; NULL after the last one. `*at` points at the line end before that line (at
 * first: the one before the first line), and is moved to the line's own end. */
static const char *
next_line(const char **at, const char *end, size_t *size_bytes)
{
    if (*at >= end) {
        return NULL;
    }
    const char *line = *at + 1;
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    *at = stop ? stop : end;
    *size_bytes = (size_t)(*at - line);
    return line;
}

/* Decodes the lines of a manifest, each of which is a variable. */
static void
decode_lines(decoder_t *self, cadre_manifest_t *manifest)
{
    size_t count = 0;
    size_t size_bytes = 0;
    const char *line = NULL;

    for (const char *at = self->lines; next_line(&at, self->lines_end, &size_bytes);) {
        count++;
    }

    manifest->variables = cadre_calloc(count, sizeof(*manifest->variables));
    const char *at = self->lines;
    while (self->status == 0 && (line = next_line(&at, self->lines_end, &size_bytes))) {
        /* The text is that of a wrong comma, unless the parser writes another. */
        json_error_t error = {.text = "no comma where another one follows, or the other way round"};
        bool comma = size_bytes > 0 && line[size_bytes - 1] == ',';
        json_t *object = NULL;
        /* All lines but the last end with a comma. */
        if (comma == (at < self->lines_end)) {
            object = json_loadb(line, size_bytes - comma, JSON_REJECT_DUPLICATES, &error);
        }

        if (!object) {
            enter(self, "variables[%zu]", manifest->variable_count);
            fail(self, "", "%s", error.text);
            return;
        }

        decode_item(self, object, manifest);
        json_decref(object);
    }
}

/* Decodes the variables, from their lines or from the JSON tree. */
static void
decode_variables(decoder_t *self, const json_t *root, cadre_manifest_t *manifest)
{
    if (self->lines) {
        decode_lines(self, manifest);
    } else {
        decode_list(self, root, manifest);
    }
    enter(self, "%s", "");
}

/* Decodes the counters of a shard, each of which must be there. */
static void
decode_counters(decoder_t *self, size_t index, const json_t *shard, cadre_shard_state_t *state)
{
    static const char *const KEYS[] = {
#define COUNTER_KEY(name) #name,
        CADRE_SHARD_COUNTER_LIST(COUNTER_KEY)
#undef COUNTER_KEY
    };
    json_t *counters = get(self, shard, "counters", JSON_OBJECT);
    if (!counters) {
        return;
    }

    enter(self, "shards[%zu].counters.", index);
    only(self, counters, KEYS, CADRE_COUNT_OF(KEYS));
#define COUNTER_GET(name) state->name = get_number(self, counters, #name, INT64_MAX);
    CADRE_SHARD_COUNTER_LIST(COUNTER_GET)
#undef COUNTER_GET
}

/* Decodes what the manifest says of one shard: its file, with size and hash, and its state. */
static void
decode_shard(decoder_t *self, size_t index, json_t *object, cadre_manifest_shard_t *shard)
{
    static const char *const KEYS[] = {"file",        "size_bytes", "hash",
                                       "window_base", "generation", "counters"};
    only(self, object, KEYS, CADRE_COUNT_OF(KEYS));
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    shard->file = get_text(self, object, "file");
    if (shard->file &&
        strcmp(shard->file, cadre_checkpoint_shard_name((uint32_t)index, name)) != 0) {
        fail(self, "file", "must be %s", name);
    }

    shard->size_bytes = get_number(self, object, "size_bytes", INT64_MAX);
    shard->hash = get_wide(self, object, "hash", true);
    shard->state.window_base = get_number(self, object, "window_base", INT64_MAX);
    shard->state.generation = get_number(self, object, "generation", INT64_MAX);
    decode_counters(self, index, object, &shard->state);
}

/* Decodes the list of shards, of which there is at least one. */
static void
decode_shards(decoder_t *self, const json_t *root, cadre_manifest_t *manifest)
{
    json_t *list = get_list(self, root, "shards", CADRE_SHARDS_MAX);
    if (list && json_array_size(list) == 0) {
        fail(self, "shards", "is empty");
    }
    if (self->status != 0) {
        return;
    }

    manifest->shard_count = json_array_size(list);
    manifest->shards = cadre_calloc(manifest->shard_count, sizeof(*manifest->shards));
    for (size_t k = 0; self->status == 0 && k < manifest->shard_count; k++) {
        enter(self, "shards[%zu].", k);
        decode_shard(self, k, json_array_get(list, k), &manifest->shards[k]);
    }

    enter(self, "%s", "");
}

/* Decodes "since", which names an older checkpoint. */
static void
decode_since(decoder_t *self, const json_t *root, cadre_manifest_t *manifest)
{
    manifest->since = get_number(self, root, "since", INT64_MAX);
    if (manifest->since == 0 || manifest->since >= manifest->id) {
        fail(self, "since", "names no older checkpoint");
    }
}

/* Decodes all fields of the manifest but hash and schema, which were checked. Shards come before
 * variables, whose partitions name shards. */
static void
decode_root(decoder_t *self, json_t *root, cadre_manifest_t *manifest)
{
    static const char *const KEYS[] = {"hash",      "schema", "job",      "id",
                                       "cut",       "epoch",  "seed",     "created",
                                       "variables", "shards", "progress", "since"};
    only(self, root, KEYS, CADRE_COUNT_OF(KEYS) - (self->schema < SCHEMA_TABLES));
    manifest->job = get_text(self, root, "job");
    manifest->id = get_number(self, root, "id", INT64_MAX);
    manifest->cut = get_number(self, root, "cut", INT64_MAX);
    if (json_object_get(root, "since")) {
        decode_since(self, root, manifest);
    }
    manifest->epoch = get_wide(self, root, "epoch", false);
    manifest->seed = get_wide(self, root, "seed", false);
    manifest->created = get_text(self, root, "created");
    decode_shards(self, root, manifest);
    decode_variables(self, root, manifest);
    manifest->progress = get_opaque(self, root, "progress");
}

/* Checks that the text begins with a hash, and that the rest of it has this hash. */
static int
check_hash(const char *file, const char *text, size_t size_bytes)
{
    static const char BEFORE[] = "{\n  \"hash\": \"";
    static const char AFTER[] = "\",\n";
    char line[sizeof(BEFORE) + 16 + sizeof(AFTER)];
    size_t line_size = sizeof(BEFORE) - 1 + 16 + sizeof(AFTER) - 1;
    if (size_bytes > line_size) {
        uint64_t hash = XXH3_64bits(text + line_size, size_bytes - line_size);
        snprintf(line, sizeof(line), "%s%016" PRIx64 "%s", BEFORE, hash, AFTER);
        if (memcmp(line, text, line_size) == 0) {
            return 0;
        }
    }

    return cadre_fail(CADRE_ECORRUPT,
                      "%s: hash: does not match, the file was changed after it was written", file);
}

static void
release(json_t **json_p)
{
    json_decref(*json_p);
}

/* Finds the lines of the variables in a text with the layout that the encoder writes. False for any
 * other layout, and for a text that was changed since it was written (its hash differs): such a
 * text is parsed as a whole, so that an error names its line in the file. */
static bool
find_lines(const char *text, size_t size_bytes, decoder_t *decoder)
{
    size_t begin_size = sizeof(CADRE_MANIFEST_VARIABLES_BEGIN) - 1;
    size_t end_size = sizeof(CADRE_MANIFEST_VARIABLES_END) - 1;
    const char *begin = memmem(text, size_bytes, CADRE_MANIFEST_VARIABLES_BEGIN, begin_size);
    if (!begin || check_hash("", text, size_bytes) < 0) {
        return false;
    }

    const char *lines = begin + begin_size;
    const char *end = text + size_bytes - end_size;
    if (end < lines || memcmp(end, CADRE_MANIFEST_VARIABLES_END, end_size) != 0 ||
        (end > lines && *lines != '\n')) {
        return false;
    }

    decoder->lines = lines;
    decoder->lines_end = end;
    return true;
}

/* Parses all of the manifest that comes before the lines of the variables, closed as JSON with an
 * empty list of variables. */
static json_t *
load_head(const char *text, const char *lines, json_error_t *error)
{
    size_t size_bytes = (size_t)(lines - text);
    cadre_auto(cadre_free) char *head =
        cadre_asprintf("%.*s]}", (int)size_bytes, text); /* with an empty list of variables */
    return json_loads(head, JSON_REJECT_DUPLICATES, error);
}

/* Decodes which schema the manifest has. */
static int
decode_schema(decoder_t *self, const json_t *root)
{
    static const char *const SCHEMAS[SCHEMA_TABLES] = {
        CADRE_MANIFEST_SCHEMA, CADRE_MANIFEST_SCHEMA_WIRE, CADRE_MANIFEST_SCHEMA_TABLES};
    const json_t *schema = get(self, root, "schema", JSON_STRING);
    for (int i = 0; schema && i < SCHEMA_TABLES; i++) {
        if (strcmp(json_string_value(schema), SCHEMAS[i]) == 0) {
            self->schema = i + 1;
        }
    }
    if (schema && self->schema == 0) {
        return cadre_fail(CADRE_EPROTOCOL, "%s: schema: is none of %s to %s", self->file,
                          SCHEMAS[0], SCHEMAS[SCHEMA_TABLES - 1]);
    }
    return self->status;
}

/* Decodes a manifest of unknown origin; writes *out only on success. */
int
cadre_manifest_decode(const char *file, const char *text, size_t size_bytes, cadre_manifest_t *out)
{
    if (size_bytes > CADRE_MANIFEST_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%s has %zu bytes, more than %d", file, size_bytes,
                          CADRE_MANIFEST_SIZE_MAX);
    }

    json_error_t error;
    decoder_t decoder = {.file = file};
    bool by_lines = find_lines(text, size_bytes, &decoder);
    cadre_auto(release) json_t *root =
        by_lines ? load_head(text, decoder.lines, &error)
                 : json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        return cadre_fail(CADRE_EMALFORMED, "%s:%d:%d: %s", file, error.line, error.column,
                          error.text);
    }

    int status = decode_schema(&decoder, root);
    if (status != 0) {
        return status;
    }
    status = check_hash(file, text, size_bytes);
    if (status != 0) {
        return status;
    }

    cadre_manifest_t manifest = {0};
    decode_root(&decoder, root, &manifest);
    if (decoder.status != 0) {
        cadre_manifest_fini(&manifest);
        return decoder.status;
    }

    *out = manifest;
    return 0;
}

/* Reads and decodes the manifest in an open directory; `directory` is for error texts. */
int
cadre_manifest_read(int directory_fd, const char *directory, cadre_manifest_t *out)
{
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", directory, CADRE_MANIFEST_FILE_NAME);
    cadre_auto(cadre_free) char *text = NULL;
    size_t size_bytes = 0;
    int status = cadre_disk_read(directory_fd, CADRE_MANIFEST_FILE_NAME, path,
                                 CADRE_MANIFEST_SIZE_MAX, &text, &size_bytes);
    return status == 0 ? cadre_manifest_decode(path, text, size_bytes, out) : status;
}
