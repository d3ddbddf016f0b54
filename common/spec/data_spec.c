#include "common/spec/data_spec.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    QUOTED_SIZE_MAX = 64,  /* bytes of a key or value that an error text repeats */
    CHOICES_SIZE_MAX = 128 /* bytes of the list of allowed words in an error text */
};

static const struct {
    const char *text;
    int has;
} formats[] = {
#define ROW(NAME, word, has) [CADRE_DATA_##NAME] = {#word, has},
    CADRE_DATA_FORMAT_LIST(ROW)
#undef ROW
};

/* Finds the format with the word `text`; returns false when there is none, or `text` is NULL. */
bool
cadre_data_format_find(const char *text, cadre_data_format_t *out)
{
    for (size_t i = 0; text && i < CADRE_COUNT_OF(formats); i++) {
        if (strcmp(text, formats[i].text) == 0) {
            *out = (cadre_data_format_t)i;
            return true;
        }
    }
    return false;
}

bool
cadre_data_format_has(cadre_data_format_t format, int what)
{
    return (formats[format].has & what) != 0;
}

static int
refuse(const char *key, const char *wanted)
{
    return cadre_fail(CADRE_ECONFIG, "dataset: key \"%.*s\" must be %s", QUOTED_SIZE_MAX, key,
                      wanted);
}

/* Reads an integer between `least` and `most`, both allowed. */
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

/* Fails with a text that names the allowed words: `choices` "a|b|c" become "a", "b" or "c". */
static int
refuse_choice(const char *key, const char *choices)
{
    char wanted[CHOICES_SIZE_MAX] = "\"";
    size_t at = 1;
    for (const char *from = choices; *from && at + 8 < sizeof(wanted); from++) {
        if (*from != '|') {
            wanted[at++] = *from;
            continue;
        }
        /* The last word follows "or", the others a comma. */
        const char *between = strchr(from + 1, '|') ? "\", \"" : "\" or \"";
        at += (size_t)snprintf(wanted + at, sizeof(wanted) - at, "%s", between);
    }
    snprintf(wanted + at, sizeof(wanted) - at, "\"");
    return refuse(key, wanted);
}

/* Returns the index of the string `value` among `texts`; -1 when it is none of them. */
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

/* Copies a path, which must be text that is neither empty nor too long; false if it is not. */
static bool
add_path(const json_t *value, cadre_data_paths_t *paths)
{
    size_t length = json_string_length(value);
    if (!json_is_string(value) || length == 0 || length > CADRE_DATA_PATH_SIZE_MAX) {
        return false;
    }
    paths->items[paths->count++] = cadre_strdup(json_string_value(value));
    return true;
}

/* Copies the path, or the list of paths, that is the value of `key`. */
static int
set_paths_at(const char *key, const json_t *value, cadre_data_paths_t *paths)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    paths->items = cadre_calloc(count > 0 ? count : 1, sizeof(*paths->items));
    bool right = count > 0;
    for (size_t i = 0; i < count && right; i++) {
        right = add_path(json_is_array(value) ? json_array_get(value, i) : value, paths);
    }
    return right ? 0 : refuse(key, "a path, or a list of paths");
}

static int
set_path(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return set_paths_at(key, value, &spec->paths);
}

static int
set_labels_path(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return set_paths_at(key, value, &spec->labels_paths);
}

static int
set_format(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    if (!cadre_data_format_find(json_string_value(value), &spec->format)) {
        return refuse_choice(key, CADRE_DATA_FORMAT_WORDS);
    }
    return 0;
}

/* Reads "label_kind": whether labels are classes, 0 or 1, or any numbers. */
static int
set_label_kind(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
#define ROW(NAME, word) [CADRE_LABEL_##NAME] = #word,
    static const char *const texts[] = {CADRE_LABEL_KIND_LIST(ROW)};
#undef ROW
    int index = index_among(value, texts, CADRE_COUNT_OF(texts));
    if (index < 0) {
        return refuse_choice(key, CADRE_LABEL_KIND_WORDS);
    }
    spec->label_kind = (cadre_label_kind_t)index;
    return 0;
}

/* Reads "label": which column of a CSV file is the label. A string other than "last" and "first" is
 * the name of a column. */
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

