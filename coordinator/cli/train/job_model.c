#include "coordinator/cli/train/job_model.h"

#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/spec/data_spec.h"
#include "coordinator/cli/train/candidates.h"
#include "coordinator/cli/train/layer_links.h"
#include "coordinator/cli/train/layer_words.h"

enum { POINTER_SIZE = 64 };

#define TYPE(name) (1U << CADRE_MODEL_##name)
#define OVER_ITEMS (TYPE(LINEAR) | TYPE(LOGISTIC) | TYPE(FACTORIZATION_MACHINE))

/* Which keys each type of model has; "l2" and "wire" are keys of all types. */
static const struct {
    const char *key;
    unsigned types;
    unsigned required;
    const char *why;
} keys[] = {
    {"hidden", TYPE(MLP) | TYPE(CNN), TYPE(MLP), "an mlp has hidden layers"},
    {"activation", TYPE(MLP) | TYPE(CNN), 0, NULL},
    {"dropout", TYPE(MLP) | TYPE(CNN) | TYPE(TRANSFORMER), 0, NULL},
    {"input", TYPE(CNN) | TYPE(TRANSFORMER) | TYPE(LAYERS), TYPE(CNN) | TYPE(TRANSFORMER),
     "the shape of one row, such as [28, 28, 1]"},
    {"filters", TYPE(CNN), TYPE(CNN), "a cnn has convolutions, such as [16, 32]"},
    {"kernel", TYPE(CNN), 0, NULL},
    {"width", TYPE(TRANSFORMER), 0, NULL},
    {"heads", TYPE(TRANSFORMER), 0, NULL},
    {"blocks", TYPE(TRANSFORMER), 0, NULL},
    {"layers", TYPE(LAYERS), TYPE(LAYERS), "what the model consists of"},
    {"ids", OVER_ITEMS, 0, NULL},
    {"fields", OVER_ITEMS, 0, NULL},
    {"table", OVER_ITEMS, 0, NULL},
    {"keys", OVER_ITEMS, 0, NULL},
    {"factors", TYPE(FACTORIZATION_MACHINE), 0, NULL},
    {"linear", TYPE(FACTORIZATION_MACHINE), 0, NULL},
    {"softmax", TYPE(MLP) | TYPE(CNN) | TYPE(TRANSFORMER) | TYPE(LAYERS), 0, NULL},
};

#define ROW(NAME, word) #word,
static const char *const types[] = {CADRE_MODEL_LIST(ROW)};
#undef ROW

/* Where an array of whole numbers in 1 to CADRE_LAYER_WIDTH_MAX goes, and its words for
 * messages. */
typedef struct {
    const char *key;
    const char *one;     /* "a layer's width" */
    const char *example; /* "[64, 32]" */
    size_t count_min;
    size_t count_max;
    int64_t *numbers;
    size_t *count;
} numbers_t;

/* Reads an array of "model" into the job; fails, at its place in the file, if it is too short or
 * too long, or a number is out of range. */
static int
read_numbers(const cadre_json_source_t *source, const json_t *array, const numbers_t *into)
{
    char pointer[POINTER_SIZE];
    snprintf(pointer, sizeof(pointer), "/model/%s", into->key);
    size_t count = json_array_size(array);
    if (!json_is_array(array) || count < into->count_min) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "model.%s must be an array such as %s", into->key,
                                      into->example);
    }

    if (count > into->count_max) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "model.%s has %zu numbers, over %zu", into->key, count,
                                      into->count_max);
    }

    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(array, i);
        int64_t value = json_integer_value(number);
        if (!json_is_integer(number) || value < 1 || value > CADRE_LAYER_WIDTH_MAX) {
            snprintf(pointer, sizeof(pointer), "/model/%s/%zu", into->key, i);
            return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                          "model.%s[%zu]: %s must be a whole number in 1 to %d",
                                          into->key, i, into->one, CADRE_LAYER_WIDTH_MAX);
        }
        into->numbers[i] = value;
    }

    *into->count = count;
    return 0;
}

/* Reads "hidden", "filters" and "input" of "model", as far as they are there, and checks that
 * "input" has the axes which the type of model needs. */
