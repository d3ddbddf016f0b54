#include "coordinator/cli/train/layer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/spec/wire_dtype.h"
#include "coordinator/cli/train/suggest.h"

enum { POINTER_SIZE = 96, COMMON_KEYS = 4 /* keys that every type of layer has */ };

#define ROW(NAME, word) #word,
static const char *const types[] = {CADRE_LAYER_LIST(ROW)};
static const char *const activations[] = {CADRE_ACTIVATION_LIST(ROW)};
static const char *const combiners[] = {CADRE_COMBINER_LIST(ROW)};
static const char *const wires[] = {CADRE_WIRE_DTYPE_LIST(ROW)};
#undef ROW

typedef enum { INTEGER, NUMBER, SWITCH, ACTIVATION, COMBINER, WIRE, SHAPE, FIELDS, TABLE } kind_t;

#define TYPE(name)   (1U << CADRE_LAYER_##name)
#define POOLS        (TYPE(MAX_POOL2D) | TYPE(MEAN_POOL2D) | TYPE(MAX_POOL1D) | TYPE(MEAN_POOL1D))
#define CONVOLUTIONS (TYPE(CONV2D) | TYPE(CONV1D))
#define RECURRENT    (TYPE(GRU) | TYPE(LSTM))
#define TABLES       (TYPE(EMBEDDING) | TYPE(EMBEDDING_BAG))
#define LOOKUPS      (TABLES | TYPE(FACTORIZATION_MACHINE)) /* layers over ids */
/* The types that have weights: l1 and l2 penalise these. */
#define WEIGHTS                                                                                    \
    (TYPE(DENSE) | CONVOLUTIONS | TYPE(TRANSFORMER) | RECURRENT | TYPE(FACTORIZATION_MACHINE))
#define VARIABLES                                                                                  \
    (TYPE(DENSE) | CONVOLUTIONS | TYPE(LAYER_NORM) | TYPE(BATCH_NORM) | TYPE(POSITIONS) |          \
     TYPE(TRANSFORMER) | LOOKUPS | RECURRENT)
#define AT(field) offsetof(cadre_layer_t, field)

static const struct {
    const char *key;
    unsigned types; /* bit set of the layer types that have this key */
    kind_t kind;
    bool required;
    double low; /* the range of its values, both ends included */
    double high;
    double initial; /* value where the job file does not have the key */
    size_t offset;  /* of the field of cadre_layer_t */
} keys[] = {
    {"units", TYPE(DENSE) | RECURRENT, INTEGER, true, 1, CADRE_LAYER_WIDTH_MAX, 0, AT(units)},
    {"ids", LOOKUPS, INTEGER, false, 1, CADRE_LAYER_IDS_MAX, 0, AT(ids)},
    {"fields", LOOKUPS, FIELDS, false, 1, CADRE_LAYER_IDS_MAX, 0, AT(fields)},
    {"table", LOOKUPS, TABLE, false, 0, 0, 0, AT(table)},
    {"keys", LOOKUPS, SWITCH, false, 0, 0, 0, AT(keys)},
    {"factors", TYPE(FACTORIZATION_MACHINE), INTEGER, false, 1, CADRE_LAYER_WIDTH_MAX,
     CADRE_LAYER_FACTORS, AT(units)},
    {"linear", TYPE(FACTORIZATION_MACHINE), SWITCH, false, 0, 0, 1, AT(linear)},
    {"units", TABLES, INTEGER, true, 1, CADRE_LAYER_WIDTH_MAX, 0, AT(units)},
    {"units", TYPE(TRANSFORMER), INTEGER, false, 1, CADRE_LAYER_WIDTH_MAX, 0, AT(units)},
    {"filters", CONVOLUTIONS, INTEGER, true, 1, CADRE_LAYER_WIDTH_MAX, 0, AT(units)},
    {"kernel", CONVOLUTIONS, INTEGER, false, 1, CADRE_LAYER_WINDOW_MAX, 3, AT(size)},
    {"size", POOLS, INTEGER, false, 1, CADRE_LAYER_WINDOW_MAX, 2, AT(size)},
    {"stride", CONVOLUTIONS, INTEGER, false, 1, CADRE_LAYER_WINDOW_MAX, 1, AT(stride)},
    {"stride", POOLS, INTEGER, false, 1, CADRE_LAYER_WINDOW_MAX, 0, AT(stride)},
    {"padding", CONVOLUTIONS, INTEGER, false, 0, CADRE_LAYER_WINDOW_MAX, 0, AT(padding)},
    {"heads", TYPE(TRANSFORMER), INTEGER, false, 1, CADRE_LAYER_WINDOW_MAX, 1, AT(heads)},
    {"causal", TYPE(TRANSFORMER) | TYPE(CONV1D), SWITCH, false, 0, 0, 0, AT(causal)},
    {"return_sequences", RECURRENT, SWITCH, false, 0, 0, 0, AT(sequences)},
    {"rate", TYPE(DROPOUT), NUMBER, true, 0, 0.99, 0, AT(rate)},
    {"dropout", TYPE(TRANSFORMER), NUMBER, false, 0, 0.99, 0, AT(rate)},
    {"activation", TYPE(DENSE) | CONVOLUTIONS, ACTIVATION, false, 0, 0, CADRE_ACTIVATION_NONE,
     AT(activation)},
    {"activation", TYPE(ACTIVATION), ACTIVATION, true, 0, 0, CADRE_ACTIVATION_NONE, AT(activation)},
    {"activation", TYPE(TRANSFORMER), ACTIVATION, false, 0, 0, CADRE_ACTIVATION_GELU,
     AT(activation)},
    {"combiner", TYPE(EMBEDDING_BAG), COMBINER, false, 0, 0, CADRE_COMBINER_SUM, AT(combiner)},
    {"shape", TYPE(RESHAPE), SHAPE, true, 1, CADRE_LAYER_WIDTH_MAX, 0, AT(shape)},
    {"trainable", VARIABLES, SWITCH, false, 0, 0, 1, AT(trainable)},
    {"l1", WEIGHTS, NUMBER, false, 0, CADRE_LAYER_PENALTY_MAX, -1, AT(l1)},
    {"l2", WEIGHTS, NUMBER, false, 0, CADRE_LAYER_PENALTY_MAX, -1, AT(l2)},
    {"wire", VARIABLES, WIRE, false, 0, 0, 0, AT(wire)},
};