/* Reads "columns": which columns of a CSV file are features. */
static int
set_columns(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count < 1 || count > CADRE_DATA_COLUMNS_MAX) {
        return refuse(key, "a list of columns");
    }
    spec->columns = cadre_calloc(count, sizeof(*spec->columns));
    int64_t width = 0;
    for (size_t i = 0; i < count; i++) {
        cadre_data_column_t *column = &spec->columns[i];
        int status = cadre_data_column_read(json_array_get(value, i), column);
        if (status < 0) {
            return cadre_fail_within(status, "dataset: columns[%zu]", i);
        }
        spec->column_count++;
        width += cadre_data_column_width(column);
    }
    return width <= CADRE_DATA_FEATURES_MAX
               ? 0
               : cadre_fail(CADRE_ECONFIG,
                            "dataset: key \"columns\" makes rows of %" PRId64
                            " numbers, at most %d are allowed",
                            width, CADRE_DATA_FEATURES_MAX);
}

/* Returns whether a column is asked for by its name. */
static bool
has_named_column(const cadre_data_spec_t *spec)
{
    for (size_t i = 0; i < spec->column_count; i++) {
        if (spec->columns[i].name) {
            return true;
        }
    }
    return false;
}

/* Returns whether a column holds words, which "auto" would take for names. */
static bool
has_words(const cadre_data_spec_t *spec)
{
    for (size_t i = 0; i < spec->column_count; i++) {
        if (cadre_data_column_has_words(&spec->columns[i])) {
            return true;
        }
    }
    return false;
}

/* Reads "header": whether the first row of a CSV file has names; with "auto", the reader finds out.
 * */
static int
set_header(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    static const char *const automatic[] = {"auto"}; /* the one string that is allowed */
    if (json_is_boolean(value)) {
        spec->header = json_is_true(value) ? CADRE_HEADER_YES : CADRE_HEADER_NO;
        return 0;
    }
    spec->header = CADRE_HEADER_AUTO;
    return index_among(value, automatic, 1) == 0 ? 0 : refuse(key, "true, false or \"auto\"");
}

/* Reads "delimiter": the character between the columns of a CSV file. */
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

/* Reads "scale": every feature is multiplied by it. */
static int
set_scale(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    double scale = json_number_value(value);
    /* A scale of at most 1e30 keeps every byte of an image a finite float. */
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
set_items(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_ITEMS_MAX, &spec->items);
}

static int
set_buckets(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 2, CADRE_DATA_BUCKETS_MAX, &spec->buckets);
}

static int
set_keys(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    spec->has_keys = json_is_true(value);
    return json_is_boolean(value)
               ? 0
               : cadre_fail(CADRE_ECONFIG, "dataset: key \"%s\" must be true or false", key);
}

static int
set_vocabulary(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 2, CADRE_DATA_WORDS_MAX, &spec->vocabulary);
}

static int
set_min_count(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_ROWS_MAX, &spec->min_count);
}

/* Reads "subsample": words with a larger share of the text are thinned out. */
static int
set_subsample(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    spec->subsample = json_number_value(value);
    return json_is_number(value) && spec->subsample >= 0 && spec->subsample <= 1
               ? 0
               : refuse(key, "a number from 0 to 1");
}

static int
set_window(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_WINDOW_MAX, &spec->window);
}

static int
set_negatives(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 0, CADRE_DATA_NEGATIVES_MAX, &spec->negatives);
}

static int
set_sample_seed(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, INT64_MAX, &spec->sample_seed);
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

/* Reads "held_out": the fraction of the rows that is set aside, for instance for evaluations. */
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

/* Reads "part": whether the dataset is the held-out rows or the others. */
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

static int
set_streaming(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    if (!json_is_boolean(value)) {
        return refuse(key, "true or false");
    }
    spec->is_streamed = json_is_true(value);
    return 0;
}

static int
set_shuffle_blocks(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_SHUFFLE_BLOCKS_MAX, &spec->shuffle_blocks);
}

static int
set_ranges(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_DATA_RANGES_MAX, &spec->ranges);
}

static int
set_memory_mib(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    return integer_between(key, value, 1, CADRE_STREAM_MEMORY_MIB_MAX, &spec->memory_mib);
}

