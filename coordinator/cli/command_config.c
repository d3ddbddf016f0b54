#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "common/memory.h"
#include "common/status.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/job_file.h"

enum { KEY_ORIGIN = 0x1000 };

typedef struct {
    const char *what; /* "check" or "show" */
    const char *file;
    bool origin;
} flags_t;

static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case KEY_ORIGIN:
        self->origin = true;
        break;
    case ARGP_KEY_ARG:
        if (self->file) {
            argp_error(state, "one job file, not also \"%s\"", argument);
        }
        *(self->what ? &self->file : &self->what) = argument;
        break;
    case ARGP_KEY_END:
        if (!self->what || (strcmp(self->what, "check") != 0 && strcmp(self->what, "show") != 0)) {
            argp_error(state, "say check or show");
        }
        if (!self->file) {
            argp_error(state, "a job file is missing");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void
show(const cadre_job_t *job, bool origin)
{
    size_t count;
    const cadre_setting_t *settings = cadre_job_settings(&count);
    for (size_t i = 0; i < count; i++) {
        cadre_auto(cadre_free) char *text = cadre_job_text(job, &settings[i]);
        if (origin) {
            printf("%-32s %-32s # %s\n", settings[i].name, text,
                   cadre_origin_text(job->origins[i]));
        } else {
            printf("%-32s %s\n", settings[i].name, text);
        }
    }
    cadre_auto(cadre_free) char *optimizer =
        json_dumps(job->optimizer_parameters, JSON_COMPACT | JSON_REAL_PRECISION(9));
    cadre_auto(cadre_free) char *train =
        json_dumps(job->train, JSON_COMPACT | JSON_REAL_PRECISION(9));
    printf("%-32s %s\n%-32s %s\n", "optimizer parameters", optimizer, "data.train", train);
}

int
cadre_command_config(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"origin", KEY_ORIGIN, 0, 0, "Say where each value is from", 0}, {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "check JOB.json\nshow JOB.json",
        .doc = "Checks a job file, or shows every setting as a run here would have it: file, then "
               "environment.",
    };
    flags_t flags = {0};
    argv[0] = "cadre config";
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_auto(cadre_job_fini) cadre_job_t job;
    cadre_job_init(&job);
    int status = cadre_job_file_read(&job, flags.file);
    if (status == 0 && cadre_job_set_environment(&job) < 0) {
        status = cadre_fail_within(CADRE_ECONFIG, "the environment");
    }
    if (status == 0) {
        status = cadre_job_finish(&job);
    }
    if (status < 0) {
        fprintf(stderr, "%s\n", cadre_error_text());
        return cadre_exit_code(status);
    }
    if (strcmp(flags.what, "show") == 0) {
        show(&job, flags.origin);
    } else {
        printf("%s: OK\n", flags.file);
    }
    return CADRE_EXIT_OK;
}
