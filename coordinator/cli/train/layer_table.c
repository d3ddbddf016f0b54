#include "coordinator/cli/train/layer_table.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/wire_dtype.h"
#include "coordinator/cli/train/suggest.h"

enum { POINTER_SIZE = 128 };

/* The range of first values of a row: that of Keras' Embedding. */
static const char first_values[] = "uniform";

typedef enum { COUNT, AGE, NUMBER, SWITCH } kind_t;

/* Keys whose values are numbers or switches. */
static const struct {
    const char *key;
    kind_t kind;
    double high; /* the largest; the smallest is 0 */
    size_t offset;
} keys[] = {
    {"row_wise", SWITCH, 1, offsetof(cadre_table_spec_t, row_wise)},
    {"group_lasso", NUMBER, 1e6, offsetof(cadre_table_spec_t, group_lasso)},
    {"admit_after", AGE, CADRE_TABLE_ADMIT_MAX, offsetof(cadre_table_spec_t, admit_after)},
    {"rows_max", COUNT, CADRE_TABLE_ROWS_MAX, offsetof(cadre_table_spec_t, rows_max)},
    {"age_max", AGE, UINT32_MAX, offsetof(cadre_table_spec_t, age_max)},
    {"norm_min", NUMBER, 1e6, offsetof(cadre_table_spec_t, norm_min)},
};

static const char *const policies[] = {"refuse", "lru", "lfu"};

/* Fails at the place of a value, with the text of the last error. */
static int
fail_value(const cadre_json_source_t *source, const char *pointer)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s: %s", field, reason);
}

/* Fails at the place of a value that is of another type than `wanted`. */
static int
fail_type(const cadre_json_source_t *source, const char *pointer, const char *wanted,
          const json_t *value)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s must be %s, not %s", field,
                                  wanted, cadre_json_type_text(value));
}

/* Stores a value that is in its range. */
static void
store(cadre_table_spec_t *spec, size_t number, double value)
{
    char *place = (char *)spec + keys[number].offset;
    switch (keys[number].kind) {
    case COUNT:
        *(uint64_t *)(void *)place = (uint64_t)value;
        return;
    case AGE:
        *(uint32_t *)(void *)place = (uint32_t)value;
        return;
    case NUMBER:
        *(double *)(void *)place = value;
        return;
    case SWITCH:
        *(bool *)place = value != 0;
        return;
    }
}

/* Reads the number, or switch, of the key with this number. */
static int
read_number(const cadre_json_source_t *source, const char *pointer, size_t number,
            const json_t *value, cadre_table_spec_t *spec)
{
    const kind_t kind = keys[number].kind;
    if (kind == SWITCH && !json_is_boolean(value)) {
        return fail_type(source, pointer, "true or false", value);
    }
    if (kind == NUMBER && !json_is_number(value)) {
        return fail_type(source, pointer, "a number", value);
    }
    if ((kind == COUNT || kind == AGE) && !json_is_integer(value)) {
        return fail_type(source, pointer, "a whole number", value);
    }

    const double amount = kind == SWITCH ? (double)json_is_true(value) : json_number_value(value);
    if (!(amount >= 0 && amount <= keys[number].high)) {
        cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s: %.15g is not in 0 to %.15g", field, amount,
                                      keys[number].high);
    }
    store(spec, number, amount);
    return 0;
}

/* Gives the position of a word among `count` words. */
static int
read_word(const cadre_json_source_t *source, const char *pointer, const json_t *value,
          const char *const *words, size_t count)
{
    const char *word = json_string_value(value);
    if (!word) {
        return fail_type(source, pointer, "a string", value);
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            return (int)i;
        }
    }
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    cadre_auto(cadre_free) char *hint = cadre_suggest_text(word, words, count);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                  "%s: no such word as \"%.64s\"%s", field, word, hint);
}

/* --- objects with a "type" and its parameters: optimizer, initializer --- */

/* What a word names and has parameters with names. */
typedef struct {
    const cadre_json_source_t *source;
    const char *pointer;
    const json_t *value; /* the word, or an object with "type" and parameters */
    const cadre_parameter_t *table;
    size_t count;
    double *parameters;
} parameters_t;

/* Returns the word of a value that is a word, or an object with a "type"; NULL: it is neither. */
static const char *
type_of(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "type") : value);
}

/* Reads one parameter. */
static int
read_parameter(const parameters_t *self, size_t number, const json_t *value)
{
    char pointer[POINTER_SIZE];
    snprintf(pointer, sizeof(pointer), "%s/%s", self->pointer, self->table[number].name);
    if (!json_is_number(value)) {
        return fail_type(self->source, pointer, "a number", value);
    }
    self->parameters[number] = json_number_value(value);
    return cadre_parameter_check(&self->table[number], type_of(self->value),
                                 self->parameters[number]) < 0
               ? fail_value(self->source, pointer)
               : 0;
}

/* Reads the parameters that an object has beside its type, and no other keys. */
static int
read_parameters(const parameters_t *self)
{
    const char *known[CADRE_OPTIMIZER_PARAMETERS_MAX + 1] = {"type"};
    for (size_t i = 0; i < self->count; i++) {
        known[i + 1] = self->table[i].name;
    }
    int status = json_is_object(self->value)
                     ? cadre_json_source_check_keys(self->source, self->pointer, self->value, known,
                                                    self->count + 1)
                     : 0;
    for (size_t i = 0; i < self->count && status == 0; i++) {
        const json_t *value = json_object_get(self->value, self->table[i].name);
        status = value ? read_parameter(self, i, value) : 0;
    }
    return status;
}

