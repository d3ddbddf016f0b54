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
#include "coordinator/cli/train/suggest.h"

enum {
    /* Key of the first settings flag; the others follow in the order of setting_flags. */
    KEY_SETTING = 0x1000,
    KEY_NATIVE = 0x2000,
    KEY_EVENTS,
    KEY_LOG_LEVEL,
    KEY_KEEP_SESSION,
    KEY_ADDRESS,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_HTTP,
};

/* Flags that are settings of the job. */
static const struct {
    const char *flag;
    const char *argument;
    const char *setting;
    bool local_only;
    const char *does;
} setting_flags[] = {
    {"strategy", "NAME", "strategy.type", false,
     "Where shards and workers stand, and when updates count: parameter_server, multi_worker, "
     "mirrored, central or local (default: parameter_server)"},
    {"tasks", "KIND", "cluster.tasks", true,
     "What ps and workers are: threads of this process, processes, or auto: threads with mirrored, "
     "central and local on the CPU where --threads is 1 or one closure runs at a time, else "
     "processes (default: auto)"},
    {"ps", "N", "cluster.ps", true, "Parameter servers to start"},
    {"workers", "N", "cluster.workers", false, "Workers to start, or to expect"},
    {"slots", "N", "cluster.slots", true, "Closures that a worker has in progress"},
    {"ps-lanes", "N", "cluster.ps_lanes", true,
     "Threads of a ps for large updates and pulls of rows; 0: half of the CPUs, of two both for "
     "tables"},
    {"threads", "N", "cluster.threads", true,
     "Compute threads of a worker (default: 0); 0: its share of the CPUs of this machine"},
    {"row-cache", "MIB", "cluster.row_cache", true,
     "Memory of a worker for rows of tables, which are not sent again while they have not changed "
     "(default: 64); 0: none"},
    {"device", "NAMES", "cluster.device", true,
     "What workers compute on: cpu, cuda:N, or a list with one for each worker in turn, as "
     "cuda:0,cuda:2; auto: the GPUs of this machine in turn, else cpu (default: auto)"},
    {"math", "MODE", "cluster.math", true,
     "How CUDA devices multiply matrices: f32, tf32 or bf16 (default: f32)"},
    {"trace", "DIR", "cluster.trace", true,
     "Where workers write what they do when, as Chrome trace events (default: nowhere)"},
    {"max-restarts", "N", "cluster.max_restarts", true,
     "Starts of ps and workers that died, in total; or \"unlimited\" (default: 10)"},
    {"recovery", "HOW", "cluster.recovery", false,
     "Of a ps that was lost: replay, rollback or relaxed (default: replay)"},
    {"ps-timeout", "S", "cluster.ps_timeout_s", false,
     "Seconds that a ps may be away before the job ends (default: 60)"},
    {"closure-deadline", "S", "cluster.closure_deadline_s", false,
     "Seconds that an attempt at a closure may run before another worker gets it (default: 0); "
     "0: as long as it takes"},
    {"backup-attempts", "N", "cluster.backup_attempts", false,
     "Closures that may be tried a second time at once, when they take much longer than usual "
     "while "
     "another worker is idle (default: 0)"},
    {"client-closures", "true|false", "cluster.client_closures", false,
     "Let clients schedule closures of the job's functions, besides reading (default: false)"},
    {"shard-timeout", "S", "cluster.shard_timeout_s", true,
     "Seconds for which a ps may not answer a worker before that gives back the closures that need "
     "it (default: 30); 0: as long as it takes"},
    {"epochs", "N", "training.epochs", false, "Times that every row is trained on"},
    {"batch-size", "N", "training.batch_size", false, "Rows of one step"},
    {"local-steps", "N", "training.local_steps", false,
     "Steps that a closure runs by itself before it pushes how far it came (default: 1)"},
    {"history", "FILE", "training.history", false,
     "Where a CSV file is written with a row for each epoch: loss, metrics, learning rate, "
     "staleness (default: nowhere)"},
    {"consistency", "HOW", "training.consistency", false,
     "When updates count: async, at once; bounded, as async but none is missed that is older than "
     "training.staleness_bound closures; sync, in steps of training.step_closures (default: "
     "async)"},
    {"delay-compensation", "LAMBDA", "training.delay_compensation", false,
     "Compensates gradients that are late for what others have changed since, by so much (default: "
     "0, not at all)"},
    {"seed", "N", "seed", false, "Of initial values, order and dropout; 0: chosen"},
    {"data", "DIR", "data.dir", false, "Where the job's relative paths and ${DATA} are"},
    {"checkpoint-dir", "DIR", "checkpoint.dir", false,
     "Where checkpoints go (default: cadre-checkpoints/NAME); none: there are none"},
    {"checkpoint-every", "S", "checkpoint.every_s", false,
     "Seconds between checkpoints; 0: at the end only"},
    {"resume", "WHICH", "checkpoint.resume", false,
     "auto: from the newest checkpoint if there is one; never; or a checkpoint's path (default: "
     "never)"},
    {"wait", "S", "cluster.wait_s", false, "Seconds to wait for tasks at the start"},
};