static int
read_arrays(cadre_job_t *job, const cadre_json_source_t *source, const json_t *model)
{
    bool sequence = job->model == CADRE_MODEL_TRANSFORMER;
    const numbers_t arrays[] = {
        {"hidden", "a layer's width", "[64, 32]", 1, CADRE_JOB_HIDDEN_MAX, job->hidden,
         &job->hidden_count},
        {"filters", "a number of filters", "[16, 32]", 1, CADRE_JOB_FILTERS_MAX, job->filters,
         &job->filter_count},
        {"input", "a dimension", sequence ? "[8, 16]" : "[28, 28, 1]", sequence ? 2 : 1,
         CADRE_JOB_INPUT_RANK_MAX, job->input, &job->input_rank},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(arrays); i++) {
        const json_t *array = json_object_get(model, arrays[i].key);
        int status = array ? read_numbers(source, array, &arrays[i]) : 0;
        if (status < 0) {
            return status;
        }
    }

    /* A cnn and a transformer need a row of a certain rank; layers take any. */
    if (job->model == CADRE_MODEL_CNN && job->input_rank != 3) {
        return cadre_json_source_fail(source, "/model/input", CADRE_JSON_VALUE,
                                      "model.input: an image is [height, width, channels]");
    }

    if (sequence && job->input_rank != 2) {
        return cadre_json_source_fail(source, "/model/input", CADRE_JSON_VALUE,
                                      "model.input: a sequence is [positions, numbers of each]");
    }

    return 0;
}

/* Reads the list "layers" of "model": type and numbers of each layer, then which inputs each
 * has. */
static int
read_layers(cadre_job_t *job, const cadre_json_source_t *source, json_t *layers)
{
    size_t count = json_array_size(layers);
    if (!json_is_array(layers)) {
        return cadre_json_source_fail(source, "/model/layers", CADRE_JSON_VALUE,
                                      "model.layers must be an array of objects such as "
                                      "{\"type\": \"dense\", \"units\": 64}");
    }

    if (count > CADRE_JOB_LAYERS_MAX) {
        return cadre_json_source_fail(source, "/model/layers", CADRE_JSON_VALUE,
                                      "model.layers has %zu layers, over %d", count,
                                      CADRE_JOB_LAYERS_MAX);
    }

    for (size_t i = 0; i < count; i++) {
        char pointer[POINTER_SIZE];
        snprintf(pointer, sizeof(pointer), "/model/layers/%zu", i);
        int status = cadre_layer_read(source, pointer, json_array_get(layers, i), &job->layers[i]);
        if (status < 0) {
            return status;
        }
    }

    int status = cadre_layer_links_read(source, layers, job->layers, count);
    if (status < 0) {
        return status;
    }

    job->layer_count = count;
    job->layer_list = json_incref(layers);
    return 0;
}

/* Checks that each key is one of the model's type, and that no key the type needs is missing. */
static int
check_keys(const cadre_job_t *job, const cadre_json_source_t *source, const json_t *model)
{
    unsigned type = 1U << job->model;
    const char *word = types[job->model];

    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        bool there = json_object_get(model, keys[i].key) != NULL;
        if (there && !(keys[i].types & type) && strcmp(keys[i].key, "table") == 0) {
            return cadre_json_source_fail(source, "/model/table", CADRE_JSON_KEY,
                                          "a model of type \"%s\" looks up no ids, and so has no "
                                          "\"table\": layers over ids have one, such as "
                                          "\"embedding\" in \"layers\"",
                                          word);
        }
        if (there && !(keys[i].types & type)) {
            char pointer[POINTER_SIZE];
            snprintf(pointer, sizeof(pointer), "/model/%s", keys[i].key);
            return cadre_json_source_fail(source, pointer, CADRE_JSON_KEY,
                                          "a model of type \"%s\" has no \"%s\"", word,
                                          keys[i].key);
        }
        if (!there && (keys[i].required & type)) {
            return cadre_json_source_fail(source, "/model", CADRE_JSON_VALUE,
                                          "\"%s\" is missing in model: %s", keys[i].key,
                                          keys[i].why);
        }
    }

    return 0;
}

/* Checks that the type of model can learn the job's kind of label: linear only values, logistic
 * only classes, a factorization machine no more than two of them. */