static const struct {
    const char *key;
    int goes_with; /* CADRE_DATA_... that a format must have to use this key; 0: all formats may */
    int (*set)(const char *key, const json_t *value, cadre_data_spec_t *spec);
} settings[] = {
    {"format", 0, set_format},
    {"path", 0, set_path},
    {"labels_path", CADRE_DATA_LABELS_FILE, set_labels_path},
    {"label", CADRE_DATA_COLUMNS, set_label},
    {"columns", CADRE_DATA_COLUMNS, set_columns},
    {"header", CADRE_DATA_COLUMNS, set_header},
    {"delimiter", CADRE_DATA_COLUMNS, set_delimiter},
    {"features", CADRE_DATA_SPARSE, set_features},
    {"items", CADRE_DATA_SPARSE, set_items},
    {"buckets", CADRE_DATA_HASHED, set_buckets},
    {"keys", CADRE_DATA_KEYED, set_keys},
    {"vocabulary", CADRE_DATA_WORDS, set_vocabulary},
    {"min_count", CADRE_DATA_WORDS, set_min_count},
    {"subsample", CADRE_DATA_WORDS, set_subsample},
    {"window", CADRE_DATA_WORDS, set_window},
    {"negatives", CADRE_DATA_WORDS, set_negatives},
    {"sample_seed", CADRE_DATA_WORDS, set_sample_seed},
    {"label_kind", 0, set_label_kind},
    {"classes", 0, set_classes},
    {"scale", 0, set_scale},
    {"first_row", 0, set_first_row},
    {"rows", 0, set_rows},
    {"held_out", 0, set_held_out},
    {"part", 0, set_part},
    {"split_seed", 0, set_split_seed},
    {"skip_bad", CADRE_DATA_LINES, set_skip_bad},
    {"streaming", 0, set_streaming},
    {"shuffle_blocks", 0, set_shuffle_blocks},
    {"ranges", 0, set_ranges},
    {"memory_mib", 0, set_memory_mib},
};

/* Sets the field that belongs to a key of the description. The format is known by now: it decides
 * whether the key is allowed. */
static int
set(const char *key, const json_t *value, cadre_data_spec_t *spec)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(settings); i++) {
        if (strcmp(settings[i].key, key) != 0) {
            continue;
        }
        int needed = settings[i].goes_with;
        if (needed && !cadre_data_format_has(spec->format, needed)) {
            return cadre_fail(CADRE_ECONFIG, "dataset: key \"%s\" does not go with format \"%s\"",
                              key, formats[spec->format].text);
        }
        return settings[i].set(key, value, spec);
    }
    return cadre_fail(CADRE_ECONFIG, "dataset: unknown key \"%.*s\"", QUOTED_SIZE_MAX, key);
}

/* Checks the keys that go with "streaming", and gives those that are not there their defaults. */
static int
complete_streaming(cadre_data_spec_t *spec)
{
    const struct {
        const char *key;
        int64_t value; /* 0: not given */
    } given[] = {{"shuffle_blocks", spec->shuffle_blocks},
                 {"ranges", spec->ranges},
                 {"memory_mib", spec->memory_mib}};
    if (!spec->is_streamed) {
        for (size_t i = 0; i < CADRE_COUNT_OF(given); i++) {
            if (given[i].value > 0) {
                return cadre_fail(CADRE_ECONFIG, "dataset: key \"%s\" goes with \"streaming\" only",
                                  given[i].key);
            }
        }
        return 0;
    }

    spec->shuffle_blocks = spec->shuffle_blocks > 0 ? spec->shuffle_blocks : CADRE_SHUFFLE_BLOCKS;
    spec->memory_mib = spec->memory_mib > 0 ? spec->memory_mib : CADRE_STREAM_MEMORY_MIB;
    if (spec->ranges > spec->shuffle_blocks) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"ranges\" must be at most \"shuffle_blocks\", which is "
                          "%" PRId64,
                          spec->shuffle_blocks);
    }
    if (spec->ranges == 0) {
        spec->ranges = cadre_min_i64(CADRE_DATA_RANGES, spec->shuffle_blocks);
    }
    return 0;
}

