#include "worker/worker_flags.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/http/http_address.h"
#include "common/spec/device_name.h"
#include "common/system/cpu_quota.h"

enum {
    KEY_COORDINATOR = 256,
    KEY_INDEX,
    KEY_SLOTS,
    KEY_THREADS,
    KEY_ROW_CACHE,
    KEY_NATIVE,
    KEY_DATA_DIR,
    KEY_DEVICE,
    KEY_MATH,
    KEY_LOG_LEVEL,
    KEY_ON_SESSION_END,
    KEY_COORDINATOR_TIMEOUT,
    KEY_DRAIN_SECONDS,
    KEY_SHARD_TIMEOUT,
    KEY_CHECK,
    KEY_LIST_DEVICES,
    KEY_TRACE,
    KEY_DIE_WITH_PARENT,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_HTTP,

    SLOTS_DEFAULT = 2,
    DRAIN_SECONDS_DEFAULT = 20, /* Kubernetes kills after 30 */
    DRAIN_SECONDS_MAX = 86400,
    AWAY_SECONDS_MAX = 1000000,
};

typedef struct {
    cadre_worker_flags_t *flags;
    cadre_cluster_sources_t sources;
} parse_t;

/* Reads --on-session-end. */
static void
parse_session_end(struct argp_state *state, const char *text, cadre_worker_flags_t *flags)
{
    if (strcmp(text, "exit") != 0 && strcmp(text, "wait") != 0) {
        argp_error(state, "--on-session-end: \"%s\" is neither exit nor wait", text);
    }
    flags->wait = strcmp(text, "wait") == 0;
}

/* Adds a file of --native. */
static void
add_native(struct argp_state *state, const char *path, cadre_worker_flags_t *flags)
{
    if (flags->native_count == CADRE_NATIVE_FILES_MAX) {
        argp_error(state, "--native: more than %d files", CADRE_NATIVE_FILES_MAX);
    }
    flags->natives[flags->native_count++] = path;
}

/* Ends the process with an error and the usage when `status`, of reading a flag's value, is a
 * failure. */
static void
check(struct argp_state *state, const char *flag, int status)
{
    if (status < 0) {
        argp_error(state, "%s: %s", flag, cadre_error_text());
    }
}

/* Returns a flag's whole number, which must be from `least` to `most`. */
static int
number(struct argp_state *state, const char *flag, const char *text, int least, int most)
{
    int64_t value = least;
    check(state, flag, cadre_whole_number_parse(text, least, most, &value));
    return (int)value;
}

static void
set_trace(struct argp_state *state, const char *path, cadre_worker_flags_t *flags)
{
    if (!*path) {
        argp_error(state, "--trace: the name of a file is missing");
    }
    flags->trace = path;
}

/* Reads --http, whose address is checked here and opened later. */
static void
set_http(struct argp_state *state, const char *address, cadre_worker_flags_t *flags)
{
    cadre_endpoint_t endpoint;
    check(state, "--http", cadre_http_address_parse(address, &endpoint));
    flags->http = address;
}

/* Reads the flags about connections: where the coordinator is, which index to ask for, keys. argp
 * gets ARGP_ERR_UNKNOWN for what is none of ours. */