static int
check_labels(const cadre_job_t *job, const cadre_json_source_t *source)
{
    if (job->model == CADRE_MODEL_LINEAR && job->label != CADRE_JOB_VALUE) {
        return cadre_json_source_fail(source, "/model/type", CADRE_JSON_VALUE,
                                      "a linear model needs \"label_kind\": \"value\" in "
                                      "data.train; for classes use \"logistic\" or \"mlp\"");
    }

    if (job->model == CADRE_MODEL_LOGISTIC && job->label == CADRE_JOB_VALUE) {
        return cadre_json_source_fail(source, "/model/type", CADRE_JSON_VALUE,
                                      "a logistic model needs classes, but label_kind in "
                                      "data.train is \"value\": use \"linear\" or \"mlp\"");
    }

    if (job->model == CADRE_MODEL_FACTORIZATION_MACHINE && job->label == CADRE_JOB_CLASS) {
        return cadre_json_source_fail(source, "/model/type", CADRE_JSON_VALUE,
                                      "a factorization machine has one output: it needs "
                                      "\"label_kind\" \"binary\" or \"value\" in data.train");
    }

    if (job->softmax != CADRE_SOFTMAX_FULL && job->label != CADRE_JOB_CLASS) {
        return cadre_json_source_fail(source, "/model/softmax", CADRE_JSON_VALUE,
                                      "model.softmax: candidates are classes, but label_kind in "
                                      "data.train is another");
    }

    return 0;
}

/* Checks that a model which is no "layers" is given keys of 64 bits only where it takes them: it
 * would take the three numbers of each for plain ones. */
static int
check_rows(const cadre_job_t *job, const cadre_json_source_t *source)
{
    if (job->model == CADRE_MODEL_LAYERS || job->keys) {
        return 0;
    }

    const bool is_over_items = (OVER_ITEMS & (1U << job->model)) != 0;
    const char *advice = is_over_items
                             ? "is three numbers of a row, which the model puts together with "
                               "\"table\": true and \"keys\": true"
                             : "is three numbers of a row, which only \"layers\" put together: "
                               "write a model of type \"layers\", with a layer that has "
                               "\"table\" and \"keys\": true";
    const json_t *columns = json_object_get(job->train, "columns");
    for (size_t i = 0; i < json_array_size(columns); i++) {
        if (json_object_get(json_array_get(columns, i), "key")) {
            char pointer[POINTER_SIZE];
            snprintf(pointer, sizeof(pointer), "/data/train/columns/%zu/key", i);
            return cadre_json_source_fail(source, pointer, CADRE_JSON_KEY,
                                          "data.train.columns[%zu].key does not go with this model "
                                          "of type \"%s\": a key %s",
                                          i, types[job->model], advice);
        }
    }

    if (json_is_true(json_object_get(job->train, "keys"))) {
        return cadre_json_source_fail(source, "/data/train/keys", CADRE_JSON_KEY,
                                      "data.train.keys does not go with this model of type \"%s\": "
                                      "a key %s",
                                      types[job->model], advice);
    }
    return 0;
}

/* Checks that the columns of a CSV file, `rows` of data.`part`, are what a model over keys takes:
 * one bag of keys or, with fields, a key in each. */
static int
check_key_columns(const cadre_job_t *job, const cadre_json_source_t *source, const json_t *rows,
                  const char *part)
{
    const json_t *columns = json_object_get(rows, "columns");
    const size_t fields = job->lookup.field_count;
    const size_t count = json_array_size(columns);
    bool is_sound = count == (fields > 0 ? fields : 1);
    for (size_t i = 0; i < count; i++) {
        const json_t *column = json_array_get(columns, i);
        const bool is_bag = json_object_get(column, "items") != NULL;
        is_sound = is_sound && json_object_get(column, "key") && is_bag == (fields == 0);
    }
    if (is_sound) {
        return 0;
    }
    return fields > 0
               ? cadre_json_source_fail(source, "/model/keys", CADRE_JSON_KEY,
                                        "model.keys: %zu fields are as many columns of data.%s, "
                                        "each with a \"key\" and none with \"items\"",
                                        fields, part)
               : cadre_json_source_fail(
                     source, "/model/keys", CADRE_JSON_KEY,
                     "model.keys: without \"fields\" the rows of data.%s are one "
                     "column with \"key\" and \"items\", a bag",
                     part);
}