static int
read_optimizer(const cadre_json_source_t *source, const char *pointer, const json_t *value,
               cadre_layer_table_t *out)
{
    cadre_optimizer_spec_t *spec = &out->spec.optimizer;
    const char *word = type_of(value);
    if (!word) {
        return fail_type(source, pointer, "an optimizer such as {\"type\": \"adagrad\"}", value);
    }
    if (cadre_optimizer_spec_parse(spec, word) < 0) {
        return fail_value(source, pointer);
    }
    parameters_t parameters = {.source = source, .pointer = pointer, .value = value};
    parameters.count = cadre_optimizer_parameters(spec->kind, &parameters.table);
    parameters.parameters = spec->parameters;
    out->has_optimizer = true;
    return read_parameters(&parameters);
}

static int
read_initializer(const cadre_json_source_t *source, const char *pointer, const json_t *value,
                 cadre_initializer_spec_t *spec)
{
    const char *word = type_of(value);
    if (!word) {
        return fail_type(source, pointer, "a word such as \"normal\", or an object with \"type\"",
                         value);
    }
    if (cadre_initializer_spec_parse(spec, word) < 0) {
        cadre_fail(CADRE_ECONFIG, "\"%.32s\" is none of " CADRE_TABLE_INITIALIZERS, word);
        return fail_value(source, pointer);
    }
    parameters_t parameters = {.source = source, .pointer = pointer, .value = value};
    parameters.count = cadre_initializer_parameters(spec->kind, &parameters.table);
    parameters.parameters = spec->parameters;
    return read_parameters(&parameters);
}

/* --- the whole --- */

/* Reads the member called `name`, which is there. */
static int
read_member(const cadre_json_source_t *source, const char *pointer, const char *name,
            const json_t *value, cadre_layer_table_t *out)
{
    static const char *const storages[] = {"f32", "bf16"};
    if (strcmp(name, "optimizer") == 0) {
        return read_optimizer(source, pointer, value, out);
    }
    if (strcmp(name, "initializer") == 0) {
        return read_initializer(source, pointer, value, &out->spec.initializer);
    }
    if (strcmp(name, "storage") == 0) {
        const int word = read_word(source, pointer, value, storages, CADRE_COUNT_OF(storages));
        out->spec.storage = word == 1 ? CADRE_BF16 : CADRE_F32;
        return word < 0 ? word : 0;
    }
    if (strcmp(name, "when_full") == 0) {
        const int word = read_word(source, pointer, value, policies, CADRE_COUNT_OF(policies));
        out->spec.when_full = (cadre_table_policy_t)(CADRE_TABLE_REFUSE + word);
        return word < 0 ? word : 0;
    }

    size_t number = 0;
    while (strcmp(keys[number].key, name) != 0) {
        number++;
    }
    return read_number(source, pointer, number, value, &out->spec);
}

int
cadre_layer_table_read(const cadre_json_source_t *source, const char *pointer, const json_t *value,
                       cadre_layer_table_t *out)
{
    cadre_layer_table_t read = {.is_table = !json_is_false(value), .spec = cadre_table_spec(1)};
    const char *known[4 + CADRE_COUNT_OF(keys)] = {"storage", "initializer", "optimizer",
                                                   "when_full"};
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        known[4 + i] = keys[i].key;
    }
    if (!json_is_boolean(value) && !json_is_object(value)) {
        return fail_type(source, pointer, "true or an object such as {\"admit_after\": 3}", value);
    }

    int status = cadre_initializer_spec_parse(&read.spec.initializer, first_values);
    if (status == 0 && json_is_object(value)) {
        status = cadre_json_source_check_keys(source, pointer, value, known, CADRE_COUNT_OF(known));
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(known) && status == 0; i++) {
        char place[POINTER_SIZE];
        const json_t *member = json_object_get(value, known[i]);
        snprintf(place, sizeof(place), "%s/%s", pointer, known[i]);
        status = member ? read_member(source, place, known[i], member, &read) : 0;
    }
    if (status < 0) {
        return status;
    }
    *out = read;
    return 0;
}

/* Returns the whole spec of the table. */
static cadre_table_spec_t
spec_of(const cadre_layer_table_t *self, const cadre_optimizer_spec_t *optimizer)
{
    cadre_table_spec_t spec = self->spec;
    if (!self->has_optimizer) {
        spec.optimizer = *optimizer;
    }
    return spec;
}

int
cadre_layer_table_check(const cadre_layer_table_t *self, int64_t units,
                        const cadre_optimizer_spec_t *optimizer)
{
    cadre_table_spec_t spec = spec_of(self, optimizer);
    spec.dim = (uint32_t)units;
    return cadre_table_spec_check(&spec);
}

cadre_table_options_t
cadre_layer_table_options(const cadre_layer_table_t *self, const cadre_optimizer_spec_t *optimizer)
{
    const cadre_table_spec_t spec = spec_of(self, optimizer);
    cadre_table_options_t options = cadre_table_options();
    options.storage = spec.storage;
    options.initializer = cadre_initializer_spec_give(&spec.initializer);
    options.optimizer = cadre_optimizer_spec_give(&spec.optimizer);
    options.schedule = cadre_schedule_spec_give(&spec.optimizer.schedule);
    options.clip_value = spec.optimizer.clip_value;
    options.row_wise = spec.row_wise;
    options.admit_after = spec.admit_after;
    options.group_lasso = spec.group_lasso;
    options.rows_max = spec.rows_max;
    options.when_full = (cadre_table_full_t)spec.when_full;
    options.age_max = spec.age_max;
    options.norm_min = spec.norm_min;
    return options;
}
