#include "coordinator/cli/train/job_optimizer.h"

#include <stdio.h>
#include <string.h>

#include <cadre/coordinator.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "coordinator/cli/train/suggest.h"

enum { KEYS_MAX = 32, POINTER_SIZE = 96 };

static const char AT_RATE[] = "/optimizer/learning_rate";

/* Fails at the place of a word that is not known, with the text of the last error and the nearest
 * of `words` as a suggestion. */
static int
fail_word(const cadre_json_source_t *source, const char *pointer, const char *text,
          const char *const *words, size_t count)
{
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    cadre_auto(cadre_free) char *hint = cadre_suggest_text(text, words, count);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s%s", reason, hint);
}

/* Fails at the place of a value, with the text of the last error. */
static int
fail_value(const cadre_json_source_t *source, const char *pointer)
{
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s", reason);
}

/* Fails at the place of a value that is of another type than `wanted`, as messages name it. */
static int
fail_type(const cadre_json_source_t *source, const char *pointer, const char *wanted,
          const json_t *value)
{
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s must be %s, not %s", field,
                                  wanted, cadre_json_type_text(value));
}

/* --- the schedule of the learning rate --- */

/* Reads the list under `key`, of at most CADRE_SCHEDULE_BOUNDARIES_MAX + 1 numbers. */
static int
read_numbers(const cadre_json_source_t *source, const json_t *object, const char *key,
             double numbers[CADRE_SCHEDULE_BOUNDARIES_MAX + 1], size_t *count)
{
    char pointer[POINTER_SIZE];
    snprintf(pointer, sizeof(pointer), "%s/%s", AT_RATE, key);
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list)) {
        return list ? fail_type(source, pointer, "a list of numbers", list)
                    : cadre_json_source_fail(source, AT_RATE, CADRE_JSON_VALUE,
                                             "optimizer.learning_rate: piecewise_constant needs "
                                             "\"boundaries\" and \"values\"");
    }
    if (json_array_size(list) > CADRE_SCHEDULE_BOUNDARIES_MAX + 1) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "%zu numbers are more than %d boundaries and %d values",
                                      json_array_size(list), CADRE_SCHEDULE_BOUNDARIES_MAX,
                                      CADRE_SCHEDULE_BOUNDARIES_MAX + 1);
    }

    *count = json_array_size(list);
    for (size_t i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number)) {
            return fail_type(source, pointer, "a list of numbers", list);
        }
        numbers[i] = json_number_value(number);
    }
    return 0;
}

/* Reads "boundaries" and "values" as Keras has them: values has one number more, and the first of
 * them, the rate up to the first boundary, becomes the optimizer's learning rate. */
static int
read_boundaries(cadre_optimizer_spec_t *spec, cadre_schedule_spec_t *schedule,
                const cadre_json_source_t *source, const json_t *object)
{
    double boundaries[CADRE_SCHEDULE_BOUNDARIES_MAX + 1] = {0};
    double values[CADRE_SCHEDULE_BOUNDARIES_MAX + 1] = {0};
    size_t boundary_count = 0;
    size_t value_count = 0;
    int status = read_numbers(source, object, "boundaries", boundaries, &boundary_count);
    if (status < 0) {
        return status;
    }
    status = read_numbers(source, object, "values", values, &value_count);
    if (status < 0) {
        return status;
    }

    if (value_count != boundary_count + 1) {
        return cadre_json_source_fail(source, AT_RATE, CADRE_JSON_VALUE,
                                      "optimizer.learning_rate: %zu boundaries need %zu values, "
                                      "not %zu",
                                      boundary_count, boundary_count + 1, value_count);
    }

    if (boundary_count > 0) {
        schedule->boundary_count = boundary_count;
        memcpy(schedule->boundaries, boundaries, sizeof(schedule->boundaries));
        memcpy(schedule->values, values + 1, sizeof(schedule->values));
    }
    return cadre_optimizer_spec_set(spec, "learning_rate", values[0]) < 0
               ? fail_value(source, AT_RATE)
               : 0;
}

/* Reads the parameters of a schedule that the file gives, numbers and switches, and checks
 * ranges. */
static int
read_parameters(cadre_schedule_spec_t *schedule, const cadre_json_source_t *source,
                const json_t *object)
{
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_schedule_parameters(schedule->kind, &table);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, table[i].name);
        if (!value) {
            continue;
        }

        char pointer[POINTER_SIZE];
        snprintf(pointer, sizeof(pointer), "%s/%s", AT_RATE, table[i].name);
        const bool is_switch =
            strcmp(table[i].name, "staircase") == 0 || strcmp(table[i].name, "cycle") == 0;
        if (is_switch ? !json_is_boolean(value) : !json_is_number(value)) {
            return fail_type(source, pointer, is_switch ? "true or false" : "a number", value);
        }

        schedule->parameters[i] = is_switch ? json_is_true(value) : json_number_value(value);
        if (cadre_parameter_check(&table[i], cadre_schedule_kind_text(schedule->kind),
                                  schedule->parameters[i]) < 0) {
            return fail_value(source, pointer);
        }
    }
    return 0;
}

