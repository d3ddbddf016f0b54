/*
 * cadre-ps - serves one shard.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/http/http_address.h"
#include "common/net/cluster_config.h"
#include "common/system/cpu_quota.h"
#include "common/system/float_mode.h"
#include "common/system/log.h"
#include "common/system/memory_limit.h"
#include "common/system/startup.h"
#include "ps/control_loop.h"
#include "ps/lane_pool.h"

enum {
    EXIT_USAGE = 2,
    EXIT_UNUSABLE = 69, /* the address cannot be bound, or the coordinator refuses this ps */
    EXIT_BUG = 70,
    EXIT_PROTOCOL = 76, /* the coordinator is of another release */
    EXIT_CONFIGURATION = 78,
};

enum {
    AWAY_S_MAX = 1000000,   /* of --coordinator-timeout */
    LANES_DEFAULT_MAX = 16, /* lanes without --lanes, however many CPUs there are */
};

enum {
    KEY_ON_SESSION_END = 0x100,
    KEY_LOG_LEVEL,
    KEY_CHECK,
    KEY_LANES,
    KEY_DIE_WITH_PARENT,
    KEY_COORDINATOR_TIMEOUT,
    KEY_CHECKPOINT_DIR,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_HTTP,
};

typedef struct {
    cadre_cluster_sources_t sources;
    const char *address;
    const char *log_level;
    const char *http;        /* address of metrics and probes; NULL: none */
    int64_t away_s;          /* seconds that a coordinator may be away */
    int64_t lanes;           /* threads that apply updates; 0: half of the CPUs */
    cadre_folders_t folders; /* folders that checkpoints may be in */
    cadre_security_t security;
    bool wait;
    bool check;
    bool die_with_parent;
    bool own_socket; /* this process chose its ipc socket itself, and has to remove it at the end */
} flags_t;

static const struct argp_option OPTIONS[] = {
    {"coordinator", 'c', "ENDPOINT", 0,
     "Where the coordinator listens: tcp://HOST:PORT, HOST:PORT or ipc:///PATH (default: what "
     "CADRE_CLUSTER or TF_CONFIG say)",
     0},
    {"index", 'i', "K", 0, "Which shard this is (default: the coordinator chooses)", 0},
    {"address", 'a', "ENDPOINT", 0,
     "Where to listen for values; port * takes a free one (default: what the cluster description "
     "says, else beside the coordinator's ipc socket, else tcp://127.0.0.1:*)",
     0},
    {"on-session-end", KEY_ON_SESSION_END, "exit|wait", 0,
     "What to do when the coordinator has ended the job: exit, or wait for the next (default: "
     "exit)",
     0},
    {"coordinator-timeout", KEY_COORDINATOR_TIMEOUT, "S", 0,
     "With --on-session-end=exit: leave when a coordinator that was there has been away for so "
     "many seconds, without having ended the job (default: 600); 0: wait as long as it takes",
     0},
    {"lanes", KEY_LANES, "N", 0,
     "Threads that apply large updates and copy large pulls of rows (default: half as many as the "
     "process may use CPUs, 16 at most; for tables two where there are two CPUs)",
     0},
    {"checkpoint-dir", KEY_CHECKPOINT_DIR, "DIR", 0,
     "Where the coordinator may have checkpoints written and read, with all below it; may be given "
     "more than once (default: anywhere when the coordinator is on ipc; when it is on tcp "
     "CADRE_CHECKPOINT_DIR, else nowhere)",
     0},
    {"keys", KEY_KEYS, "DIR", 0, CADRE_SECURITY_KEYS_HELP, 0},
    {"insecure-transport", KEY_INSECURE_TRANSPORT, 0, 0, CADRE_SECURITY_INSECURE_HELP, 0},
    {"http", KEY_HTTP, "ADDRESS", 0,
     "Where to answer /livez, /readyz and /metrics: PORT (on 127.0.0.1), HOST:PORT, *:PORT or "
     "[IPV6]:PORT (default: CADRE_HTTP, else nowhere)",
     0},
    {"log-level", KEY_LOG_LEVEL, "LEVEL", 0,
     "Events to log: debug, info, warn or error (default: info)", 0},
    {"check", KEY_CHECK, 0, 0, "Check flags, cluster description and address, then exit", 0},
    {"die-with-parent", KEY_DIE_WITH_PARENT, 0, 0, "Leave when the process that started it ends",
     0},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0}, /* --help, which argp gives no short form */
    {0}};

