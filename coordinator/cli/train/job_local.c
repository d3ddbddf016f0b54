#include "coordinator/cli/train/job_local.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/inner_optimizer.h"

enum { POINTER_SIZE = 96 };

static const char AT_INNER[] = "/training/inner";

/* Checks that each key of "training.inner" is its type or a parameter of its optimizer. */
static int
check_keys(const cadre_json_source_t *source, const json_t *inner,
           const cadre_optimizer_spec_t *spec)
{
    const char *known[CADRE_OPTIMIZER_PARAMETERS_MAX + 1] = {"type"};
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_optimizer_parameters(spec->kind, &table);
    for (size_t i = 0; i < count; i++) {
        known[i + 1] = table[i].name;
    }
    return cadre_json_source_check_keys(source, AT_INNER, inner, known, count + 1);
}

/* Reads one parameter of the inner optimizer; its learning rate cannot be a schedule. */
static int
read_parameter(cadre_optimizer_spec_t *spec, const cadre_json_source_t *source, const char *name,
               const json_t *value)
{
    char pointer[POINTER_SIZE];
    snprintf(pointer, sizeof(pointer), "%s/%s", AT_INNER, name);
    if (json_is_object(value) && strcmp(name, "learning_rate") == 0) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "training.inner.learning_rate must be a number: a closure "
                                      "does not know how many steps were before it, and a schedule "
                                      "is for the outer \"optimizer\"");
    }
    if (!json_is_number(value)) {
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE,
                                      "training.inner.%s must be a number, not %s", name,
                                      cadre_json_type_text(value));
    }
    if (cadre_optimizer_spec_set(spec, name, json_number_value(value)) < 0) {
        cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
        return cadre_json_source_fail(source, pointer, CADRE_JSON_VALUE, "%s", reason);
    }
    return 0;
}

/* Reads "training.inner": the optimizer that closures run, and its parameters. */
int
cadre_job_local_read(cadre_job_t *job, const cadre_json_source_t *source)
{
    const json_t *inner = json_object_get(json_object_get(source->root, "training"), "inner");
    if (!inner) {
        return 0;
    }
    if (!job->inner) {
        return cadre_json_source_fail(
            source, AT_INNER, CADRE_JSON_VALUE,
            "training.inner needs \"type\": one of " CADRE_INNER_OPTIMIZER_WORDS);
    }

    cadre_optimizer_spec_t spec;
    if (cadre_optimizer_spec_parse(&spec, job->inner) < 0 ||
        !cadre_inner_optimizer_has(spec.kind)) {
        return cadre_json_source_fail(
            source, "/training/inner/type", CADRE_JSON_VALUE,
            "training.inner.type: closures can run " CADRE_INNER_OPTIMIZER_WORDS ", not \"%.64s\"",
            job->inner);
    }

    int status = check_keys(source, inner, &spec);
    if (status < 0) {
        return status;
    }

    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_optimizer_parameters(spec.kind, &table);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(inner, table[i].name);
        status = value ? read_parameter(&spec, source, table[i].name, value) : 0;
        if (status < 0) {
            return status;
        }
    }

    job->inner_spec = spec;
    return 0;
}

bool
cadre_job_is_local(const cadre_job_t *job)
{
    return job->local_steps > 1 || job->inner;
}

cadre_optimizer_spec_t
cadre_job_inner(const cadre_job_t *job)
{
    return job->inner ? job->inner_spec : job->optimizer_spec;
}

/* Returns the optimizer on the ps of a job with local steps: "optimizer" or, where that is the one
 * that closures run, sgd with the learning rate 1, which takes over what the closure came to. */
cadre_optimizer_spec_t
cadre_job_outer(const cadre_job_t *job)
{
    cadre_optimizer_spec_t spec = job->optimizer_spec;
    if (!job->inner) {
        spec = (cadre_optimizer_spec_t){.kind = CADRE_OPTIMIZER_SGD};
        spec.parameters[CADRE_LEARNING_RATE] = 1;
        return spec;
    }

    const bool has_rate = json_object_get(job->optimizer_parameters, "learning_rate");
    if (spec.kind == CADRE_OPTIMIZER_SGD && !has_rate) {
        spec.parameters[CADRE_LEARNING_RATE] = 1;
    }
    spec.clip_value = 0; /* gradients are clipped where they are, in the closure */
    return spec;
}

/* Checks that the settings of a job with local steps go together. */
int
cadre_job_local_check(const cadre_job_t *job)
{
    if (!cadre_job_is_local(job)) {
        return 0;
    }

    if (!cadre_inner_optimizer_has(cadre_job_inner(job).kind)) {
        return cadre_fail(
            CADRE_ECONFIG,
            "%s: training.local_steps %lld: closures can run " CADRE_INNER_OPTIMIZER_WORDS
            ", not %s: name one of them as "
            "training.inner, and %s is the outer optimizer, on the ps",
            job->file, (long long)job->local_steps, job->optimizer, job->optimizer);
    }

    if (!job->inner && job->optimizer_spec.schedule.kind != 0) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: training.local_steps %lld: optimizer.learning_rate must be a number "
                          "where closures run the optimizer, which do not know how many steps were "
                          "before; or name a training.inner, and the schedule is that of the outer "
                          "optimizer",
                          job->file, (long long)job->local_steps);
    }

    if (job->scale_with != CADRE_SCALE_NONE) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s: optimizer.scale_with does not go with local steps, whose outer "
                          "update is no gradient of so many rows: set the learning rates",
                          job->file);
    }

    return 0;
}