const char *
cadre_layer_text(cadre_layer_type_t type)
{
    return types[type];
}

int
cadre_layer_rank(cadre_layer_type_t type)
{
    switch (type) {
    case CADRE_LAYER_CONV2D:
    case CADRE_LAYER_MAX_POOL2D:
    case CADRE_LAYER_MEAN_POOL2D:
        return 4;
    case CADRE_LAYER_TRANSFORMER:
    case CADRE_LAYER_CONV1D:
    case CADRE_LAYER_MAX_POOL1D:
    case CADRE_LAYER_MEAN_POOL1D:
    case CADRE_LAYER_GRU:
    case CADRE_LAYER_LSTM:
        return 3;
    case CADRE_LAYER_DENSE:
    case CADRE_LAYER_FLATTEN:
    case CADRE_LAYER_MEAN:
    case CADRE_LAYER_ACTIVATION:
    case CADRE_LAYER_DROPOUT:
    case CADRE_LAYER_LAYER_NORM:
    case CADRE_LAYER_BATCH_NORM:
    case CADRE_LAYER_POSITIONS:
    case CADRE_LAYER_EMBEDDING:
    case CADRE_LAYER_RESHAPE:
    case CADRE_LAYER_ADD:
    case CADRE_LAYER_CONCAT:
    case CADRE_LAYER_EMBEDDING_BAG:
    case CADRE_LAYER_FACTORIZATION_MACHINE:
    case CADRE_LAYER_INTERACTION:
        return 0;
    }

    return 0;
}

bool
cadre_layer_takes_ids(cadre_layer_type_t type)
{
    return ((1U << type) & LOOKUPS) != 0;
}

/* Stores a value into the field of the layer that the key with this number has. */
static void
store(cadre_layer_t *layer, size_t number, double value)
{
    char *place = (char *)layer + keys[number].offset;
    switch (keys[number].kind) {
    case INTEGER:
    case ACTIVATION:
    case COMBINER:
    case WIRE:
    case SHAPE: /* of an array its first number; 0 as a default */
    case FIELDS:
        *(int64_t *)(void *)place = (int64_t)value;
        return;
    case NUMBER:
        *(double *)(void *)place = value;
        return;
    case SWITCH:
        *(bool *)place = value != 0;
        return;
    case TABLE: /* none, as a default */
        return;
    }
}