/* Checks that the object of the schedule has no key but those of its kind. Two names stand first
 * that differ: a piecewise_constant rate has "boundaries" and "values", others have "initial". */
static int
check_schedule_keys(const cadre_schedule_spec_t *schedule, const cadre_json_source_t *source,
                    const json_t *object)
{
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_schedule_parameters(schedule->kind, &table);
    const bool is_piecewise = schedule->kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT;
    const char *known[CADRE_SCHEDULE_PARAMETERS_MAX + 3] = {
        "schedule", is_piecewise ? "boundaries" : "initial", is_piecewise ? "values" : NULL};
    for (size_t i = 0; i < count; i++) {
        known[i + 3] = table[i].name;
    }
    return cadre_json_source_check_keys(source, AT_RATE, object, known, count + 3);
}

/* Reads "initial", with which the schedule begins, as the optimizer's learning rate. */
static int
read_initial(cadre_optimizer_spec_t *spec, const cadre_json_source_t *source, const json_t *object)
{
    static const char pointer[] = "/optimizer/learning_rate/initial";
    const json_t *initial = json_object_get(object, "initial");
    if (!initial) {
        return 0;
    }
    if (!json_is_number(initial)) {
        return fail_type(source, pointer, "a number", initial);
    }
    return cadre_optimizer_spec_set(spec, "learning_rate", json_number_value(initial)) < 0
               ? fail_value(source, pointer)
               : 0;
}

/* Reads the object that stands in place of a learning rate: a schedule, its parameters, and the
 * rate that it begins with. */
static int
read_schedule(cadre_optimizer_spec_t *spec, const cadre_json_source_t *source, const json_t *object)
{
    static const char *const words[] = {
#define X(name, number, word) word,
        CADRE_SCHEDULE_LIST(X)
#undef X
    };
    const json_t *kind = json_object_get(object, "schedule");
    if (!json_is_string(kind)) {
        return cadre_json_source_fail(source, AT_RATE, CADRE_JSON_VALUE,
                                      "optimizer.learning_rate needs \"schedule\": its kind, such "
                                      "as \"cosine\"");
    }

    const char *word = json_string_value(kind);
    cadre_schedule_spec_t schedule;
    if (cadre_schedule_spec_parse(&schedule, word) < 0) {
        return fail_word(source, "/optimizer/learning_rate/schedule", word, words,
                         CADRE_COUNT_OF(words));
    }

    int status = check_schedule_keys(&schedule, source, object);
    if (status < 0) {
        return status;
    }
    status = read_initial(spec, source, object);
    if (status < 0) {
        return status;
    }
    status = read_parameters(&schedule, source, object);
    if (status < 0) {
        return status;
    }
    if (schedule.kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT) {
        status = read_boundaries(spec, &schedule, source, object);
        if (status < 0) {
            return status;
        }
    }

    spec->schedule = schedule;
    return cadre_optimizer_spec_check(spec, CADRE_F32) < 0 ? fail_value(source, AT_RATE) : 0;
}

/* --- the section "optimizer" --- */

/* Checks the keys of the section: plain settings, and the parameters of this optimizer. */
static int
check_keys(const cadre_json_source_t *source, const json_t *optimizer,
           const cadre_optimizer_spec_t *spec)
{
    static const char section[] = "optimizer.";
    const char *known[KEYS_MAX] = {NULL};
    size_t count = 0;
    size_t setting_count = 0;
    const cadre_setting_t *settings = cadre_job_settings(&setting_count);
    for (size_t i = 0; i < setting_count; i++) {
        if (strncmp(settings[i].name, section, strlen(section)) == 0) {
            known[count++] = settings[i].name + strlen(section);
        }
    }

    const cadre_parameter_t *table = NULL;
    const size_t parameter_count = cadre_optimizer_parameters(spec->kind, &table);
    cadre_assert(count + parameter_count <= KEYS_MAX);
    for (size_t i = 0; i < parameter_count; i++) {
        known[count++] = table[i].name;
    }
    return cadre_json_source_check_keys(source, "/optimizer", optimizer, known, count);
}

/* Refuses more than one way of clipping, as Keras does, and clipping with the optimizer add, which
 * adds pushed values as they are. */
