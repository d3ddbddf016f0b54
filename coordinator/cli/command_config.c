#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/launch/data_path.h"
#include "coordinator/cli/launch/host_devices.h"
#include "coordinator/cli/launch/trace_folder.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/verb.h"

enum { KEY_ORIGIN = 0x2000, OPTIONS_MAX = CADRE_SETTING_FLAGS_MAX + CADRE_OTHER_FLAGS_MAX + 1 };

typedef struct {
    cadre_verb_words_t words; /* the command's words: check or show, and a job file */
    cadre_given_settings_t given;
    bool origin;
} flags_t;

/* Takes one option, one of the two words behind the verb, or the end of the command line; called by
 * argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case KEY_ORIGIN:
        self->origin = true;
        break;
    case ARGP_KEY_ARG:
        if (!cadre_verb_words_take(&self->words, argument)) {
            argp_error(state, "one job file, not also \"%s\"", argument);
        }
        break;
    case ARGP_KEY_END:
        cadre_verb_words_check(&self->words, (const char *const[]){"check", "show", NULL}, state);
        if (!self->words.object) {
            argp_error(state, "a job file is missing");
        }
        break;
    default:
        return cadre_setting_flags_take(&self->given, key, argument, state) ? 0 : ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Prints one setting, "none" where it has no value; `with_origin`: also where its value comes
 * from. */
static void
show_line(const char *name, const char *text, bool with_origin, const char *origin)
{
    text = *text ? text : "none";
    if (with_origin) {
        printf("%-32s %-32s # %s\n", name, text, origin);
    } else {
        printf("%-32s %s\n", name, text);
    }
}

/* Prints a value that is no plain setting (data, layers), so that only a job file can give it.
 * Takes the reference to `value`; NULL: not given. */
static void
show_value(const char *name, json_t *value, bool origin)
{
    cadre_auto(cadre_free) char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY)
              : cadre_strdup("");
    show_line(name, text, origin,
              cadre_origin_text(value ? CADRE_ORIGIN_FILE : CADRE_ORIGIN_DEFAULT));
    json_decref(value);
}

/* Returns the numbers as a JSON array; NULL if there are none. */
static json_t *
array_of(const int64_t *numbers, size_t count)
{
    json_t *array = count > 0 ? json_array() : NULL;
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, json_integer(numbers[i]));
    }
    return array;
}

/* Returns the job's test rows as the job file gives them: a description of a dataset, a fraction of
 * the training rows, or NULL. */
static json_t *
test_rows(const cadre_job_t *job)
{
    if (job->test) {
        return json_incref(job->test);
    }
    if (job->test_fraction == 0) {
        return NULL;
    }

    json_t *rows = json_pack("{s:f}", "fraction", job->test_fraction);
    if (job->test_seed) {
        json_object_set_new(rows, "seed", json_integer(job->test_seed));
    }

    return rows;
}

/* Returns the parameters of the inner optimizer with their values, defaults included; NULL if the
 * job has none. */
static json_t *
inner_parameters(const cadre_job_t *job)
{
    const cadre_parameter_t *table = NULL;
    const cadre_optimizer_spec_t *spec = &job->inner_spec;
    size_t count = job->inner ? cadre_optimizer_parameters(spec->kind, &table) : 0;
    json_t *parameters = job->inner ? json_object() : NULL;
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(parameters, table[i].name, json_real(spec->parameters[i]));
    }
    return parameters;
}

/* Prints every setting of the job, then what is no plain setting: lists, parameters and data. */
static void
show(const cadre_job_t *job, bool origin)
{
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    cadre_auto(cadre_free) char *by_strategy =
        cadre_asprintf("from strategy %s", cadre_job_strategy_word(job));
    for (size_t i = 0; i < count; i++) {
        cadre_auto(cadre_free) char *text = cadre_job_text(job, &settings[i]);
        cadre_auto(cadre_free) char *clean = cadre_calloc(strlen(text) + 1, 1);
        cadre_utf8_clean(text, strlen(text), clean);
        const char *from = cadre_origin_text(job->origins[i]);
        from = job->origins[i] == CADRE_ORIGIN_STRATEGY ? by_strategy : from;
        from = job->origins[i] == CADRE_ORIGIN_CONSISTENCY ? "from consistency sync" : from;
        show_line(settings[i].name, clean, origin, from);
    }

    show_value("model.hidden", array_of(job->hidden, job->hidden_count), origin);
    show_value("model.input", array_of(job->input, job->input_rank), origin);
    show_value("model.filters", array_of(job->filters, job->filter_count), origin);
    show_value("model.fields", array_of(job->lookup.fields, job->lookup.field_count), origin);
    show_value("model.table", json_incref(job->lookup_table), origin);
    show_value("model.layers", json_incref(job->layer_list), origin);
    show_value("optimizer parameters", json_incref(job->optimizer_parameters), origin);
    show_value("training.inner parameters", inner_parameters(job), origin);
    show_value("data.train", json_incref(job->train), origin);
    show_value("data.test", test_rows(job), origin);
}

