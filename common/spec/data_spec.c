#include "common/spec/data_spec.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    CSV = 1 << CADRE_DATA_CSV,
    LIBSVM = 1 << CADRE_DATA_LIBSVM,
    IDX = 1 << CADRE_DATA_IDX,
    ANY = CSV | LIBSVM | IDX,
    QUOTED_SIZE_MAX = 64, /* of a key or value that an error text repeats */
};

static const char *const format_texts[] = {
    [CADRE_DATA_CSV] = "csv", [CADRE_DATA_LIBSVM] = "libsvm", [CADRE_DATA_IDX] = "idx"};
static const char *const label_kind_texts[] = {
    [CADRE_LABEL_CLASS] = "class", [CADRE_LABEL_BINARY] = "binary", [CADRE_LABEL_VALUE] = "value"};

const char *
cadre_data_format_text(cadre_data_format_t format)
{
    return format_texts[format];
}

static int
refuse(const char *key, const char *wanted)
{
    return cadre_fail(CADRE_ECONFIG, "dataset: key \"%.*s\" must be %s", QUOTED_SIZE_MAX, key,
                      wanted);
}

static int
integer_between(const char *key, const json_t *value, int64_t least, int64_t most, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"%s\" must be a whole number from %" PRId64 " to %" PRId64,
                          key, least, most);
    }
    *out = json_integer_value(value);
    return 0;
}

/* The index of the string `value` among `texts`, or -1. */
static int
index_among(const json_t *value, const char *const *texts, size_t count)
{
    for (size_t i = 0; json_is_string(value) && i < count; i++) {
        if (strcmp(json_string_value(value), texts[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int
set_path_at(const char *key, const json_t *value, char **path)
{
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length == 0 || length > CADRE_DATA_PATH_SIZE_MAX) {
        return refuse(key, "a path");
    }
    *path = cadre_strdup(json_string_value(value));
    return 0;
}

static int
set_path(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return set_path_at(key, value, &spec->path);
}

static int
set_labels_path(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return set_path_at(key, value, &spec->labels_path);
}

static int
set_format(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    int index = index_among(value, format_texts, CADRE_COUNT_OF(format_texts));
    if (index < 0) {
        return refuse(key, "\"csv\", \"libsvm\" or \"idx\"");
    }
    spec->format = (cadre_data_format_t)index;
    return 0;
}

static int
set_label_kind(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    int index = index_among(value, label_kind_texts, CADRE_COUNT_OF(label_kind_texts));
    if (index < 0) {
        return refuse(key, "\"class\", \"binary\" or \"value\"");
    }
    spec->label_kind = (cadre_label_kind_t)index;
    return 0;
}

static int
set_label(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    if (json_is_integer(value)) {
        spec->label_at = CADRE_LABEL_AT_INDEX;
        return integer_between(key, value, 0, CADRE_DATA_FEATURES_MAX, &spec->label_index);
    }
    const char *text = json_string_value(value);
    if (!text || !*text) {
        return refuse(key, "\"last\", \"first\", the name of a column or its number from 0");
    }
    if (strcmp(text, "last") == 0) {
        spec->label_at = CADRE_LABEL_AT_LAST;
    } else if (strcmp(text, "first") == 0) {
        spec->label_at = CADRE_LABEL_AT_FIRST;
    } else {
        spec->label_at = CADRE_LABEL_AT_NAME;
        spec->label_name = cadre_strdup(text);
    }
    return 0;
}

static int
set_header(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    static const char *const automatic[] = {"auto"};
    if (json_is_boolean(value)) {
        spec->header = json_is_true(value) ? CADRE_HEADER_YES : CADRE_HEADER_NO;
        return 0;
    }
    spec->header = CADRE_HEADER_AUTO;
    return index_among(value, automatic, 1) == 0 ? 0 : refuse(key, "true, false or \"auto\"");
}

static int
set_delimiter(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    const char *text = json_string_value(value);
    text = text && strcmp(text, "tab") == 0 ? "\t" : text;
    text = text && strcmp(text, "space") == 0 ? " " : text;
    if (!text || strlen(text) != 1 || !strchr(",;|:\t ", *text)) {
        return refuse(key, "one of \",\", \";\", \"|\", \":\", \"tab\" or \"space\"");
    }
    spec->delimiter = *text;
    return 0;
}

static int
set_scale(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    double scale = json_number_value(value);
    /* Within 1e30 every byte of an image stays a finite float. */
    if (!json_is_number(value) || !(fabs(scale) <= 1e30) || scale == 0) {
        return refuse(key, "a number other than 0, from -1e30 to 1e30");
    }
    spec->scale = scale;
    return 0;
}

static int
set_features(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_FEATURES_MAX, &spec->features);
}

static int
set_classes(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 2, CADRE_DATA_CLASSES_MAX, &spec->classes);
}

static int
set_first_row(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 0, CADRE_DATA_ROWS_MAX, &spec->first_row);
}

static int
set_rows(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_ROWS_MAX, &spec->rows);
}