static int
check_clipping(const cadre_job_t *job, const cadre_json_source_t *source)
{
    const int ways = (job->clip_value > 0) + (job->clip_norm > 0) + (job->global_clip_norm > 0);
    if (ways > 1) {
        return cadre_json_source_fail(source, "/optimizer", CADRE_JSON_VALUE,
                                      "optimizer takes one of clip_value, clip_norm and "
                                      "global_clip_norm");
    }
    if (ways > 0 && strcmp(job->optimizer, "add") == 0) {
        return cadre_json_source_fail(source, "/optimizer", CADRE_JSON_VALUE,
                                      "optimizer: add takes what is pushed as it is; clipping is "
                                      "for gradients");
    }
    return 0;
}

/* Reads one parameter of the optimizer; learning_rate may be a schedule. A value out of the range
 * of the optimizer fails at its place in the file. */
static int
read_parameter(cadre_optimizer_spec_t *spec, const cadre_json_source_t *source, const char *name,
               const json_t *value)
{
    if (strcmp(name, "learning_rate") == 0 && json_is_object(value)) {
        return read_schedule(spec, source, value);
    }

    char pointer[POINTER_SIZE];
    snprintf(pointer, sizeof(pointer), "/optimizer/%s", name);
    if (!json_is_number(value)) {
        return fail_type(source, pointer, "a number", value);
    }
    return cadre_optimizer_spec_set(spec, name, json_number_value(value)) < 0
               ? fail_value(source, pointer)
               : 0;
}

/* Reads the section "optimizer": the parameters of the job's optimizer, and the schedule of its
 * learning rate. The plain settings must have been read. */
int
cadre_job_optimizer_read(cadre_job_t *job, const cadre_json_source_t *source)
{
    static const char *const words[] = {
#define X(name, number, word) word,
        CADRE_OPTIMIZER_LIST(X)
#undef X
    };
    cadre_optimizer_spec_t spec = {.kind = CADRE_OPTIMIZER_SGD};
    if (cadre_optimizer_spec_parse(&spec, job->optimizer) < 0) {
        return fail_word(source, "/optimizer/type", job->optimizer, words, CADRE_COUNT_OF(words));
    }

    const json_t *optimizer = json_object_get(source->root, "optimizer");
    if (optimizer) {
        int status = check_keys(source, optimizer, &spec);
        if (status < 0) {
            return status;
        }
        status = check_clipping(job, source);
        if (status < 0) {
            return status;
        }
    }

    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_optimizer_parameters(spec.kind, &table);
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_object_get(optimizer, table[i].name);
        int status = value ? read_parameter(&spec, source, table[i].name, value) : 0;
        if (status < 0) {
            return status;
        }
        if (value) {
            json_object_set(job->optimizer_parameters, table[i].name, value);
        }
    }

    if (job->ema_overwrite_frequency > 0 && !job->use_ema) {
        return cadre_json_source_fail(source, "/optimizer/ema_overwrite_frequency",
                                      CADRE_JSON_VALUE,
                                      "optimizer.ema_overwrite_frequency needs \"use_ema\": true");
    }

    if (job->lazy && job->use_ema) {
        return cadre_json_source_fail(source, "/optimizer/lazy", CADRE_JSON_VALUE,
                                      "optimizer.lazy does not go with use_ema: averages move in "
                                      "all rows");
    }

    if (job->base_batch_size > 0 && job->scale_with == CADRE_SCALE_NONE) {
        return cadre_json_source_fail(source, "/optimizer/base_batch_size", CADRE_JSON_VALUE,
                                      "optimizer.base_batch_size needs \"scale_with\": \"linear\" "
                                      "or \"sqrt\"");
    }

    spec.clip_value = job->clip_value;
    job->optimizer_spec = spec;
    return 0;
}

/* --- scaling --- */

/* Returns the factor of the learning rate: rows of one update over base_batch_size, or its root. */
static double
rate_factor(const cadre_job_t *job)
{
    const bool is_sync = (cadre_consistency_t)job->consistency == CADRE_SYNC;
    const int64_t rows = job->batch_size * (is_sync ? job->step_closures : 1);
    const int64_t base = job->base_batch_size > 0 ? job->base_batch_size : job->batch_size;
    double factor = 1;
    int status = cadre_scaled_rate((cadre_scale_t)job->scale_with, 1, rows, base, &factor);
    cadre_assert(status == 0); /* the ranges of the settings are narrower than those of the call */
    return factor;
}

/* Returns the optimizer with all its learning rates, those of a schedule too, scaled by the rows of
 * one update. */
cadre_optimizer_spec_t
cadre_job_optimizer_scaled(const cadre_job_t *job)
{
    const double factor = rate_factor(job);
    cadre_optimizer_spec_t spec = job->optimizer_spec;
    spec.parameters[CADRE_LEARNING_RATE] *= factor;
    for (size_t i = 0; i < spec.schedule.boundary_count; i++) {
        spec.schedule.values[i] *= factor;
    }
    if (spec.schedule.kind == CADRE_SCHEDULE_POLYNOMIAL) {
        spec.schedule.parameters[CADRE_POLYNOMIAL_END] *= factor;
    }
    return spec;
}