/* Returns a layer of the type whose fields have the defaults of its keys. */
cadre_layer_t
cadre_layer_of(cadre_layer_type_t type)
{
    cadre_layer_t layer = {.type = type, .activation = CADRE_ACTIVATION_NONE};
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        if (keys[i].types & (1U << type)) {
            store(&layer, i, keys[i].initial);
        }
    }
    return layer;
}

int64_t
cadre_layer_ids(const cadre_layer_t *layer)
{
    int64_t ids = layer->ids;
    for (size_t i = 0; i < layer->field_count; i++) {
        ids += layer->fields[i];
    }
    return ids;
}

int64_t
cadre_layer_id_width(const cadre_layer_t *layer)
{
    return layer->keys ? CADRE_KEY_PARTS : 1;
}

int64_t
cadre_layer_shape_size(const cadre_layer_t *layer)
{
    int64_t size = 1;
    for (size_t i = 0; i < CADRE_LAYER_AXES_MAX && layer->shape[i] > 0; i++) {
        size *= layer->shape[i]; /* at most 2^60 */
    }
    return size;
}

/* Returns the position of `value` in `words`; else fails with a text that lists the words and
 * suggests the nearest. */
static int
find_word(const cadre_json_source_t *source, const char *pointer, const json_t *value,
          const char *const *words, size_t count)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    const char *word = json_string_value(value);
    if (!word) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s must be a string, not %s", field,
                                      cadre_json_type_text(value));
    }

    char list[256] = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            return (int)i;
        }
        strncat(list, i ? "|" : "", sizeof(list) - strlen(list) - 1);
        strncat(list, words[i], sizeof(list) - strlen(list) - 1);
    }

    cadre_auto(cadre_free) char *hint = cadre_suggest_text(word, words, count);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                  "%s: \"%.64s\" is none of %s%s", field, word, list, hint);
}

/* Returns whether the JSON value is of the type that a key of this kind takes: INTEGER, NUMBER or,
 * for SWITCH, true or false. */
static bool
has_type(const json_t *value, kind_t kind)
{
    switch (kind) {
    case INTEGER:
        return json_is_integer(value);
    case NUMBER:
        return json_is_number(value);
    default:
        return json_is_boolean(value);
    }
}

/* Reads the shape of a reshape: 1 to CADRE_LAYER_AXES_MAX sizes of axes. */
static int
read_shape(const cadre_json_source_t *source, const char *pointer, const json_t *array,
           cadre_layer_t *layer)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    size_t count = json_array_size(array);
    bool sound = count >= 1 && count <= CADRE_LAYER_AXES_MAX;
    for (size_t i = 0; sound && i < count; i++) {
        const json_t *size = json_array_get(array, i);
        layer->shape[i] = json_integer_value(size);
        sound = json_is_integer(size) && layer->shape[i] >= 1 &&
                layer->shape[i] <= CADRE_LAYER_WIDTH_MAX;
    }
    if (!sound) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s must be an array of 1 to %d whole numbers in 1 to %d, "
                                      "such as [8, 8, 1]",
                                      field, CADRE_LAYER_AXES_MAX, CADRE_LAYER_WIDTH_MAX);
    }
    return 0;
}

/* Reads how many columns of keys a layer over a table has. */
static int
read_columns(const cadre_json_source_t *source, const char *pointer, const json_t *value,
             cadre_layer_t *layer)
{
    const json_int_t count = json_integer_value(value);
    if (count < 1 || count > CADRE_LAYER_FIELDS_MAX) {
        cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s: %lld columns, not 1 to %d", field, (long long)count,
                                      CADRE_LAYER_FIELDS_MAX);
    }
    layer->field_count = (size_t)count;
    for (size_t i = 0; i < layer->field_count; i++) {
        layer->fields[i] = CADRE_LAYER_IDS_MAX;
    }
    return 0;
}

/* Reads the numbers of ids of the fields of a layer, which are at most CADRE_LAYER_IDS_MAX
 * together; or how many columns there are, where they are keys of a table. */
