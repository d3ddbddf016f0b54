#include "coordinator/cli/train/job_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/spec/data_spec.h"
#include "coordinator/cli/train/job_local.h"
#include "coordinator/cli/train/job_model.h"
#include "coordinator/cli/train/job_optimizer.h"
#include "coordinator/cli/train/json_source.h"
#include "coordinator/cli/train/suggest.h"

enum { KEYS_MAX = CADRE_JOB_SETTINGS_MAX + 16, POINTER_SIZE = 64 };

/* --- settings of one plain value --- */

/* The sections of a job file. `keys` are those that are no plain settings and have a reader of
 * their own. "training.stop" and its neighbours are sections in another one. */
static const struct {
    const char *name;
    bool required;
    bool open; /* read_section allows unknown keys; the section's own reader checks them */
    const char *keys[6];
} sections[] = {
    {"data", true, false, {"train", "test"}},
    {"model", true, false, {"hidden", "input", "filters", "fields", "table", "layers"}},
    {"optimizer", false, true, {0}},
    {"training", false, false, {"stop", "inner", "plateau", "metrics"}},
    {"training.inner", false, true, {0}},
    {"training.stop", false, false, {0}},
    {"training.plateau", false, false, {0}},
    {"strategy", false, false, {0}},
    {"cluster", false, false, {0}},
    {"checkpoint", false, false, {0}},
};

/* Returns the key of a setting in `section` ("" for the top), NULL when the setting is in another
 * section. */
static const char *
key_in(const cadre_setting_t *setting, const char *section)
{
    const char *dot = strrchr(setting->name, '.');
    if (!dot) {
        return *section ? NULL : setting->name;
    }
    size_t length = (size_t)(dot - setting->name);
    bool same = strlen(section) == length && strncmp(setting->name, section, length) == 0;
    return same ? dot + 1 : NULL;
}

/* Returns the object of a section, NULL when the file has no such section. Writes the JSON pointer
 * of the section, such as "/training/stop", to `pointer`. */
static const json_t *
find_section(const cadre_json_source_t *source, const char *name, char pointer[POINTER_SIZE])
{
    const json_t *object = source->root;
    pointer[0] = '\0';
    for (const char *word = name; *word;) {
        size_t length = strcspn(word, ".");
        cadre_auto(cadre_free) char *key = cadre_strndup(word, length);
        size_t used = strlen(pointer);
        snprintf(pointer + used, POINTER_SIZE - used, "/%s", key);
        object = json_object_get(object, key);
        word += length + (word[length] == '.');
    }
    return object;
}

/* Reads the plain settings of a section, whose JSON pointer is `place`, from its object. */
static int
read_settings(cadre_job_t *job, const cadre_json_source_t *source, const char *section,
              const char *place, const json_t *object)
{
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    for (size_t i = 0; i < count; i++) {
        const char *key = key_in(&settings[i], section);
        const json_t *value = key ? json_object_get(object, key) : NULL;
        if (value && cadre_job_set_json(job, &settings[i], value) < 0) {
            char pointer[POINTER_SIZE];
            snprintf(pointer, sizeof(pointer), "%s/%s", place, key);
            cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
            return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s: %s",
                                          settings[i].name, text);
        }
    }

    return 0;
}

/* Checks the names of all keys of a section and reads its plain settings. */
static int
read_section(cadre_job_t *job, const cadre_json_source_t *source, size_t number)
{
    const char *name = sections[number].name;
    char pointer[POINTER_SIZE];
    const json_t *object = find_section(source, name, pointer);
    if (!object) {
        return sections[number].required
                   ? cadre_json_source_fail(source, "", CADRE_JSON_VALUE, "\"%s\" is missing", name)
                   : 0;
    }

    if (!json_is_object(object)) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s must be an object, not %s", name,
                                      cadre_json_type_text(object));
    }

    /* Known keys of this section are the settings of the table, and the keys that have a reader of
     * their own. */
    const char *known[KEYS_MAX];
    size_t known_count = 0;
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    for (size_t i = 0; i < count; i++) {
        known[known_count++] = key_in(&settings[i], name);
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(sections[number].keys); i++) {
        known[known_count++] = sections[number].keys[i];
    }

    int status = sections[number].open
                     ? 0
                     : cadre_json_source_check_keys(source, pointer, object, known, known_count);
    if (status < 0) {
        return status;
    }

    return read_settings(job, source, name, pointer, object);
}