/* Most options of a verb, with the empty one at the end. */
enum { OPTIONS_MAX = CADRE_COUNT_OF(setting_flags) + 10 };

/* Writes the options of the verb into `options`, which is zeroed, and returns how many there are.
 * `local`: the verb is `run`, which starts tasks here and has flags for them; else `train`. */
static size_t
make_options(bool local, struct argp_option *options)
{
    size_t count = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(setting_flags); i++) {
        if (local || !setting_flags[i].local_only) {
            options[count++] = (struct argp_option){setting_flags[i].flag,     KEY_SETTING + (int)i,
                                                    setting_flags[i].argument, 0,
                                                    setting_flags[i].does,     0};
        }
    }

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
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
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

/* Takes one option; called by argp. Flags that are settings of the job are kept as text: they count
 * only after the job file and the environment. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    cadre_run_flags_t *self = state->input;
    size_t number = (size_t)key - KEY_SETTING;
    if (key < KEY_SETTING || number >= CADRE_COUNT_OF(setting_flags)) {
        return parse_other(key, argument, state);
    }
    if (self->setting_count == CADRE_COUNT_OF(self->settings)) {
        argp_error(state, "too many flags");
    }

    self->settings[self->setting_count].setting = setting_flags[number].setting;
    self->settings[self->setting_count].text = argument;
    self->settings[self->setting_count++].flag = setting_flags[number].flag;
    return 0;
}

/* Returns the option that `word` ("--name" or "--name=value") gives; NULL when it is none. */
static const struct argp_option *
find_option(const struct argp_option *options, const char *word)
{
    size_t length = strcspn(word + 2, "=");
    for (const struct argp_option *option = options; option->name; option++) {
        if (strlen(option->name) == length && strncmp(option->name, word + 2, length) == 0) {
            return option;
        }
    }
    return NULL;
}

/* Refuses abbreviated flags: getopt would take "--ps 3" for "--ps-timeout 3" where there is no
 * --ps, and the command is shown again to the user with a flag changed. */
static int
check_written_out(const struct argp_option *options, int argc, char **argv)
{
    static const char *const own[] = {"--help", "--usage", "--version"};
    for (int i = 1; i < argc; i++) {
        bool is_own = false;
        for (size_t k = 0; k < CADRE_COUNT_OF(own); k++) {
            is_own = is_own || strcmp(argv[i], own[k]) == 0;
        }

        if (strncmp(argv[i], "--", 2) != 0 || is_own) {
            continue; /* no long flag, or one that argp has by itself */
        }

        const struct argp_option *option = find_option(options, argv[i]);
        if (!option) {
            const char *names[OPTIONS_MAX];
            size_t count = 0;
            while (options[count].name) {
                names[count] = options[count].name;
                count++;
            }
            const char *near = cadre_suggest(argv[i] + 2, names, count);
            return near ? cadre_fail(CADRE_EINVALID, "%s has no flag %s; did you mean --%s?",
                                     argv[0], argv[i], near)
                        : cadre_fail(CADRE_EINVALID, "%s has no flag %s", argv[0], argv[i]);
        }

        /* Skips the flag's value, which may look like a flag. */
        i += option->arg && !strchr(argv[i], '=');
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
                       "the program, which is then the coordinator. Ctrl-C once stops after a "
                       "checkpoint, twice kills."
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
    if (check_written_out(options, argc, argv) < 0) {
        return CADRE_EINVALID;
    }

    return argp_parse(&parser, argc, argv, 0, NULL, self) == 0
               ? 0
               : cadre_fail(CADRE_EINVALID, "the command line cannot be read");
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
    int status = cadre_verb_read_job(job, self->job_file, self->settings, self->setting_count);
    if (status < 0) {
        return status;
    }
    return self->job_file ? cadre_job_finish(job) : 0;
}