/* Checks that rows of a model over keys, `rows` of data.`part`, are just these. What is in an array
 * of NumPy nobody knows. */
static int
check_key_rows(const cadre_job_t *job, const cadre_json_source_t *source, const json_t *rows,
               const char *part)
{
    cadre_data_format_t format = CADRE_DATA_NPY;
    cadre_data_format_find(json_string_value(json_object_get(rows, "format")), &format);
    switch (format) {
    case CADRE_DATA_CSV:
        return check_key_columns(job, source, rows, part);
    case CADRE_DATA_LIBSVM:
        if (json_is_true(json_object_get(rows, "keys")) && job->lookup.field_count == 0) {
            return 0;
        }
        return cadre_json_source_fail(source, "/model/keys", CADRE_JSON_KEY,
                                      "model.keys: the indices of a LIBSVM file are keys with "
                                      "\"keys\": true and no \"features\" in data.%s, and no "
                                      "\"fields\" in model",
                                      part);
    case CADRE_DATA_CRITEO:
        return cadre_json_source_fail(
            source, "/model/keys", CADRE_JSON_KEY,
            "model.keys: rows of a click log begin with 13 numbers, which "
            "are no keys: write a model of type \"layers\", with a layer "
            "that has \"columns\": [13, 78], \"table\" and \"keys\": true");
    case CADRE_DATA_TEXT:
        return cadre_json_source_fail(source, "/model/keys", CADRE_JSON_KEY,
                                      "model.keys: the ids of a text's words are no keys of 64 "
                                      "bits");
    case CADRE_DATA_IDX:
    case CADRE_DATA_NPY:
        return 0;
    }
    return 0;
}

/* Checks that a model over items says once which ids there are: "ids", "fields" or a table, and of
 * a table's fields how many columns they are. */
static int
check_lookup(const cadre_job_t *job, const cadre_json_source_t *source, const json_t *fields)
{
    const bool is_table = job->lookup.table.is_table;
    const bool counts = json_is_integer(fields);
    if (fields && job->ids > 0) {
        return cadre_json_source_fail(source, "/model/fields", CADRE_JSON_KEY,
                                      "\"ids\" and \"fields\" in model do not go together: each "
                                      "says which ids there are");
    }
    if (job->keys && !is_table) {
        return cadre_json_source_fail(source, "/model/keys", CADRE_JSON_KEY,
                                      "\"keys\" in model: only a \"table\" has rows by keys of 64 "
                                      "bits");
    }
    if (is_table && (job->ids > 0 || (fields && !counts))) {
        return cadre_json_source_fail(
            source, "/model/table", CADRE_JSON_KEY,
            "\"table\" in model: a table has rows for any ids: it takes no "
            "\"ids\", and of \"fields\" how many columns there are");
    }
    if (is_table && job->lookup.units > CADRE_LAYER_TABLE_UNITS) {
        return cadre_json_source_fail(source, "/model/factors", CADRE_JSON_VALUE,
                                      "model.factors: rows of %lld numbers, a table has at most %d",
                                      (long long)job->lookup.units, CADRE_LAYER_TABLE_UNITS);
    }
    if (!is_table && counts) {
        return cadre_json_source_fail(source, "/model/fields", CADRE_JSON_VALUE,
                                      "\"fields\" in model is an array of how many ids each column "
                                      "has, such as [944, 1683], but with \"table\"");
    }
    const bool is_machine = job->model == CADRE_MODEL_FACTORIZATION_MACHINE;
    if (!fields && !is_table && is_machine && job->ids == 0) {
        return cadre_json_source_fail(source, "/model", CADRE_JSON_VALUE,
                                      "\"ids\" is missing in model, or \"fields\" or \"table\": "
                                      "which ids the rows have");
    }
    return 0;
}

/* Reads which ids a model over items has, "ids" or "fields", and whether their rows are those of a
 * table, into the job's lookup. */