static const char DOC[] =
    "Serves one shard of a Cadre job: keeps variables, applies the workers' updates, writes "
    "checkpoints.\vWithout --coordinator the cluster is what CADRE_CLUSTER or TF_CONFIG say.\n\n"
    "Exit status: 0 the job has ended, 2 usage, 69 the address cannot be used, 70 its shard stands "
    "still, 78 configuration, "
    "130 or 143 stopped by a signal. It waits for its first coordinator as long as it takes.";

/* Ends the process with an error and the usage when `status`, of reading a flag's value, is a
 * failure. */
static void
check(struct argp_state *state, const char *flag, int status)
{
    if (status < 0) {
        argp_error(state, "%s: %s", flag, cadre_error_text());
    }
}

/* Takes one flag of the command line into flags_t, as argp calls it; a bad value ends the process
 * with the usage. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *flags = state->input;

    /* argp_error ends the process. */
    switch (key) {
    /* --- which job, and which place in it --- */
    case 'c':
        flags->sources.coordinator = argument;
        return 0;
    case 'i':
        flags->sources.index = argument;
        return 0;
    case 'a':
        flags->address = argument;
        return 0;

    /* --- how it runs --- */
    case KEY_ON_SESSION_END:
        flags->wait = strcmp(argument, "wait") == 0;
        if (!flags->wait && strcmp(argument, "exit") != 0) {
            argp_error(state, "--on-session-end: \"%s\" is neither exit nor wait", argument);
        }
        return 0;
    case KEY_COORDINATOR_TIMEOUT:
        check(state, "--coordinator-timeout",
              cadre_whole_number_parse(argument, 0, AWAY_S_MAX, &flags->away_s));
        return 0;
    case KEY_LANES:
        check(state, "--lanes",
              cadre_whole_number_parse(argument, 0, CADRE_LANES_MAX, &flags->lanes));
        return 0;
    case KEY_CHECKPOINT_DIR:
        check(state, "--checkpoint-dir", cadre_folders_add(&flags->folders, argument));
        return 0;

    /* --- who may reach it, and what it tells --- */
    case KEY_KEYS:
        flags->security.keys = argument;
        return 0;
    case KEY_INSECURE_TRANSPORT:
        flags->security.insecure = true;
        return 0;
    case KEY_HTTP:
        check(state, "--http", cadre_http_address_parse(argument, &(cadre_endpoint_t){.port = 0}));
        flags->http = argument;
        return 0;
    case KEY_LOG_LEVEL:
        flags->log_level = argument;
        return 0;

    /* --- the process --- */
    case KEY_CHECK:
        flags->check = true;
        return 0;
    case KEY_DIE_WITH_PARENT:
        flags->die_with_parent = true;
        return 0;
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "\"%s\" is one word too many", argument);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Prints the error text; returns the exit status that is given. */
static int
fail(int exit_status)
{
    fprintf(stderr, "cadre-ps: %s\n", cadre_error_text());
    return exit_status;
}

/* Chooses an address on this machine: an ipc socket beside the coordinator's; a free port of
 * loopback when the coordinator is not on ipc, or the path would be too long. */
static int
choose_local_address(const cadre_endpoint_t *coordinator, uint64_t incarnation,
                     cadre_endpoint_t *out)
{
    char name[32];
    snprintf(name, sizeof(name), "ps-%016" PRIx64, incarnation);
    if (coordinator->kind == CADRE_ENDPOINT_IPC) {
        cadre_auto(cadre_free) char *directory = cadre_strdup(coordinator->path);
        *strrchr(directory, '/') = '\0'; /* the path is absolute */
        if (cadre_ipc_endpoint(directory, name, out) == 0) {
            return 0;
        }
    }

    return cadre_endpoint_parse("tcp://127.0.0.1:*", out);
}

/* Chooses where to listen: the flag's address, else that of this task in the description of the
 * cluster, else one on this machine. */