/* Checks the names of the keys at the top of the file and reads the plain settings there. */
static int
read_top(cadre_job_t *job, const cadre_json_source_t *source)
{
    const char *known[KEYS_MAX];
    size_t known_count = 0;
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    for (size_t i = 0; i < count; i++) {
        known[known_count++] = key_in(&settings[i], "");
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(sections); i++) {
        known[known_count++] = strchr(sections[i].name, '.') ? NULL : sections[i].name;
    }

    int status = cadre_json_source_check_keys(source, "", source->root, known, known_count);
    if (status < 0) {
        return status;
    }

    return read_settings(job, source, "", "", source->root);
}

/* --- datasets --- */

/* Keys of a dataset description (docs/data.md) with the type of each, so that an error names the
 * key's place in the file; data_spec.h checks everything else. */
static const struct {
    const char *key;
    const char *types; /* s string, i whole number, n number, b true or false, l list */
    const char *choices;
} description_keys[] = {
    {"format", "s", CADRE_DATA_FORMAT_WORDS},
    {"path", "sl", NULL},
    {"labels_path", "sl", NULL},
    {"label", "si", NULL},
    {"columns", "l", NULL},
    {"header", "sb", NULL},
    {"delimiter", "s", NULL},
    {"features", "i", NULL},
    {"items", "i", NULL},
    {"buckets", "i", NULL},
    {"keys", "b", NULL},
    {"vocabulary", "i", NULL},
    {"min_count", "i", NULL},
    {"subsample", "n", NULL},
    {"window", "i", NULL},
    {"negatives", "i", NULL},
    {"sample_seed", "i", NULL},
    {"label_kind", "s", CADRE_LABEL_KIND_WORDS},
    {"classes", "i", NULL},
    {"scale", "n", NULL},
    {"first_row", "i", NULL},
    {"rows", "i", NULL},
    {"held_out", "n", NULL},
    {"part", "s", "held_out|rest"},
    {"split_seed", "i", NULL},
    {"skip_bad", "i", NULL},
    {"streaming", "b", NULL},
    {"shuffle_blocks", "i", NULL},
    {"ranges", "i", NULL},
    {"memory_mib", "i", NULL},
};

/* Returns whether the value's JSON type is among `types`, the letters of description_keys. */
static bool
type_fits(const char *types, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return strchr(types, 's');
    case JSON_INTEGER:
        return strpbrk(types, "in");
    case JSON_REAL:
        return strchr(types, 'n');
    case JSON_TRUE:
    case JSON_FALSE:
        return strchr(types, 'b');
    case JSON_ARRAY:
        return strchr(types, 'l');
    case JSON_OBJECT:
    case JSON_NULL:
        return false;
    }

    return false;
}

/* Returns the words of a message for `types`, one of those in description_keys. */
static const char *
wanted(const char *types)
{
    static const char *const words[][2] = {{"s", "a string"},
                                           {"i", "a whole number"},
                                           {"n", "a number"},
                                           {"b", "true or false"},
                                           {"l", "a list"},
                                           {"sl", "a string or a list"},
                                           {"si", "a string or a whole number"},
                                           {"sb", "a string, true or false"}};
    size_t i = 0;
    while (strcmp(words[i][0], types) != 0) {
        i++;
    }

    return words[i][1];
}

/* Returns the position of `word` in `choices`, -1 when it is none of them. */
static int
choice_position(const char *choices, const char *word)
{
    char text[32];
    for (int i = 0;; i++) {
        cadre_choice_text(choices, i, text, sizeof(text));
        if (strcmp(text, "?") == 0) {
            return -1;
        }
        if (strcmp(text, word) == 0) {
            return i;
        }
    }
}

/* Checks that the value of key `number` of description_keys has the key's type, is not negative,
 * and is one of its choices. */
static int
check_description_value(const cadre_json_source_t *source, const char *pointer, size_t number,
                        const json_t *value)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    const char *types = description_keys[number].types;
    if (!type_fits(types, value)) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s must be %s, not %s",
                                      field, wanted(types), cadre_json_type_text(value));
    }

    if (json_is_integer(value) && json_integer_value(value) < 0) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s cannot be negative",
                                      field);
    }

    const char *choices = description_keys[number].choices;
    if (choices && choice_position(choices, json_string_value(value)) < 0) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%s: \"%.64s\" is none of %s", field,
                                      json_string_value(value), choices);
    }

    return 0;
}

