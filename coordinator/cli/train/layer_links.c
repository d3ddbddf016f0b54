#include "coordinator/cli/train/layer_links.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/spec/data_spec.h"
#include "coordinator/cli/train/layer_words.h"
#include "coordinator/cli/train/suggest.h"

enum { POINTER_SIZE = 96, LIST_MAX = 128 };

static const char row_name[] = "input";

/* The list of layers while layer number `at` is read; those before it have been read. */
typedef struct {
    const cadre_json_source_t *source;
    cadre_layer_t *list;
    size_t at;
    char pointer[POINTER_SIZE]; /* JSON pointer of layer `at`, for messages */
} links_t;

/* Writes the JSON pointer of a key of the layer, or of entry `entry` of the key's array unless that
 * is -1, into `place`, and returns it. */
static const char *
place_of(const links_t *self, const char *key, int entry, char place[POINTER_SIZE])
{
    if (entry < 0) {
        snprintf(place, POINTER_SIZE, "%s/%s", self->pointer, key);
    } else {
        snprintf(place, POINTER_SIZE, "%s/%s/%d", self->pointer, key, entry);
    }
    return place;
}

/* Fails with CADRE_ECONFIG at `place`; the text is the name of the field, then `what`. */
static int
refuse(const links_t *self, const char *place, const char *what)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(place);
    return cadre_json_source_fail(self->source, place, CADRE_JSON_VALUE, "%s %s", field, what);
}

/* Returns whether a layer of this type has several inputs. */
static bool
is_joined(cadre_layer_type_t type)
{
    return type == CADRE_LAYER_ADD || type == CADRE_LAYER_CONCAT || type == CADRE_LAYER_INTERACTION;
}

/* ---- names ---- */

static bool
is_name(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t length = strlen(text);
    return length > 0 && length < CADRE_LAYER_NAME_SIZE && strspn(text, allowed) == length;
}

enum { NO_LAYER = -2 }; /* beside CADRE_LAYER_ROW, which is -1 */

/* Finds the layer of that name before this one: its number, CADRE_LAYER_ROW for the row, or
 * NO_LAYER. */
static int
find(const links_t *self, const char *name)
{
    if (strcmp(name, row_name) == 0) {
        return CADRE_LAYER_ROW;
    }
    for (size_t i = 0; i < self->at; i++) {
        if (strcmp(self->list[i].name, name) == 0) {
            return (int)i;
        }
    }
    return NO_LAYER;
}

/* Reads the name of a layer, by which later layers take its output; it must be new. */
static int
read_name(const links_t *self, const json_t *value)
{
    char place[POINTER_SIZE];
    place_of(self, "name", -1, place);
    const char *name = json_string_value(value);
    if (!name || !is_name(name)) {
        return refuse(self, place, "must be 1 to 31 letters, digits, \"_\", \"-\" or \".\"");
    }
    if (strcmp(name, row_name) == 0) {
        return refuse(self, place, "is \"input\", which is the row itself");
    }
    if (find(self, name) >= 0) {
        return refuse(self, place, "is the name of an earlier layer");
    }
    snprintf(self->list[self->at].name, CADRE_LAYER_NAME_SIZE, "%s", name);
    return 0;
}

/* ---- from ---- */

/* Fails because no earlier layer has the name; suggests the nearest name that one has. */
static int
refuse_name(const links_t *self, const char *place, const char *name)
{
    const char *known[LIST_MAX + 1] = {row_name};
    for (size_t i = 0; i < self->at; i++) {
        known[i + 1] = self->list[i].name[0] ? self->list[i].name : NULL;
    }
    cadre_auto(cadre_free) char *hint = cadre_suggest_text(name, known, self->at + 1);
    cadre_auto(cadre_free) char *field = cadre_json_source_field(place);
    return cadre_json_source_fail(self->source, place, CADRE_JSON_VALUE,
                                  "%s: no layer before it has the name \"%.64s\"%s", field, name,
                                  hint);
}

/* Reads one name in "from": adds the layer of that name, or the row, to the inputs of this layer.
 * `entry`: index of the name in an array; -1: there is no array. */
static int
read_source(const links_t *self, const json_t *value, int entry)
{
    char place[POINTER_SIZE];
    place_of(self, "from", entry, place);
    const char *name = json_string_value(value);
    if (!name) {
        return refuse(self, place, "must be the name of a layer before it, or \"input\"");
    }

    int number = find(self, name);
    if (number == NO_LAYER) {
        return refuse_name(self, place, name);
    }

    cadre_layer_t *layer = &self->list[self->at];
    layer->from[layer->from_count++] = number;
    return 0;
}