/* Checks that `cadre run` could write the traces that the job asks for. */
static int
check_trace(const cadre_job_t *job)
{
    if (!job->trace || cadre_trace_folder_check(job->trace) == 0) {
        return 0;
    }
    cadre_auto(cadre_free) char *place = cadre_job_place(job, "cluster.trace", "trace");
    return cadre_fail_within(CADRE_EIO, "%s", place);
}

/* Checks that `cadre run` could write where the job says. */
static int
check_outputs(const cadre_job_t *job)
{
    int status = cadre_job_check_checkpoints(job);
    return status < 0 ? status : check_trace(job);
}

/* Checks that the data files that the job names exist, where `cadre run` would look for them. */
static int
check_data(const cadre_job_t *job)
{
    const json_t *descriptions[] = {job->train, job->test};
    for (size_t i = 0; i < CADRE_COUNT_OF(descriptions); i++) {
        json_t *resolved = NULL;
        int status =
            descriptions[i] ? cadre_data_resolve(job, descriptions[i], true, &resolved) : 0;
        json_decref(resolved);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Reads the job as `cadre run` would; for "check" (`is_check`) also builds its model. */
static int
read_job(const flags_t *flags, bool is_check, cadre_job_t *job)
{
    int status =
        cadre_verb_read_job(job, flags->words.object, flags->given.list, flags->given.count);
    if (status < 0) {
        return status;
    }

    status = cadre_host_devices_place(job, NULL);
    if (status < 0) {
        return status;
    }

    status = cadre_job_finish(job);
    if (status < 0) {
        return status;
    }

    return is_check ? cadre_model_check(job) : 0;
}

/* Prints whether a run would find the data that the job names and could write its checkpoints and
 * traces. Returns an exit code. */
static int
check(const cadre_job_t *job, const char *file)
{
    int status = check_data(job);
    if (status < 0) {
        fprintf(stderr, "%s\n%s is sound, but its data is not here\n", cadre_error_text(), file);
        return cadre_exit_code(status);
    }

    if (check_outputs(job) < 0) {
        fprintf(stderr, "%s\n", cadre_error_text());
        return CADRE_EXIT_CANNOT_WRITE;
    }

    printf("%s: OK\n", file);
    return CADRE_EXIT_OK;
}

/* Runs `cadre config`: checks or shows a job file, and returns the exit code. */
int
cadre_command_config(int argc, char **argv)
{
    struct argp_option options[OPTIONS_MAX] = {0};
    size_t count = cadre_setting_flags_options(true, options);
    options[count] =
        (struct argp_option){"origin", KEY_ORIGIN, 0, 0, "Say where each value is from", 0};
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "check JOB.json\nshow JOB.json",
        .doc = "Checks a job file, that the files it names are here (exit 66 when they are not) "
               "and that "
               "checkpoints and traces can be written where it says (73), or shows every setting "
               "as a run here "
               "would have it: file, then environment, then flags, which are those of `cadre run`, "
               "and what the strategy means.",
    };
    flags_t flags = {0};

    argv[0] = "cadre config";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    bool is_check = strcmp(flags.words.what, "check") == 0;
    int status = read_job(&flags, is_check, &job);
    if (status < 0) {
        fprintf(stderr, "%s\n", cadre_error_text());
        return cadre_exit_code(status);
    }

    if (is_check) {
        return check(&job, flags.words.object);
    }

    show(&job, flags.origin);
    return CADRE_EXIT_OK;
}
