#include "coordinator/cli/train/layer_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/spec/data_column.h"

enum {
    POINTER_SIZE = 96,
    CRITEO_WORDS_FIRST = 13, /* where the ids of a click log stand in its rows */
    CRITEO_WORDS = 26,
    TEXT_WORDS = 2, /* a row of a text: center and context */
};

/* Numbers of a row that are ids, of words or of items. */
typedef struct {
    const char *name; /* of the column; NULL: of a format without named ones */
    const char *key;  /* of data.train that says how many ids there are */
    int64_t first;    /* position in the row */
    int64_t count;    /* numbers that are ids */
    int64_t says;     /* what that key says */
    int64_t ids;      /* they are below it */
} words_t;

/* Fails because the layer has `has` ids, or its field `field`, if that is not -1. */
static int
refuse(const cadre_json_source_t *source, const char *pointer, int64_t field, int64_t has,
       const words_t *words)
{
    char place[POINTER_SIZE];
    if (field < 0) {
        snprintf(place, sizeof(place), "%s/ids", pointer);
    } else {
        snprintf(place, sizeof(place), "%s/fields/%" PRId64, pointer, field);
    }
    cadre_auto(cadre_free) char *name = cadre_json_source_field(place);
    cadre_auto(cadre_free) char *column =
        words->name ? cadre_asprintf("column \"%s\" of data.train has", words->name)
                    : cadre_strdup("data.train has");
    return cadre_json_source_fail(source, place, CADRE_JSON_VALUE,
                                  "%s: %" PRId64 " ids, but %s \"%s\": %" PRId64
                                  ": an id beyond would fail training; make it %" PRId64
                                  ", or let it have a \"table\"",
                                  name, has, column, words->key, words->says, words->ids);
}

/* Checks the words of one column. */
static int
check_words(const cadre_json_source_t *source, const char *pointer, const cadre_layer_t *layer,
            const words_t *words)
{
    const int64_t begin = layer->first_column;
    const int64_t end = layer->column_count > 0 ? begin + layer->column_count : INT64_MAX;
    const int64_t first = words->first > begin ? words->first : begin;
    const int64_t last = words->first + words->count < end ? words->first + words->count : end;
    if (first < last && layer->field_count == 0 && layer->ids < words->ids) {
        return refuse(source, pointer, -1, layer->ids, words);
    }
    for (int64_t i = first; i < last && i - begin < (int64_t)layer->field_count; i++) {
        if (layer->fields[i - begin] < words->ids) {
            return refuse(source, pointer, i - begin, layer->fields[i - begin], words);
        }
    }
    return 0;
}

/* Fills in which numbers of a row are ids where the format alone says so. Returns whether it does,
 * and how many there are is said. */
static bool
read_format(const json_t *train, const char *format, words_t *words)
{
    /* Of LIBSVM's items, which are indices from 1, and 0 that fills up a row; a row without them
     * has no ids. */
    const int64_t items = json_integer_value(json_object_get(train, "items"));
    const struct {
        const char *format;
        words_t words; /* ids: how many there are beside those that the key says */
    } formats[] = {
        {"criteo", {.key = "buckets", .first = CRITEO_WORDS_FIRST, .count = CRITEO_WORDS}},
        {"text", {.key = "vocabulary", .count = TEXT_WORDS}},
        {"libsvm", {.key = "features", .count = items, .ids = 1}},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(formats); i++) {
        if (strcmp(format, formats[i].format) == 0) {
            *words = formats[i].words;
            words->says = json_integer_value(json_object_get(train, words->key));
            words->ids += words->says;
            return words->says > 0;
        }
    }
    return false;
}

int
cadre_layer_words_check(const cadre_json_source_t *source, const char *pointer,
                        const cadre_layer_t *layer)
{
    const json_t *train = json_object_get(json_object_get(source->root, "data"), "train");
    const json_t *columns = json_object_get(train, "columns");
    const char *format = json_string_value(json_object_get(train, "format"));
    if (layer->table.is_table) {
        return 0;
    }
    words_t of_format = {.name = NULL};
    if (format && read_format(train, format, &of_format)) {
        return check_words(source, pointer, layer, &of_format);
    }

    int status = 0;
    int64_t first = 0;
    for (size_t i = 0; i < json_array_size(columns) && status == 0; i++) {
        cadre_auto(cadre_data_column_fini) cadre_data_column_t column = {0};
        if (cadre_data_column_read(json_array_get(columns, i), &column) < 0) {
            return 0;
        }
        char number[24];
        snprintf(number, sizeof(number), "%" PRId64, column.index);
        const words_t words = {.name = column.name ? column.name : number,
                               .key = "hash",
                               .first = first,
                               .count = column.items > 0 ? column.items : 1,
                               .says = column.buckets,
                               .ids = column.buckets};
        status = check_words(source, pointer, layer, &words);
        first += cadre_data_column_width(&column);
    }
    return status;
}