/* Checks the description as the worker that opens the rows does, so that a bad one fails here, with
 * its place in the file. */
static int
check_ranges(const cadre_json_source_t *source, const char *pointer, const json_t *object)
{
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {0};
    if (cadre_data_spec_decode(text, strlen(text), &spec) == 0) {
        return 0;
    }

    static const char prefix[] = "dataset: ";
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    /* The text of the error then begins with the place in the file instead of "dataset: ". */
    bool prefixed = strncmp(reason, prefix, strlen(prefix)) == 0;
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "data.%s: %s",
                                  strrchr(pointer, '/') + 1,
                                  reason + (prefixed ? strlen(prefix) : 0));
}

/* Checks one dataset description: that its keys are known, that each value has the type of its key,
 * and that the keys which its format requires are there. */
static int
check_description(const cadre_json_source_t *source, const char *pointer, const json_t *object)
{
    if (!json_is_object(object)) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "data.%s must be an object, not %s",
                                      strrchr(pointer, '/') + 1, cadre_json_type_text(object));
    }

    const char *known[CADRE_COUNT_OF(description_keys)];
    for (size_t i = 0; i < CADRE_COUNT_OF(description_keys); i++) {
        known[i] = description_keys[i].key;
    }

    int status = cadre_json_source_check_keys(source, pointer, object, known,
                                              CADRE_COUNT_OF(description_keys));
    if (status < 0) {
        return status;
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(description_keys); i++) {
        const json_t *value = json_object_get(object, known[i]);
        if (!value) {
            continue;
        }
        char place[POINTER_SIZE];
        snprintf(place, sizeof(place), "%s/%s", pointer, known[i]);
        status = check_description_value(source, place, i, value);
        if (status < 0) {
            return status;
        }
    }

    /* "format" is checked first: it decides whether "labels_path" is needed, for labels in another
     * file. */
    static const char *const required[] = {"format", "path", "labels_path"};
    for (size_t i = 0; i < CADRE_COUNT_OF(required); i++) {
        cadre_data_format_t format = CADRE_DATA_CSV;
        cadre_data_format_find(json_string_value(json_object_get(object, "format")), &format);
        bool needed = i < 2 || cadre_data_format_has(format, CADRE_DATA_LABELS_FILE);
        if (needed && !json_object_get(object, required[i])) {
            return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                          "\"%s\" is missing in data.%s", required[i],
                                          strrchr(pointer, '/') + 1);
        }
    }

    return 0;
}

/* Returns the kind of label that a dataset's description says; without a word, classes. */
static cadre_job_label_t
label_kind(const json_t *description)
{
    const char *text = json_string_value(json_object_get(description, "label_kind"));
    return text ? (cadre_job_label_t)choice_position(CADRE_LABEL_KIND_WORDS, text)
                : CADRE_JOB_CLASS;
}

/* Reads a "test" such as {"fraction": 0.2, "seed": 1}: a random part of the training rows is held
 * out. */
static int
read_fraction(cadre_job_t *job, const cadre_json_source_t *source, const json_t *test)
{
    static const char *const known[] = {"fraction", "seed"};
    int status = cadre_json_source_check_keys(source, "/data/test", test, known, 2);
    if (status < 0) {
        return status;
    }

    const json_t *fraction = json_object_get(test, "fraction");
    double value = json_number_value(fraction);
    if (!json_is_number(fraction) || !(value > 0 && value < 1)) {
        return cadre_json_source_fail(source, "/data/test/fraction", CADRE_JSON_VALUE,
                                      "data.test.fraction must be a number between 0 and 1");
    }

    const json_t *seed = json_object_get(test, "seed");
    if (seed && (!json_is_integer(seed) || json_integer_value(seed) < 1)) {
        return cadre_json_source_fail(source, "/data/test/seed", CADRE_JSON_VALUE,
                                      "data.test.seed must be a whole number from 1 on");
    }

    if (json_object_get(job->train, "held_out")) {
        return cadre_json_source_fail(
            source, "/data/test/fraction", CADRE_JSON_KEY,
            "data.test.fraction does not go with \"held_out\" in data.train");
    }

    job->test_seed = json_integer_value(seed);
    job->test_fraction = value;
    return 0;
}