static int
read_lookup(cadre_job_t *job, const cadre_json_source_t *source, json_t *model)
{
    const bool is_machine = job->model == CADRE_MODEL_FACTORIZATION_MACHINE;
    const json_t *fields = json_object_get(model, "fields");
    json_t *table = json_object_get(model, "table");
    job->lookup = cadre_layer_of(CADRE_LAYER_FACTORIZATION_MACHINE);
    job->lookup.ids = job->ids;
    job->lookup.units = is_machine ? job->factors : 0;
    job->lookup.linear = job->linear;
    job->lookup.keys = job->keys;
    int status =
        table ? cadre_layer_table_read(source, "/model/table", table, &job->lookup.table) : 0;
    status = status < 0 ? status : check_lookup(job, source, fields);
    if (status < 0) {
        return status;
    }
    job->lookup_table = json_incref(table);
    status = fields ? cadre_layer_read_fields(source, "/model/fields", fields, &job->lookup) : 0;
    if (status < 0 || !cadre_job_is_over_items(job)) {
        return status;
    }
    if (job->keys) {
        status = check_key_rows(job, source, job->train, "train");
        return status < 0 || !job->test ? status : check_key_rows(job, source, job->test, "test");
    }
    return cadre_layer_words_check(source, "/model", &job->lookup);
}

bool
cadre_job_is_over_items(const cadre_job_t *job)
{
    return cadre_layer_ids(&job->lookup) > 0 || job->lookup.table.is_table;
}

/* Checks that layers over the items of LIBSVM's rows take for ids what the data have: an index is
 * one number of a row, a key of 64 bits three, and with as many numbers one would pass for the
 * other. */
static int
check_items(const cadre_job_t *job, const cadre_json_source_t *source)
{
    const char *format = json_string_value(json_object_get(job->train, "format"));
    const bool has_keys = json_is_true(json_object_get(job->train, "keys"));
    if (!format || strcmp(format, "libsvm") != 0 || !json_object_get(job->train, "items")) {
        return 0;
    }
    for (size_t i = 0; i < job->layer_count; i++) {
        const cadre_layer_t *layer = &job->layers[i];
        const bool has_values = layer->type == CADRE_LAYER_EMBEDDING_BAG ||
                                layer->type == CADRE_LAYER_FACTORIZATION_MACHINE;
        if (has_values && layer->field_count == 0 && layer->keys != has_keys) {
            char pointer[POINTER_SIZE];
            snprintf(pointer, sizeof(pointer), "/model/layers/%zu", i);
            return cadre_json_source_fail(
                source, pointer, CADRE_JSON_VALUE,
                has_keys
                    ? "model.layers[%zu] needs \"table\" and \"keys\": true: with \"keys\" in "
                      "data.train an index is a key, three numbers of a row"
                    : "model.layers[%zu].keys: indices are no keys: that needs \"keys\": true, "
                      "and no \"features\", in data.train",
                i);
        }
    }
    return 0;
}

/* Reads the section "model", whose plain settings have been read, and checks that its keys go
 * together. */
int
cadre_job_model_read(cadre_job_t *job, const cadre_json_source_t *source)
{
    json_t *model = json_object_get(source->root, "model");
    if (!json_object_get(model, "type")) {
        return cadre_json_source_fail(source, "/model", CADRE_JSON_VALUE,
                                      "\"type\" is missing in model: %s", CADRE_MODEL_WORDS);
    }

    int status = check_keys(job, source, model);
    if (status < 0) {
        return status;
    }

    status = check_labels(job, source);
    if (status < 0) {
        return status;
    }

    status = check_rows(job, source);
    if (status < 0) {
        return status;
    }

    status = read_lookup(job, source, model);
    if (status < 0) {
        return status;
    }

    status = read_arrays(job, source, model);
    if (status < 0) {
        return status;
    }

    if (job->model == CADRE_MODEL_TRANSFORMER && job->width % job->heads != 0) {
        return cadre_json_source_fail(source, "/model", CADRE_JSON_VALUE,
                                      "model.heads: %lld heads do not divide model.width, %lld",
                                      (long long)job->heads, (long long)job->width);
    }

    json_t *layers = json_object_get(model, "layers");
    status = layers ? read_layers(job, source, layers) : 0;
    return status < 0 ? status : check_items(job, source);
}