static int
set_held_out(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    double fraction = json_number_value(value);
    if (!json_is_number(value) || !(fraction > 0 && fraction < 1)) {
        return refuse(key, "a number above 0 and below 1");
    }
    spec->held_out = fraction;
    return 0;
}

static int
set_part(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    const char *text = json_string_value(value);
    if (!text || (strcmp(text, "held_out") != 0 && strcmp(text, "rest") != 0)) {
        return refuse(key, "\"held_out\" or \"rest\"");
    }
    spec->use_held_out = strcmp(text, "held_out") == 0;
    spec->has_part = true;
    return 0;
}

static int
set_split_seed(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, INT64_MAX, &spec->split_seed);
}

static int
set_skip_bad(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 0, CADRE_DATA_ROWS_MAX, &spec->skip_bad);
}

static const struct {
    const char *key;
    int formats; /* those that use it */
    int (*set)(const char *key, const json_t *value, cadre_data_spec_t *spec);
} settings[] = {
    {"format", ANY, set_format},           {"path", ANY, set_path},
    {"labels_path", IDX, set_labels_path}, {"label", CSV, set_label},
    {"header", CSV, set_header},           {"delimiter", CSV, set_delimiter},
    {"features", LIBSVM, set_features},    {"label_kind", ANY, set_label_kind},
    {"classes", ANY, set_classes},         {"scale", ANY, set_scale},
    {"first_row", ANY, set_first_row},     {"rows", ANY, set_rows},
    {"held_out", ANY, set_held_out},       {"part", ANY, set_part},
    {"split_seed", ANY, set_split_seed},   {"skip_bad", CSV | LIBSVM, set_skip_bad},
};

static int
set(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (strcmp(settings[i].key, key) != 0) {
            continue;
        }
        if (!(settings[i].formats & 1 << spec->format)) {
            return cadre_fail(CADRE_ECONFIG, "dataset: key \"%s\" does not go with format \"%s\"",
                              key, cadre_data_format_text(spec->format));
        }
        return settings[i].set(key, value, spec);
    }
    return cadre_fail(CADRE_ECONFIG, "dataset: unknown key \"%.*s\"", QUOTED_SIZE_MAX, key);
}

/* What single keys cannot know. */
static int
check_whole(const cadre_data_spec_t *spec)
{
    if (!spec->path) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"path\" is missing");
    }
    if (spec->format == CADRE_DATA_IDX && !spec->labels_path) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"labels_path\" is missing");
    }
    if (spec->label_at == CADRE_LABEL_AT_NAME && spec->header == CADRE_HEADER_NO) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"label\" names a column, but \"header\" is false");
    }
    if (spec->has_part != (spec->held_out > 0)) {
        return cadre_fail(CADRE_ECONFIG, "dataset: keys \"held_out\" and \"part\" go together");
    }
    if (spec->split_seed != CADRE_SPLIT_SEED && spec->held_out == 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"split_seed\" goes with \"held_out\" only");
    }
    if (spec->classes > 0 && spec->label_kind != CADRE_LABEL_CLASS) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"classes\" goes with \"label_kind\" \"class\" only");
    }
    return 0;
}

static int
decode_object(json_t *object, cadre_data_spec_t *spec)
{
    if (!json_is_object(object)) {
        return cadre_fail(CADRE_ECONFIG, "dataset: the description must be a JSON object");
    }
    /* The format first: whether another key may be there depends on it. */
    int status = set_format("format", json_object_get(object, "format"), spec);
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(object, key, value)
    {
        if (status < 0) {
            break;
        }
        status = set(key, value, spec);
    }
    return status < 0 ? status : check_whole(spec);
}

int
cadre_data_spec_decode(const char *text, size_t length, cadre_data_spec_t *out)
{
    if (length > CADRE_DATA_SPEC_SIZE_MAX) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: the description is %zu bytes, at most %d are "
                          "allowed",
                          length, CADRE_DATA_SPEC_SIZE_MAX);
    }
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!object) {
        return cadre_fail(CADRE_ECONFIG, "dataset: line %d, column %d: %s", error.line,
                          error.column, error.text);
    }
    cadre_data_spec_t spec = {.delimiter = ',', .scale = 1, .split_seed = CADRE_SPLIT_SEED};
    int status = decode_object(object, &spec);
    json_decref(object);
    if (status < 0) {
        cadre_data_spec_fini(&spec);
        return status;
    }
    *out = spec;
    return 0;
}

void
cadre_data_spec_fini(cadre_data_spec_t *self)
{
    free(self->path);
    free(self->labels_path);
    free(self->label_name);
    *self = (cadre_data_spec_t){0};
}