/* Reads "from", the inputs of the layer: several names in an array for add, concat and
 * interaction, one for others. */
static int
read_from(const links_t *self, const json_t *value)
{
    char place[POINTER_SIZE];
    place_of(self, "from", -1, place);
    cadre_layer_type_t type = self->list[self->at].type;
    size_t count = json_array_size(value);
    if (is_joined(type) && (count < 2 || count > CADRE_LAYER_FROM_MAX)) {
        return refuse(self, place, "must be an array of 2 to 32 names such as [\"a\", \"b\"]");
    }
    if (!is_joined(type) && json_is_array(value) && count != 1) {
        return refuse(self, place,
                      "must be one name: only add, concat and interaction take several");
    }
    if (!json_is_array(value)) {
        return read_source(self, value, -1);
    }

    for (size_t i = 0; i < count; i++) {
        int status = read_source(self, json_array_get(value, i), (int)i);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* ---- columns ---- */

/* The numbers of a row that a column is. */
typedef struct {
    int64_t first;
    int64_t width;
    bool is_bag;   /* ids and then their weights */
    bool has_keys; /* its ids are keys */
} numbers_t;

/* Finds the column of data.train with this name, and returns whether there is one. */
static bool
find_column(const links_t *self, const char *name, numbers_t *out)
{
    const json_t *train = json_object_get(json_object_get(self->source->root, "data"), "train");
    const json_t *columns = json_object_get(train, "columns");
    *out = (numbers_t){0};
    for (size_t i = 0; i < json_array_size(columns); i++) {
        cadre_auto(cadre_data_column_fini) cadre_data_column_t column = {0};
        if (cadre_data_column_read(json_array_get(columns, i), &column) < 0) {
            return false; /* the reader of data.train says why */
        }
        out->width = cadre_data_column_width(&column);
        out->is_bag = column.items > 0;
        out->has_keys = column.key != CADRE_DATA_KEY_NONE;
        if (column.name && strcmp(column.name, name) == 0) {
            return true;
        }
        out->first += out->width;
    }
    return false;
}

/* Reads the name of a column, which must be the next behind those that the layer takes. */
static int
read_column(const links_t *self, const json_t *value, int entry)
{
    char place[POINTER_SIZE];
    place_of(self, "columns", entry, place);
    cadre_layer_t *layer = &self->list[self->at];
    const char *name = json_string_value(value);
    numbers_t column;
    if (!name || !find_column(self, name, &column)) {
        return refuse(self, place, "must be the name of a column in data.train.columns");
    }
    if (column.is_bag && layer->type == CADRE_LAYER_EMBEDDING) {
        return refuse(self, place,
                      "is a column with \"items\", ids and their weights, which a layer of type "
                      "embedding_bag takes");
    }
    if (column.has_keys != layer->keys) {
        return refuse(self, place,
                      column.has_keys
                          ? "is a column with \"key\", three numbers for each id, which a "
                            "layer with \"table\" and \"keys\": true takes"
                          : "is no column with \"key\", as the \"keys\" of the layer are");
    }
    if (layer->column_count > 0 && column.first != layer->first_column + layer->column_count) {
        return refuse(self, place,
                      "must be the column that data.train.columns has behind the one before it: a "
                      "layer takes numbers that are side by side in a row");
    }
    layer->first_column = layer->column_count > 0 ? layer->first_column : column.first;
    layer->column_count += column.width;
    return 0;
}

/* Reads "columns", which numbers of the row are the input of the layer: [first, count], or names of
 * columns that are side by side. */
static int
read_columns(const links_t *self, const json_t *value)
{
    char place[POINTER_SIZE];
    place_of(self, "columns", -1, place);
    cadre_layer_t *layer = &self->list[self->at];
    if (json_is_string(value)) {
        return read_column(self, value, -1);
    }
    if (json_is_string(json_array_get(value, 0))) {
        int status = 0;
        for (size_t i = 0; i < json_array_size(value) && status == 0; i++) {
            status = read_column(self, json_array_get(value, i), (int)i);
        }
        return status;
    }

    const json_t *first = json_array_get(value, 0);
    const json_t *count = json_array_get(value, 1);
    bool numbers = json_array_size(value) == 2 && json_is_integer(first) && json_is_integer(count);
    json_int_t begin = json_integer_value(first);
    json_int_t size = json_integer_value(count);
    if (!numbers || begin < 0 || begin >= CADRE_DATA_FEATURES_MAX || size < 1 ||
        size > CADRE_DATA_FEATURES_MAX - begin) {
        return refuse(self, place,
                      "must be [first, count], such as [0, 8] for the first eight of a row, or the "
                      "names of columns");
    }
    layer->first_column = begin;
    layer->column_count = size;
    return 0;
}

/* ---- one layer, and the whole list ---- */

/* Checks that add, concat and interaction have "from", and no layer has both "from" and
 * "columns". */
static int
check_keys(const links_t *self, const json_t *object)
{
    char place[POINTER_SIZE];
    cadre_layer_type_t type = self->list[self->at].type;
    bool from = json_object_get(object, "from") != NULL;
    bool columns = json_object_get(object, "columns") != NULL;
    if (is_joined(type) && !from) {
        cadre_auto(cadre_free) char *field = cadre_json_source_field(self->pointer);
        return cadre_json_source_fail(self->source, self->pointer, CADRE_JSON_VALUE,
                                      "\"from\" is missing in %s (%s): the names of what it takes",
                                      field, cadre_layer_text(type));
    }
    if (from && columns) {
        return refuse(self, place_of(self, "columns", -1, place),
                      "and \"from\" do not go together: each says what the layer takes");
    }
    return 0;
}

/* Checks that a layer over ids which takes numbers of the row has as many ids as these can be. */
static int
check_ids(const links_t *self)
{
    const cadre_layer_t *layer = &self->list[self->at];
    const bool takes_row = layer->from_count == 1 && layer->from[0] == CADRE_LAYER_ROW;
    const bool is_first = layer->from_count == 0 && self->at == 0;
    if (!cadre_layer_takes_ids(layer->type) ||
        (layer->column_count == 0 && !takes_row && !is_first)) {
        return 0;
    }
    return cadre_layer_words_check(self->source, self->pointer, layer);
}

/* Reads the keys of one layer that say what its inputs are: name, from and columns. */
static int
read_layer(const links_t *self, const json_t *object)
{
    static const struct {
        const char *key;
        int (*read)(const links_t *self, const json_t *value);
    } keys[] = {{"name", read_name}, {"from", read_from}, {"columns", read_columns}};
    int status = check_keys(self, object);
    for (size_t i = 0; status == 0 && i < CADRE_COUNT_OF(keys); i++) {
        const json_t *value = json_object_get(object, keys[i].key);
        status = value ? keys[i].read(self, value) : 0;
    }
    return status < 0 ? status : check_ids(self);
}

/* Returns whether the output of layer `number` is an input of layer `taker`. */
static bool
takes(const cadre_layer_t *list, size_t taker, size_t number)
{
    const cadre_layer_t *layer = &list[taker];
    for (size_t i = 0; i < layer->from_count; i++) {
        if (layer->from[i] == (int)number) {
            return true;
        }
    }
    return layer->from_count == 0 && layer->column_count == 0 && taker == number + 1;
}

/* Refuses a layer, other than the last, whose output is not used: probably a name in some "from" is
 * wrong. */
static int
check_taken(const cadre_json_source_t *source, const cadre_layer_t *list, size_t count)
{
    for (size_t number = 0; number + 1 < count; number++) {
        size_t taker = number + 1;
        while (taker < count && !takes(list, taker, number)) {
            taker++;
        }
        if (taker < count) {
            continue;
        }

        char place[POINTER_SIZE];
        snprintf(place, sizeof(place), "/model/layers/%zu", number);
        return cadre_json_source_fail(source, place, CADRE_JSON_VALUE,
                                      "model.layers[%zu] (%s): no layer after it takes what it "
                                      "makes: give it a \"name\", and name it in a \"from\"",
                                      number, cadre_layer_text(list[number].type));
    }
    return 0;
}

/* Reads which inputs each layer has, in the order of the list, as a layer names only earlier
 * ones. */
int
cadre_layer_links_read(const cadre_json_source_t *source, const json_t *layers, cadre_layer_t *list,
                       size_t count)
{
    cadre_assert(count <= LIST_MAX);
    links_t self = {.source = source, .list = list};
    for (self.at = 0; self.at < count; self.at++) {
        snprintf(self.pointer, sizeof(self.pointer), "/model/layers/%zu", self.at);
        int status = read_layer(&self, json_array_get(layers, self.at));
        if (status < 0) {
            return status;
        }
    }
    return check_taken(source, list, count);
}