static error_t
parse_connection(int key, char *text, struct argp_state *state)
{
    parse_t *parse = state->input;
    switch (key) {
    case KEY_COORDINATOR:
        parse->sources.coordinator = text;
        return 0;
    case KEY_INDEX:
        parse->sources.index = text;
        return 0;
    case KEY_KEYS:
        parse->flags->security.keys = text;
        return 0;
    case KEY_INSECURE_TRANSPORT:
        parse->flags->security.insecure = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Reads one flag, for argp; what is not here is looked for among the flags about connections. */
static error_t
parse_option(int key, char *text, struct argp_state *state)
{
    parse_t *parse = state->input;
    cadre_worker_flags_t *flags = parse->flags;

    /* argp_error ends the process. */
    switch (key) {
    /* --- what it computes with --- */
    case KEY_SLOTS:
        flags->slots = (uint32_t)number(state, "--slots", text, 1, CADRE_SLOTS_MAX);
        return 0;
    case KEY_THREADS:
        flags->threads = number(state, "--threads", text, 1, CADRE_THREADS_MAX);
        return 0;
    case KEY_ROW_CACHE:
        flags->row_cache_mib = number(state, "--row-cache", text, 0, CADRE_ROW_CACHE_MIB_MAX);
        return 0;
    case KEY_NATIVE:
        add_native(state, text, flags);
        return 0;
    case KEY_DATA_DIR:
        flags->data_dir = text;
        return 0;
    case KEY_DEVICE:
        check(state, "--device", cadre_device_name_parse(text, &(int){0}));
        flags->device = text;
        return 0;
    case KEY_MATH:
        check(state, "--math", cadre_math_check(text));
        flags->math = text;
        return 0;
    case KEY_LOG_LEVEL:
        check(state, "--log-level", cadre_log_level_parse(text, &flags->level));
        return 0;

    /* --- how long it waits --- */
    case KEY_ON_SESSION_END:
        parse_session_end(state, text, flags);
        return 0;
    case KEY_COORDINATOR_TIMEOUT:
        flags->away_seconds = number(state, "--coordinator-timeout", text, 0, AWAY_SECONDS_MAX);
        return 0;
    case KEY_DRAIN_SECONDS:
        flags->drain_seconds = number(state, "--drain-seconds", text, 1, DRAIN_SECONDS_MAX);
        return 0;
    case KEY_SHARD_TIMEOUT:
        flags->shard_seconds = number(state, "--shard-timeout", text, 0, CADRE_SHARD_TIMEOUT_S_MAX);
        return 0;

    /* --- the process, and what it tells --- */
    case KEY_CHECK:
        flags->check = true;
        return 0;
    case KEY_LIST_DEVICES:
        flags->list_devices = true;
        return 0;
    case KEY_TRACE:
        set_trace(state, text, flags);
        return 0;
    case KEY_HTTP:
        set_http(state, text, flags);
        return 0;
    case KEY_DIE_WITH_PARENT:
        flags->die_with_parent = true;
        return 0;
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is no option", text);
        return 0;
    default:
        return parse_connection(key, text, state);
    }
}

static const struct argp_option options[] = {
    {"coordinator", KEY_COORDINATOR, "ENDPOINT", 0,
     "Where the coordinator listens: tcp://HOST:PORT, HOST:PORT or ipc:///PATH (default: what "
     "CADRE_CLUSTER or TF_CONFIG say)",
     0},
    {"index", KEY_INDEX, "K", 0, "This worker's index (default: the coordinator chooses)", 0},
    {"slots", KEY_SLOTS, "N", 0, "Closures in progress at a time (default: 2)", 0},
    {"threads", KEY_THREADS, "N", 0, "Compute threads (default: usable CPUs / slots, at least 1)",
     0},
    {"row-cache", KEY_ROW_CACHE, "MIB", 0,
     "Memory for rows of tables, which are not sent again while they have not changed (default: "
     "64); 0: none",
     0},
    {"native", KEY_NATIVE, "FILE", 0,
     "A shared object with native functions; may be given more than once", 0},
    {"data-dir", KEY_DATA_DIR, "DIR", 0,
     "Where relative paths of datasets begin, and all that a coordinator on tcp may have read "
     "(default: CADRE_DATA_DIR, else the current folder)",
     0},
    {"device", KEY_DEVICE, "NAME", 0,
     "What programs run on: cpu, cuda:N, or auto: cuda:0 if there is one, else cpu; auto:K: the "
     "GPU "
     "of the K-th of several workers, when all GPUs are given out in turn (default: CADRE_DEVICE, "
     "else auto)",
     0},
    {"math", KEY_MATH, "MODE", 0,
     "How a CUDA device multiplies matrices: f32, tf32 or bf16 (default: CADRE_MATH, else f32)", 0},
    {"log-level", KEY_LOG_LEVEL, "LEVEL", 0,
     "Events to log: debug, info, warn or error (default: info)", 0},
    {"on-session-end", KEY_ON_SESSION_END, "exit|wait", 0,
     "What to do when the coordinator has ended the job: exit, or wait for the next (default: "
     "exit)",
     0},
    {"coordinator-timeout", KEY_COORDINATOR_TIMEOUT, "S", 0,
     "With --on-session-end=exit: leave when a coordinator that was there has been away for so "
     "many seconds, without having ended the job (default: 600); 0: wait as long as it takes",
     0},
    {"drain-seconds", KEY_DRAIN_SECONDS, "S", 0,
     "After SIGTERM, for closures that run; then other workers run them (default: 20)", 0},
    {"shard-timeout", KEY_SHARD_TIMEOUT, "S", 0,
     "When a ps has said nothing to this worker for so many seconds, though it is asked, give back "
     "the closures that need it, for other workers to run (default: 30); 0: wait as long as it "
     "takes",
     0},
    {"keys", KEY_KEYS, "DIR", 0, CADRE_SECURITY_KEYS_HELP, 0},
    {"insecure-transport", KEY_INSECURE_TRANSPORT, NULL, 0, CADRE_SECURITY_INSECURE_HELP, 0},
    {"trace", KEY_TRACE, "FILE", 0,
     "Write what slots do when, as Chrome trace events (docs/tracing.md); replaces the file "
     "(default: nowhere)",
     0},
    {"http", KEY_HTTP, "ADDRESS", 0,
     "Where to answer /livez, /readyz and /metrics: PORT (on 127.0.0.1), HOST:PORT, *:PORT or "
     "[IPV6]:PORT (default: CADRE_HTTP, else nowhere)",
     0},
    {"check", KEY_CHECK, NULL, 0, "Check all of this, say what was found, and exit", 0},
    {"list-devices", KEY_LIST_DEVICES, NULL, 0,
     "Print the names of the devices here, one a line, the CPU last, and exit", 0},
    {"die-with-parent", KEY_DIE_WITH_PARENT, NULL, 0, "Leave when the process that started it ends",
     0},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0}, /* --help, which argp gives no short form */
    {0}};

/* Checks the values that come from the environment. Flags were checked when they were read, and
 * win. */
static int
check_environment(cadre_worker_flags_t *flags)
{
    int device = 0;
    int status = cadre_device_name_parse(flags->device, &device);
    if (status < 0) {
        cadre_fail_within(status, "CADRE_DEVICE");
        return CADRE_ECONFIG;
    }

    status = cadre_math_check(flags->math);
    if (status < 0) {
        cadre_fail_within(status, "CADRE_MATH");
        return CADRE_ECONFIG;
    }

    return cadre_http_address_choose(flags->http, &flags->http) < 0 ? CADRE_ECONFIG : 0;
}

/* Returns the text of a variable of the environment; `otherwise` when it is not set or empty. */
static const char *
environment(const char *variable, const char *otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? text : otherwise;
}

/* Sets the number of threads when no flag does: each slot's share of the CPUs. */
static void
take_defaults(cadre_worker_flags_t *flags)
{
    if (flags->threads == 0) {
        int share = cadre_cpu_count() / (int)flags->slots;
        flags->threads = share > 1 ? share : 1;
    }
}

/* Reads environment and command line; a flag goes before a variable of the environment. Without a
 * coordinator the process cannot work, but it can list its devices. */
int
cadre_worker_flags_parse(int argc, char **argv, cadre_worker_flags_t *flags)
{
    static const struct argp parser = {
        .options = options,
        .parser = parse_option,
        .doc = "Runs closures of a Cadre job, as its coordinator hands them out."};
    *flags = (cadre_worker_flags_t){.slots = SLOTS_DEFAULT,
                                    .row_cache_mib = CADRE_ROW_CACHE_MIB,
                                    .device = environment("CADRE_DEVICE", "auto"),
                                    .math = environment("CADRE_MATH", "f32"),
                                    .data_dir = environment("CADRE_DATA_DIR", NULL),
                                    .level = CADRE_LOG_INFO,
                                    .away_seconds = CADRE_COORDINATOR_TIMEOUT_S,
                                    .drain_seconds = DRAIN_SECONDS_DEFAULT,
                                    .shard_seconds = CADRE_SHARD_TIMEOUT_S};
    parse_t parse = {.flags = flags};

    cadre_cluster_sources_from_environment(&parse.sources);
    parse.sources.role = "worker";
    argp_program_version = "cadre-worker " CADRE_VERSION;
    argp_err_exit_status = CADRE_WORKER_EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &parse);
    take_defaults(flags);
    if (flags->list_devices) {
        return 0;
    }

    int status = check_environment(flags);
    status = status < 0 ? status : cadre_security_read(&flags->security);
    status = status < 0 ? status : cadre_cluster_config_read(&parse.sources, &flags->cluster);
    return status == CADRE_ENOTFOUND
               ? cadre_fail(CADRE_ECONFIG, "where is the coordinator? Give --coordinator ENDPOINT, "
                                           "or set CADRE_CLUSTER or TF_CONFIG")
               : status;
}

void
cadre_worker_flags_fini(cadre_worker_flags_t *self)
{
    cadre_cluster_config_fini(&self->cluster);
}
