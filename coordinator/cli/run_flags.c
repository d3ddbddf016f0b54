#include "coordinator/cli/run_flags.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/http/http_address.h"
#include "common/net/security.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/terminal/command_text.h"
#include "coordinator/cli/terminal/exit_code.h"

enum {
    KEY_NATIVE = 0x2000,
    KEY_EVENTS,
    KEY_LOG_LEVEL,
    KEY_KEEP_SESSION,
    KEY_ADDRESS,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_HTTP,
};

/* Most options of a verb, with the empty one at the end. */
enum { OPTIONS_MAX = CADRE_SETTING_FLAGS_MAX + CADRE_OTHER_FLAGS_MAX + 1 };

/* Writes the options of the verb into `options`, which is zeroed, and returns how many there are.
 * `local`: the verb is `run`, which starts tasks here and has flags for them; else `train`. */
static size_t
make_options(bool local, struct argp_option *options)
{
    size_t count = cadre_setting_flags_options(local, options);
    if (local) {
        options[count++] = (struct argp_option){
            "native", KEY_NATIVE, "FILE", 0, "A shared object for the workers; may be repeated", 0};
        options[count++] = (struct argp_option){
            "keep-session", KEY_KEEP_SESSION, 0, 0, "Keep the session directory with its logs", 0};
    } else {
        options[count++] =
            (struct argp_option){"address",
                                 KEY_ADDRESS,
                                 "ENDPOINT",
                                 0,
                                 "Where to bind (default: as CADRE_CLUSTER or TF_CONFIG says)",
                                 0};
        options[count++] =
            (struct argp_option){"keys", KEY_KEYS, "DIR", 0, CADRE_SECURITY_KEYS_HELP, 0};
        options[count++] = (struct argp_option){
            "insecure-transport", KEY_INSECURE_TRANSPORT, 0, 0, CADRE_SECURITY_INSECURE_HELP, 0};
    }

    options[count++] = (struct argp_option){
        "output", 'o', "json|text", 0, "The result as JSON in the last line of stdout", 0};
    options[count++] = (struct argp_option){
        "events", KEY_EVENTS, "FILE", 0, "What happens, one JSON object per line", 0};
    options[count++] = (struct argp_option){
        "http",
        KEY_HTTP,
        "ADDRESS",
        0,
        "Where the coordinator answers /livez, /readyz and /metrics: PORT (on 127.0.0.1), "
        "HOST:PORT, *:PORT or [IPV6]:PORT (default: CADRE_HTTP, else nowhere)",
        0};
    options[count++] = (struct argp_option){
        "log-level",
        KEY_LOG_LEVEL,
        "LEVEL",
        0,
        "Events of the coordinator to show: debug, info, warn or error (default: warn)",
        0};
    return count;
}

/* Adds a shared object of --native by its absolute path, as workers may run in another folder. */
static void
add_native(cadre_run_flags_t *self, const char *path, const struct argp_state *state)
{
    char *whole = realpath(path, NULL);
    if (!whole) {
        argp_failure(state, CADRE_EXIT_NO_INPUT, errno, "--native %s", path);
    } else if (self->native_count == CADRE_NATIVES_MAX) {
        argp_failure(state, CADRE_EXIT_USAGE, 0, "more than %d --native", CADRE_NATIVES_MAX);
    } else {
        self->natives[self->native_count++] = whole;
    }
}

/* Sets the log level from its word; 'D', 'I', 'W' or 'E' are the letters of the levels in order. */
static void
set_log_level(cadre_run_flags_t *self, const char *text, const struct argp_state *state)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            self->log_level = "DIWE"[i];
            return;
        }
    }
    argp_error(state, "--log-level: \"%s\" is none of debug, info, warn, error", text);
}

/* Notes a flag that a program has no use for, and what a program does in its place; the first one
 * counts. */
static void
note_job_only(cadre_run_flags_t *self, const char *flag, const char *in_program)
{
    if (!self->job_only) {
        self->job_only = flag;
        self->in_program = in_program;
    }
}

/* Takes a flag that is no setting of the job, the job file, or the end of the command line; called
 * by argp. */