static bool
has_format(const json_t *description, const char *word)
{
    const char *format = json_string_value(json_object_get(description, "format"));
    return format && word && strcmp(format, word) == 0;
}

/* Returns whether the ids of all rows of a description are keys of 64 bits. */
static bool
has_keys(const json_t *description)
{
    return json_is_true(json_object_get(description, "keys"));
}

/* Reads the section "data": the training rows and the test rows, which are a fraction or a
 * dataset. */
static int
read_data(cadre_job_t *job, const cadre_json_source_t *source)
{
    const json_t *data = json_object_get(source->root, "data");
    json_t *train = json_object_get(data, "train");
    json_t *test = json_object_get(data, "test");

    if (!train) {
        return cadre_json_source_fail(source, "/data", CADRE_JSON_VALUE,
                                      "\"train\" is missing in data");
    }

    int status = check_description(source, "/data/train", train);
    if (status < 0) {
        return status;
    }

    job->train = json_deep_copy(train);
    job->label = label_kind(train);
    if (test && json_object_get(test, "fraction")) {
        status = read_fraction(job, source, test);
        if (status < 0) {
            return status;
        }
        test = NULL; /* the test rows are a part of the training data, not a dataset of their own */
    }

    status = check_ranges(source, "/data/train", train);
    if (status < 0 || !test) {
        return status;
    }

    status = check_description(source, "/data/test", test);
    if (status < 0) {
        return status;
    }

    status = check_ranges(source, "/data/test", test);
    if (status < 0) {
        return status;
    }

    cadre_data_format_t format = CADRE_DATA_CSV;
    cadre_data_format_find(json_string_value(json_object_get(test, "format")), &format);
    if (cadre_data_format_has(format, CADRE_DATA_WORDS)) {
        return cadre_json_source_fail(source, "/data/test", CADRE_JSON_VALUE,
                                      "data.test: another text has other ids; take a fraction of "
                                      "data.train, as {\"fraction\": 0.1}");
    }

    if (label_kind(test) != job->label) {
        return cadre_json_source_fail(source, "/data/test", CADRE_JSON_VALUE,
                                      "data.train and data.test differ in label_kind");
    }

    if (has_format(train, json_string_value(json_object_get(test, "format"))) &&
        has_keys(test) != has_keys(train)) {
        return cadre_json_source_fail(source, "/data/test", CADRE_JSON_VALUE,
                                      "data.train and data.test differ in keys: a key is three "
                                      "numbers of a row, say \"keys\": true in both or in none");
    }

    job->test = json_deep_copy(test);
    return 0;
}

/* --- metrics --- */

/* Which metrics a job may ask for, by the kind of its label: class, binary, value. */
static const struct {
    const char *word;
    bool has[3];
} metric_labels[] = {
    {"precision", {true, true, false}},
    {"recall", {true, true, false}},
    {"f1", {true, true, false}},
    {"auc", {false, true, false}},
    {"mae", {false, false, true}},
    {"rmse", {false, false, true}},
    {"top_k_accuracy", {true, false, false}},
    {"calibration_error", {false, true, false}},
    {"auc_exact", {false, true, false}},
    {"confusion_matrix", {true, true, false}},
};

/* Marks the metric of this word as one that evaluations compute. */
static void
take_metric(cadre_job_t *job, const char *word)
{
    for (cadre_metric_t metric = 0; metric < CADRE_METRICS; metric++) {
        job->metrics[metric] = job->metrics[metric] || strcmp(cadre_metric_word(metric), word) == 0;
    }
    job->confusion_matrix = job->confusion_matrix || strcmp(word, "confusion_matrix") == 0;
}

/* Reads entry `number` of "metrics", a word that must be known and go with the job's kind of
 * label. */