static int
choose_address(const flags_t *flags, const cadre_cluster_config_t *config, uint64_t incarnation,
               cadre_endpoint_t *out)
{
    if (flags->address) {
        int status = cadre_endpoint_parse(flags->address, out);
        return status < 0 ? cadre_fail_within(status, "--address") : 0;
    }

    if (config->ps.count == 0) {
        return choose_local_address(&config->coordinator, incarnation, out);
    }

    if (config->index >= config->ps.count) {
        return cadre_fail(CADRE_ECONFIG,
                          "the cluster description lists %zu ps: say which one with --index, or "
                          "where to listen with --address",
                          config->ps.count);
    }

    *out = config->ps.items[config->index];
    return 0;
}

/* Returns half of the CPUs, as the other half receives messages; at most LANES_DEFAULT_MAX, since
 * more threads would only wait for memory. */
static unsigned
default_lanes(void)
{
    int lanes = (cadre_cpu_count() + 1) / 2;
    return (unsigned)(lanes < LANES_DEFAULT_MAX ? lanes : LANES_DEFAULT_MAX);
}

/* Returns the same, but two where there are two CPUs: random rows cost waiting more than anything
 * else, and two threads wait at the same time. */
static unsigned
default_table_lanes(void)
{
    const unsigned lanes = default_lanes();
    return lanes == 1 && cadre_cpu_count() > 1 ? 2 : lanes;
}

/* Chooses the folders for checkpoints if no flag names any: all of them for a coordinator on an ipc
 * socket, which is the same user or root; none on tcp, where it may be anybody. */
static void
choose_folders(flags_t *flags, const cadre_endpoint_t *coordinator)
{
    const char *folder = getenv("CADRE_CHECKPOINT_DIR");
    if (flags->folders.count > 0) {
        return;
    }
    if (coordinator->kind == CADRE_ENDPOINT_IPC) {
        flags->folders.any = true;
    } else if (folder && folder[0]) {
        cadre_folders_add(&flags->folders, folder);
    }
}

/* Fills in the options from flags, environment and the description of the cluster: security, where
 * the coordinator is, where this ps listens, and where checkpoints may be. */
static int
read_configuration(flags_t *flags, cadre_control_options_t *options)
{
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {.index = 0};
    flags->sources.role = "ps";
    int status = cadre_security_read(&flags->security);
    if (status < 0) {
        return status;
    }

    options->security = flags->security;
    if (flags->security.keys) {
        cadre_startup_hold_secrets(); /* no core dump may hold the keys */
    }

    status = cadre_cluster_config_read(&flags->sources, &config);
    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECONFIG, "where is the coordinator? Give --coordinator ENDPOINT, "
                                         "or set CADRE_CLUSTER or TF_CONFIG");
    }

    if (status == 0) {
        /* Neither flag nor description names an address: choose_address makes one, and if it is an
         * ipc socket, its file is removed at the end. */
        flags->own_socket = !flags->address && config.ps.count == 0;
        status = choose_address(flags, &config, options->incarnation, &options->address);
    }

    if (status == 0) {
        choose_folders(flags, &config.coordinator);
        options->folders = &flags->folders;
        options->coordinator = config.coordinator;
        options->index = config.index;
        options->wait = flags->wait;
        options->lanes = flags->lanes ? (unsigned)flags->lanes : default_lanes();
        options->table_lanes = flags->lanes ? options->lanes : default_table_lanes();
        options->away_ms = flags->wait ? 0 : 1000 * (uint64_t)flags->away_s;
    }

    return status;
}

/* Blocks the signals that end a ps and returns a descriptor to read them from; threads started from
 * now on inherit the mask. Ignores SIGPIPE and SIGXFSZ, so that a log that nobody reads, or a file
 * over its limit, does not end the process. */