static error_t
parse_other(int key, char *argument, struct argp_state *state)
{
    cadre_run_flags_t *self = state->input;
    switch (key) {
    case KEY_NATIVE:
        add_native(self, argument, state);
        break;
    case KEY_EVENTS:
        self->events = argument;
        break;
    case KEY_LOG_LEVEL:
        set_log_level(self, argument, state);
        note_job_only(self, "log-level", "gets all events by cadre_coordinator_options_t.log");
        break;
    case KEY_KEEP_SESSION:
        self->keep_session = true;
        break;
    case KEY_ADDRESS:
        self->address = argument;
        break;
    case KEY_KEYS:
        self->keys = argument;
        break;
    case KEY_INSECURE_TRANSPORT:
        self->insecure = true;
        break;
    case KEY_HTTP:
        if (cadre_http_address_parse(argument, &(cadre_endpoint_t){.port = 0}) < 0) {
            argp_error(state, "--http: %s", cadre_error_text());
        }
        self->http = argument;
        note_job_only(self, "http", "says where in cadre_coordinator_options_t.http");
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        note_job_only(self, "output", "prints its result itself");
        break;
    case ARGP_KEY_ARG:
        if (self->job_file || self->program) {
            argp_error(state, "one job file, not also \"%s\"; a program is given after --",
                       argument);
        }
        self->job_file = argument;
        break;
    case ARGP_KEY_END:
        if (!self->job_file && !self->program) {
            argp_error(state, "a job file is missing");
        }
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Takes one option; called by argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    cadre_run_flags_t *self = state->input;
    const cadre_setting_flag_t *flag =
        cadre_setting_flags_take(&self->settings, key, argument, state);
    if (!flag) {
        return parse_other(key, argument, state);
    }
    if (flag->in_program) {
        note_job_only(self, flag->flag, flag->in_program);
    }
    return 0;
}

/* Returns a copy of the command that the user typed, the part behind "--" included, for hints on
 * how to go on. */
static char **
typed_command(int argc, char **argv)
{
    char **command = cadre_calloc((size_t)argc + 2, sizeof(*command));
    command[0] = cadre_strdup(cadre_command_name());
    for (int i = 0; i < argc; i++) {
        command[i + 1] = cadre_strdup(argv[i]);
    }
    return command;
}

/* Reads the command line of `cadre run` (`local`) or `cadre train`. */
int
cadre_run_flags_read(cadre_run_flags_t *self, bool local, int argc, char **argv)
{
    struct argp_option options[OPTIONS_MAX] = {0};
    make_options(local, options);
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = local ? "JOB.json\n-- PROGRAM ARGS..." : "JOB.json",
        .doc = local ? "Starts ps and workers on this machine and trains the job on them, or runs "
                       "the program, which is then the coordinator. Ctrl-C once stops, after a "
                       "checkpoint if any are taken, twice kills."
                     : "Trains the job on the cluster that CADRE_CLUSTER, TF_CONFIG or --address "
                       "names, as its coordinator.",
    };
    *self =
        (cadre_run_flags_t){.local = local, .log_level = 'W', .command = typed_command(argc, argv)};
    /* The arguments behind "--" are the user's program and its flags: argp must not parse them. */
    for (int i = 1; i < argc && local; i++) {
        if (strcmp(argv[i], "--") == 0) {
            self->program = i + 1 < argc ? argv + i + 1 : NULL;
            argc = i;
        }
    }

    argv[0] = local ? "cadre run" : "cadre train"; /* the name in usage texts */
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return CADRE_EINVALID;
    }

    if (argp_parse(&parser, argc, argv, 0, NULL, self) != 0) {
        return cadre_fail(CADRE_EINVALID, "the command line cannot be read");
    }
    return self->program && self->job_only
               ? cadre_fail(CADRE_EINVALID, "--%s is for a job file: a program %s", self->job_only,
                            self->in_program)
               : 0;
}

/* Frees what the flags hold; zeroed flags hold nothing. */
void
cadre_run_flags_fini(cadre_run_flags_t *self)
{
    for (size_t i = 0; i < self->native_count; i++) {
        free(self->natives[i]);
    }
    for (size_t i = 0; self->command && self->command[i]; i++) {
        free(self->command[i]);
    }
    free(self->command);
    *self = (cadre_run_flags_t){0};
}

int
cadre_run_flags_job(const cadre_run_flags_t *self, cadre_job_t *job)
{
    return cadre_verb_read_job(job, self->job_file, self->settings.list, self->settings.count);
}