static int
read_metric(cadre_job_t *job, const cadre_json_source_t *source, size_t number, const json_t *value)
{
    const char *words[CADRE_COUNT_OF(metric_labels)];
    const char *word = json_string_value(value);
    char pointer[POINTER_SIZE];

    snprintf(pointer, sizeof(pointer), "/training/metrics/%zu", number);
    for (size_t i = 0; i < CADRE_COUNT_OF(metric_labels); i++) {
        words[i] = metric_labels[i].word;
        if (!word || strcmp(word, words[i]) != 0) {
            continue;
        }
        if (!metric_labels[i].has[job->label]) {
            return cadre_json_source_fail(
                source, pointer, CADRE_JSON_VALUE,
                "training.metrics: there is no %s of labels of this kind, \"%s\"", word,
                (const char *const[]){"class", "binary", "value"}[job->label]);
        }
        take_metric(job, word);
        return 0;
    }

    cadre_auto(cadre_free) char *hint =
        cadre_suggest_text(word ? word : "", words, CADRE_COUNT_OF(words));
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                  "training.metrics: this is none of precision, recall, f1, auc, "
                                  "mae, rmse, top_k_accuracy, calibration_error, "
                                  "auc_exact, confusion_matrix%s",
                                  hint);
}

/* Reads "metrics": which metrics evaluations compute besides loss and accuracy. The kind of label
 * must have been read. */
static int
read_metrics(cadre_job_t *job, const cadre_json_source_t *source)
{
    const json_t *metrics = json_object_get(json_object_get(source->root, "training"), "metrics");
    if (!metrics) {
        return 0;
    }
    if (!json_is_array(metrics)) {
        return cadre_json_source_fail(source, "/training/metrics", CADRE_JSON_VALUE,
                                      "training.metrics must be an array such as [\"f1\"], not "
                                      "%s",
                                      cadre_json_type_text(metrics));
    }
    if (!job->test && job->test_fraction == 0) {
        return cadre_json_source_fail(source, "/training/metrics", CADRE_JSON_VALUE,
                                      "training.metrics needs held-out rows: data.test");
    }

    for (size_t i = 0; i < json_array_size(metrics); i++) {
        int status = read_metric(job, source, i, json_array_get(metrics, i));
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* --- reading a whole job file --- */

/* Sets folder and default name from the path of the file: "examples/digits.json" is in "examples",
 * and its job is called "digits" unless the file names it. */
static void
read_place(cadre_job_t *job, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *stem = slash ? slash + 1 : file;
    job->file = cadre_strdup(file);
    job->folder =
        slash ? cadre_strndup(file, (size_t)(slash - file) + (slash == file)) : cadre_strdup(".");
    if (!job->name) {
        job->name = cadre_strndup(stem, strcspn(stem, "."));
    }
}

/* Reads a whole job file, after its JSON was parsed, into the job. The order of the readers
 * matters: metrics and model need the kind of label, which is in the data. */
static int
read_source(cadre_job_t *job, const cadre_json_source_t *source)
{
    int status = read_top(job, source);
    if (status < 0) {
        return status;
    }

    /* The plain settings of all sections come first: the readers of data, model and optimizer use
     * them. */
    for (size_t i = 0; i < CADRE_COUNT_OF(sections); i++) {
        status = read_section(job, source, i);
        if (status < 0) {
            return status;
        }
    }

    status = read_data(job, source);
    if (status < 0) {
        return status;
    }

    status = read_metrics(job, source);
    if (status < 0) {
        return status;
    }

    status = cadre_job_model_read(job, source);
    if (status < 0) {
        return status;
    }

    status = cadre_job_optimizer_read(job, source);
    if (status < 0) {
        return status;
    }

    status = cadre_job_local_read(job, source);
    if (status < 0) {
        return status;
    }

    read_place(job, source->file);
    return 0;
}

/* Reads a job file into a job that has its defaults. */
int
cadre_job_file_read(cadre_job_t *job, const char *path)
{
    cadre_auto(cadre_json_source_fini) cadre_json_source_t source = {0};
    int status = cadre_json_source_open(&source, path);
    if (status < 0) {
        return status;
    }
    return read_source(job, &source);
}

/* Reads a job from a text in memory; `file` is its path in messages. */
int
cadre_job_file_parse(cadre_job_t *job, const char *file, const char *text)
{
    cadre_auto(cadre_json_source_fini) cadre_json_source_t source = {0};
    int status = cadre_json_source_parse(&source, file, text);
    if (status < 0) {
        return status;
    }
    return read_source(job, &source);
}