int
cadre_layer_read_fields(const cadre_json_source_t *source, const char *pointer, const json_t *array,
                        cadre_layer_t *layer)
{
    if (json_is_integer(array)) {
        return read_columns(source, pointer, array, layer);
    }

    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    size_t count = json_array_size(array);
    bool sound = count >= 1 && count <= CADRE_LAYER_FIELDS_MAX;
    int64_t left = CADRE_LAYER_IDS_MAX;
    for (size_t i = 0; sound && i < count; i++) {
        const json_t *ids = json_array_get(array, i);
        layer->fields[i] = json_integer_value(ids);
        sound = json_is_integer(ids) && layer->fields[i] >= 1 && layer->fields[i] <= left;
        left -= sound ? layer->fields[i] : 0;
    }
    if (!sound) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s must be an array of 1 to %d whole numbers from 1 on, %d "
                                      "at most together, such as [944, 1683]",
                                      field, CADRE_LAYER_FIELDS_MAX, CADRE_LAYER_IDS_MAX);
    }
    layer->field_count = count;
    return 0;
}

/* Reads the value of the key with this number into the layer; fails, at its place in the file, if
 * the value is of the wrong type, no known word or out of range. */
static int
read_value(const cadre_json_source_t *source, const char *pointer, size_t number,
           const json_t *value, cadre_layer_t *layer)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    kind_t kind = keys[number].kind;
    if (kind == ACTIVATION || kind == COMBINER) {
        const bool is_combiner = kind == COMBINER;
        int word = find_word(source, pointer, value, is_combiner ? combiners : activations,
                             is_combiner ? CADRE_COUNT_OF(combiners) : CADRE_COUNT_OF(activations));
        if (word < 0) {
            return word;
        }
        store(layer, number, word);
        return 0;
    }

    if (kind == WIRE) {
        int word = find_word(source, pointer, value, wires, CADRE_COUNT_OF(wires));
        if (word < 0) {
            return word;
        }
        store(layer, number, (double)cadre_wire_dtype_at(word));
        return 0;
    }

    if (kind == SHAPE) {
        return read_shape(source, pointer, value, layer);
    }

    if (kind == FIELDS) {
        return cadre_layer_read_fields(source, pointer, value, layer);
    }

    if (kind == TABLE) {
        return cadre_layer_table_read(source, pointer, value, &layer->table);
    }

    if (!has_type(value, kind)) {
        static const char *const wanted[] = {"a whole number", "a number", "true or false"};
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s must be %s, not %s",
                                      field, wanted[kind], cadre_json_type_text(value));
    }

    double amount = kind == SWITCH ? (double)json_is_true(value) : json_number_value(value);
    if (kind != SWITCH && !(amount >= keys[number].low && amount <= keys[number].high)) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s: %.15g is not in %.15g to %.15g", field, amount,
                                      keys[number].low, keys[number].high);
    }

    store(layer, number, amount);
    return 0;
}

/* Checks the padding of a convolution; fails at its place in the file. */
static int
check_padding(const cadre_json_source_t *source, const char *pointer, const cadre_layer_t *layer)
{
    char place[POINTER_SIZE];
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    snprintf(place, sizeof(place), "%s/padding", pointer);
    if (!((1U << layer->type) & CONVOLUTIONS)) {
        return 0;
    }

    if (layer->padding >= layer->size) {
        return cadre_json_source_fail(source, place, CADRE_JSON_VALUE,
                                      "%s.padding: %lld is not below the kernel, %lld", field,
                                      (long long)layer->padding, (long long)layer->size);
    }

    if (layer->causal && layer->padding > 0) {
        return cadre_json_source_fail(source, place, CADRE_JSON_VALUE,
                                      "%s.padding: a causal layer pads by itself", field);
    }

    return 0;
}

/* Checks that a layer over a table does not say how many ids there are, and that its rows are of a
 * width that programs can look up. */