static int
open_signals(void)
{
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Fills in the options that come from the process itself: its signals, the memory it may take, and
 * its incarnation, a random number that is not 0. Returns false, with errno, on failure. */
static bool
fill_process(cadre_control_options_t *options)
{
    options->signals = open_signals();
    options->size_bytes_max = cadre_memory_size();
    while (options->incarnation == 0) {
        if (getrandom(&options->incarnation, sizeof(options->incarnation), 0) < 0 &&
            errno != EINTR) {
            return false;
        }
    }
    return options->signals >= 0;
}

/* Returns the exit status of a process that has served: 0 only if a session has ended as it
 * should. */
static int
exit_status(int number, int refused)
{
    if (number) {
        return 128 + number;
    }
    if (refused) {
        return refused == CADRE_EPROTOCOL ? EXIT_PROTOCOL : EXIT_UNUSABLE;
    }
    return 0;
}

/* Opens the HTTP server of metrics and probes where flags or environment ask for one. */
static int
open_http(const flags_t *flags, cadre_http_server_t **out)
{
    if (!flags->http) {
        return 0;
    }

    int status =
        cadre_http_server_open(flags->http, CADRE_CONTROL_ACTORS, CADRE_CONTROL_ACTOR_COUNT, out);
    if (status < 0) {
        return cadre_fail_within(status, "--http");
    }

    cadre_log(CADRE_LOG_INFO, "http_listening", "address=%s", cadre_http_server_address(*out));
    return 0;
}

/* Opens the ps and serves until it has ended (with --check: only says that it could); returns the
 * exit status. If a thread hangs, the process ends at once, without freeing what the thread
 * uses. */
static int
serve(const flags_t *flags, cadre_control_options_t *options)
{
    cadre_control_loop_t *loop = NULL;
    cadre_auto(cadre_http_server_close) cadre_http_server_t *http = NULL;
    if (open_http(flags, &http) < 0) {
        return fail(EXIT_UNUSABLE);
    }

    options->http = http;
    int opened = cadre_control_loop_open(options, &loop);
    if (opened < 0) {
        return fail(opened == CADRE_ECONFIG ? EXIT_CONFIGURATION : EXIT_UNUSABLE);
    }

    int number = 0;
    if (flags->check) {
        printf("cadre-ps: can listen on %s\n", cadre_control_loop_address(loop));
    } else {
        char text[CADRE_ENDPOINT_TEXT_SIZE];
        cadre_log(CADRE_LOG_INFO, "listening", "address=%s coordinator=%s",
                  cadre_control_loop_address(loop),
                  cadre_endpoint_text(&options->coordinator, text));
        number = cadre_control_loop_run(loop, NULL);
    }

    int status = exit_status(number, cadre_control_loop_refused(loop));
    if (cadre_control_loop_close(&loop) < 0) {
        cadre_log(CADRE_LOG_WARN, "stop_failed", "why=\"%s\" next=\"exit at once\"",
                  cadre_error_text());
        _exit(status ? status : EXIT_BUG); /* whoever keeps this ps running starts another */
    }

    if (flags->own_socket && options->address.kind == CADRE_ENDPOINT_IPC) {
        unlink(options->address.path); /* ZeroMQ leaves it */
    }

    close(options->signals);
    return status;
}

/* Reads flags and configuration, then serves as a ps until its job ends or a signal comes. */
int
main(int argc, char **argv)
{
    flags_t flags = {.log_level = "info", .away_s = CADRE_COORDINATOR_TIMEOUT_S};
    cadre_control_options_t options = {.wait = false};
    cadre_log_level_t level = CADRE_LOG_INFO;

    if (cadre_startup() < 0) {
        return fail(EXIT_CONFIGURATION);
    }

    /* For speed: freed memory is used again, and subnormal numbers count as 0. */
    cadre_memory_keep_freed();
    cadre_flush_subnormals();
    cadre_cluster_sources_from_environment(&flags.sources);
    argp_program_version = "cadre-ps " CADRE_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&(struct argp){.options = OPTIONS, .parser = parse, .doc = DOC}, argc, argv, 0, NULL,
               &flags);
    /* No signal comes if the parent has ended before PR_SET_PDEATHSIG is set; its id has changed
     * then. */
    pid_t parent = getppid();
    if (flags.die_with_parent && (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)) {
        return 128 + SIGTERM;
    }
    if (cadre_log_level_parse(flags.log_level, &level) < 0) {
        return fail(EXIT_USAGE);
    }

    if (!fill_process(&options)) {
        fprintf(stderr, "cadre-ps: %s\n", strerror(errno));
        return EXIT_BUG;
    }

    if (cadre_http_address_choose(flags.http, &flags.http) < 0 ||
        read_configuration(&flags, &options) < 0) {
        return fail(EXIT_CONFIGURATION);
    }

    cadre_log_setup_stderr(level, "ps");
    if (options.index != CADRE_INDEX_ANY) {
        cadre_log_set_index(options.index);
    }

    return serve(&flags, &options);
}
