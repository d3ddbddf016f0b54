#include "common/spec/data_column.h"

#include <cadre/program.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

enum { QUOTED_SIZE_MAX = 64 /* bytes of a key that an error text repeats */ };

static int
refuse(const char *key, const char *wanted)
{
    return cadre_fail(CADRE_ECONFIG, "key \"%s\" must be %s", key, wanted);
}

/* Reads a name that is not empty, or a number from 0; false when it is neither. */
static bool
read_place(const json_t *value, cadre_data_column_t *column)
{
    if (json_is_integer(value)) {
        column->index = json_integer_value(value);
        return column->index >= 0 && column->index <= CADRE_DATA_COLUMN_MAX;
    }
    const char *text = json_string_value(value);
    if (!text || !*text) {
        return false;
    }
    free(column->name);
    column->name = cadre_strdup(text);
    return true;
}

static int
set_column(const char *key, const json_t *value, cadre_data_column_t *column)
{
    return read_place(value, column) ? 0 : refuse(key, "its name, or its number from 0");
}

/* Reads an integer between `least` and `most`, both allowed. */
static int
integer_between(const char *key, const json_t *value, const int64_t bounds[2], int64_t *out)
{
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < bounds[0] || number > bounds[1]) {
        return cadre_fail(CADRE_ECONFIG,
                          "key \"%s\" must be a whole number from %" PRId64 " to %" PRId64, key,
                          bounds[0], bounds[1]);
    }
    *out = number;
    return 0;
}

static int
set_hash(const char *key, const json_t *value, cadre_data_column_t *column)
{
    return integer_between(key, value, (int64_t[]){2, CADRE_DATA_BUCKETS_MAX}, &column->buckets);
}

static int
set_hash_seed(const char *key, const json_t *value, cadre_data_column_t *column)
{
    return integer_between(key, value, (int64_t[]){0, INT64_MAX}, &column->hash_seed);
}

static int
set_key(const char *key, const json_t *value, cadre_data_column_t *column)
{
    static const char *const words[] = {
#define ROW(NAME, word) [CADRE_DATA_KEY_##NAME] = #word,
        CADRE_DATA_KEY_LIST(ROW)
#undef ROW
    };
    const char *text = json_string_value(value);
    for (size_t i = 1; text && i < CADRE_COUNT_OF(words); i++) {
        if (strcmp(words[i], text) == 0) {
            column->key = (cadre_data_key_t)i;
            return 0;
        }
    }
    return refuse(key, "\"id\" or \"word\"");
}

static int
set_items(const char *key, const json_t *value, cadre_data_column_t *column)
{
    return integer_between(key, value, (int64_t[]){1, CADRE_DATA_ITEMS_MAX}, &column->items);
}

/* Reads "separator": no character that may be in a number, nor a quote. */
static int
set_separator(const char *key, const json_t *value, cadre_data_column_t *column)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 1 || !strchr("|;,:/& ", *text)) {
        return refuse(key, "one of \"|\", \";\", \",\", \":\", \"/\", \"&\" or \" \"");
    }
    column->separator = *text;
    return 0;
}

static int
set_weights(const char *key, const json_t *value, cadre_data_column_t *column)
{
    if (!json_is_boolean(value)) {
        return refuse(key, "true or false");
    }
    column->is_weighted = json_is_true(value);
    return 0;
}

static const struct {
    const char *key;
    int (*set)(const char *key, const json_t *value, cadre_data_column_t *column);
} settings[] = {
    {"column", set_column},   {"hash", set_hash},   {"hash_seed", set_hash_seed},
    {"key", set_key},         {"items", set_items}, {"separator", set_separator},
    {"weights", set_weights},
};

static int
set(const char *key, const json_t *value, cadre_data_column_t *column)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (strcmp(settings[i].key, key) == 0) {
            return settings[i].set(key, value, column);
        }
    }
    return cadre_fail(CADRE_ECONFIG, "unknown key \"%.*s\"", QUOTED_SIZE_MAX, key);
}

/* Checks the keys that go together, and gives a bag its separator. */
static int
complete(const json_t *object, cadre_data_column_t *column)
{
    if (!json_object_get(object, "column")) {
        return cadre_fail(CADRE_ECONFIG, "key \"column\" is missing: its "
                                         "name, or its number from 0");
    }
    if (column->key != CADRE_DATA_KEY_NONE && column->buckets > 0) {
        return cadre_fail(CADRE_ECONFIG, "keys \"hash\" and \"key\" do not go together: a key has "
                                         "all 64 bits of the hash");
    }
    if (column->hash_seed > 0 && column->buckets == 0 && column->key != CADRE_DATA_KEY_WORD) {
        return cadre_fail(CADRE_ECONFIG,
                          "key \"hash_seed\" goes with \"hash\", or \"key\" \"word\", only");
    }
    if (column->items == 0 && (column->separator || column->is_weighted)) {
        return cadre_fail(CADRE_ECONFIG,
                          "key \"%s\" goes with \"items\" only: how many of "
                          "them a row has at most",
                          column->separator ? "separator" : "weights");
    }
    if (column->is_weighted && column->separator == ':') {
        return cadre_fail(CADRE_ECONFIG, "key \"separator\" must be none that "
                                         "\"weights\" have, a colon");
    }
    if (column->items > 0 && !column->separator) {
        column->separator = CADRE_DATA_SEPARATOR;
    }
    return 0;
}

int
cadre_data_column_read(const json_t *value, cadre_data_column_t *out)
{
    cadre_data_column_t column = {0};
    int status = 0;
    if (json_is_object(value)) {
        const char *key = NULL;
        json_t *member = NULL;
        json_object_foreach((json_t *)value, key, member)
        {
            status = status < 0 ? status : set(key, member, &column);
        }
        status = status < 0 ? status : complete(value, &column);
    } else if (!read_place(value, &column)) {
        status = cadre_fail(CADRE_ECONFIG, "it must be the name of a column, its number from 0, or "
                                           "an object with \"column\"");
    }
    if (status < 0) {
        cadre_data_column_fini(&column);
        return status;
    }
    *out = column;
    return 0;
}

void
cadre_data_column_fini(cadre_data_column_t *self)
{
    free(self->name);
    *self = (cadre_data_column_t){0};
}

int64_t
cadre_data_column_id_width(const cadre_data_column_t *self)
{
    return self->key == CADRE_DATA_KEY_NONE ? 1 : CADRE_KEY_PARTS;
}

int64_t
cadre_data_column_width(const cadre_data_column_t *self)
{
    const int64_t id = cadre_data_column_id_width(self);
    return self->items > 0 ? (id + 1) * self->items : id;
}

bool
cadre_data_column_has_words(const cadre_data_column_t *self)
{
    return self->items > 0 || self->buckets > 0 || self->key != CADRE_DATA_KEY_NONE;
}

void
cadre_data_column_write_key(uint64_t key, float *x)
{
    const uint64_t mask = (UINT64_C(1) << CADRE_KEY_BITS) - 1;
    for (int i = 0; i < CADRE_KEY_PARTS; i++) {
        x[i] = (float)(key & mask);
        key >>= CADRE_KEY_BITS;
    }
}