static int
check_table(const cadre_json_source_t *source, const char *pointer, const json_t *object,
            const cadre_layer_t *layer)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    const bool counts = json_is_integer(json_object_get(object, "fields"));
    if (counts && !layer->table.is_table) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "\"fields\" in %s (%s) is an array of how many ids each "
                                      "column has, such as [944, 1683], but with \"table\"",
                                      field, types[layer->type]);
    }
    if (layer->keys && !layer->table.is_table) {
        return cadre_json_source_fail(
            source, pointer, CADRE_JSON_VALUE,
            "\"keys\" in %s (%s): only a \"table\" has rows by keys of 64 "
            "bits",
            field, types[layer->type]);
    }
    if (!layer->table.is_table) {
        return 0;
    }
    if (layer->ids > 0 || (layer->field_count > 0 && !counts)) {
        return cadre_json_source_fail(
            source, pointer, CADRE_JSON_VALUE,
            "\"table\" in %s (%s): a table has rows for any ids: it takes "
            "no \"ids\", and of \"fields\" how many columns there are",
            field, types[layer->type]);
    }
    return layer->units <= CADRE_LAYER_TABLE_UNITS
               ? 0
               : cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                        "%s (%s): rows of %lld numbers, a table has at most %d",
                                        field, types[layer->type], (long long)layer->units,
                                        CADRE_LAYER_TABLE_UNITS);
}

/* Checks that nothing penalises weights that are not trained. */
static int
check_penalties(const cadre_json_source_t *source, const char *pointer, const cadre_layer_t *layer)
{
    if (layer->trainable || (layer->l1 <= 0 && layer->l2 <= 0)) {
        return 0;
    }
    char place[POINTER_SIZE];
    const char *key = layer->l1 > 0 ? "l1" : "l2";
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    snprintf(place, sizeof(place), "%s/%s", pointer, key);
    return cadre_json_source_fail(source, place, CADRE_JSON_VALUE,
                                  "%s.%s: with \"trainable\": false weights stay as they are, and "
                                  "have no penalty",
                                  field, key);
}

/* Checks that a layer over ids has either "ids" or "fields", or a table. */
static int
check_ids(const cadre_json_source_t *source, const char *pointer, const cadre_layer_t *layer)
{
    if (!((1U << layer->type) & LOOKUPS) || layer->table.is_table ||
        (layer->ids > 0) != (layer->field_count > 0)) {
        return 0;
    }
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                  layer->ids > 0 ? "\"ids\" and \"fields\" in %s (%s) do not go "
                                                   "together: each says which ids there are"
                                                 : "\"ids\" is missing in %s (%s), or \"fields\"",
                                  field, types[layer->type]);
}

/* Reads the type of the layer at `pointer`, then the keys that a layer of this type has. A key that
 * it has not is refused, a required one may not be missing. */
int
cadre_layer_read(const cadre_json_source_t *source, const char *pointer, const json_t *object,
                 cadre_layer_t *layer)
{
    char place[POINTER_SIZE];
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    const json_t *type_value = json_object_get(object, "type");
    if (!type_value) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s: a layer is an object with a \"type\"", field);
    }

    snprintf(place, sizeof(place), "%s/type", pointer);
    int type = find_word(source, place, type_value, types, CADRE_COUNT_OF(types));
    if (type < 0) {
        return type;
    }

    const char *known[COMMON_KEYS + CADRE_COUNT_OF(keys)] = {"type", "name", "from", "columns"};
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        known[COMMON_KEYS + i] = keys[i].types & (1U << type) ? keys[i].key : NULL;
    }

    int status =
        cadre_json_source_check_keys(source, pointer, object, known, CADRE_COUNT_OF(known));
    if (status < 0) {
        return status;
    }

    /* The caller's layer is changed only now that all keys are good. */
    cadre_layer_t read = cadre_layer_of((cadre_layer_type_t)type);
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        const char *key = known[COMMON_KEYS + i];
        const json_t *value = key ? json_object_get(object, key) : NULL;
        if (!value && key && keys[i].required) {
            return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                          "\"%s\" is missing in %s (%s)", keys[i].key, field,
                                          types[type]);
        }

        if (!value) {
            continue;
        }

        snprintf(place, sizeof(place), "%s/%s", pointer, keys[i].key);
        status = read_value(source, place, i, value, &read);
        if (status < 0) {
            return status;
        }
    }

    status = check_padding(source, pointer, &read);
    if (status < 0) {
        return status;
    }

    status = check_table(source, pointer, object, &read);
    if (status < 0) {
        return status;
    }

    status = check_penalties(source, pointer, &read);
    if (status < 0) {
        return status;
    }

    status = check_ids(source, pointer, &read);
    if (status < 0) {
        return status;
    }

    *layer = read;
    return 0;
}