/* Checks the description of a text. */
static int
check_text(const cadre_data_spec_t *spec)
{
    if (spec->vocabulary == 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"vocabulary\" is missing");
    }
    if (spec->label_kind != CADRE_LABEL_BINARY) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: rows of a text have the \"label_kind\" \"binary\"");
    }
    return spec->scale == 1
               ? 0
               : cadre_fail(CADRE_ECONFIG, "dataset: key \"scale\" does not go with format "
                                           "\"text\", whose rows are ids");
}

/* Checks which indices the rows of items have. */
static int
check_indices(const cadre_data_spec_t *spec)
{
    if (spec->has_keys && spec->items == 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"keys\" needs \"items\", how many indices a "
                          "row has at most");
    }
    if (spec->has_keys && spec->features > 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: keys \"features\" and \"keys\" do not go "
                                         "together: an index that is a key has all 64 bits");
    }
    /* Whoever looks up the indices has a table of a size that all files share. */
    if (spec->items > 0 && !spec->has_keys && spec->features == 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"items\" needs \"features\", the largest "
                                         "index, or \"keys\": true");
    }
    return 0;
}

/* Checks what depends on several keys: required ones, and keys that are allowed only together. */
static int
check_whole(const cadre_data_spec_t *spec)
{
    if (spec->paths.count == 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"path\" is missing");
    }
    if (cadre_data_format_has(spec->format, CADRE_DATA_LABELS_FILE) &&
        spec->labels_paths.count == 0) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"labels_path\" is missing");
    }
    if (cadre_data_format_has(spec->format, CADRE_DATA_HASHED) &&
        (spec->buckets > 0) == spec->has_keys) {
        return cadre_fail(CADRE_ECONFIG, spec->has_keys
                                             ? "dataset: keys \"buckets\" and \"keys\" do not go "
                                               "together: a key has all 64 bits of the hash"
                                             : "dataset: key \"buckets\" is missing");
    }
    if (cadre_data_format_has(spec->format, CADRE_DATA_SPARSE)) {
        int status = check_indices(spec);
        if (status < 0) {
            return status;
        }
    }
    if (spec->label_at == CADRE_LABEL_AT_NAME && spec->header == CADRE_HEADER_NO) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"label\" names a column, but \"header\" is false");
    }
    if (has_named_column(spec) && spec->header == CADRE_HEADER_NO) {
        return cadre_fail(CADRE_ECONFIG,
                          "dataset: key \"columns\" names a column, but \"header\" is false");
    }
    if (has_words(spec) && spec->header == CADRE_HEADER_AUTO && !has_named_column(spec) &&
        spec->label_at != CADRE_LABEL_AT_NAME) {
        return cadre_fail(CADRE_ECONFIG, "dataset: key \"columns\" has words, which \"auto\" takes "
                                         "for names: say whether there is a \"header\"");
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
    return cadre_data_format_has(spec->format, CADRE_DATA_WORDS) ? check_text(spec) : 0;
}

/* Reads every key of the description into `spec`, then checks the whole. On failure the caller
 * frees what `spec` holds. */
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
    status = status < 0 ? status : complete_streaming(spec);
    return status < 0 ? status : check_whole(spec);
}

/* Reads the description of a dataset from JSON text; writes *out only on success. */
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
    cadre_data_spec_t spec = {
        .delimiter = ',',
        .scale = 1,
        .split_seed = CADRE_SPLIT_SEED,
        .min_count = CADRE_MIN_COUNT,
        .subsample = CADRE_SUBSAMPLE,
        .window = CADRE_WINDOW,
        .negatives = CADRE_NEGATIVES,
        .sample_seed = CADRE_SAMPLE_SEED,
    };
    int status = decode_object(object, &spec);
    json_decref(object);
    if (status < 0) {
        cadre_data_spec_fini(&spec);
        return status;
    }
    *out = spec;
    return 0;
}

static void
free_paths(cadre_data_paths_t *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->items[i]);
    }
    free(paths->items);
}

void
cadre_data_spec_fini(cadre_data_spec_t *self)
{
    free_paths(&self->paths);
    free_paths(&self->labels_paths);
    for (size_t i = 0; i < self->column_count; i++) {
        cadre_data_column_fini(&self->columns[i]);
    }
    free(self->columns);
    free(self->label_name);
    *self = (cadre_data_spec_t){0};
}
