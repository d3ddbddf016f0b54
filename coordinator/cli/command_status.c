#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/net/cluster_config.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/status_client.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/verb.h"

enum {
    KEY_COORDINATOR = 0x1000,
    KEY_KEYS,
    KEY_INSECURE_TRANSPORT,
    KEY_WAIT,

    WAIT_S = 10, /* default of --wait */
    WAIT_S_MAX = 86400,
};

typedef struct {
    cadre_cluster_sources_t sources;
    cadre_security_t security;
    int64_t wait_s;
    bool json;
} flags_t;

/* Takes one option, or refuses an argument; called by argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case KEY_COORDINATOR:
        self->sources.coordinator = argument;
        break;
    case KEY_KEYS:
        self->security.keys = argument;
        break;
    case KEY_INSECURE_TRANSPORT:
        self->security.insecure = true;
        break;
    case KEY_WAIT:
        if (cadre_whole_number_parse(argument, 1, WAIT_S_MAX, &self->wait_s) < 0) {
            argp_error(state, "--wait: %s", cadre_error_text());
        }
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\": the address is given with --coordinator",
                   argument);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* --- as text --- */

static const char *
text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

static long long
number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* Returns how many of the tasks in the status have this role. */
static int
count_role(const json_t *tasks, const char *role)
{
    int count = 0;
    size_t index = 0;
    const json_t *task = NULL;
    json_array_foreach(tasks, index, task)
    {
        count += strcmp(text_at(task, "role"), role) == 0;
    }
    return count;
}

/* Prints one line for a task of the status: the state of a ps is that of its shard; of a worker
 * also what it runs. */
static void
print_task(const json_t *status, const json_t *task)
{
    char name[64];
    bool is_ps = text_at(task, "role")[0] == 'p';
    long long index = number_at(task, "index");
    const json_t *shard = json_array_get(json_object_get(status, "shards"), (size_t)index);
    const json_t *runs = json_object_get(task, "runs");

    snprintf(name, sizeof(name), "%s %lld", text_at(task, "role"), index);
    printf("%-12s %-10s %s, process %lld", name,
           is_ps ? text_at(shard, "state") : text_at(task, "state"), text_at(task, "host"),
           number_at(task, "process"));
    if (!is_ps) {
        printf(", %lld closures", number_at(task, "in_flight"));
    }
    if (runs) {
        printf(", %s for %lld ms", text_at(runs, "function"), number_at(runs, "ms"));
    }

    printf("\n");
}

/* Prints one line for a table of the status. */
static void
print_table(const json_t *status, const json_t *table)
{
    printf("%-12s table      %lld rows of %lld, %lld bytes on %lld of %lld ps, %lld made, %lld "
           "evicted, %lld expired, %lld gradients not admitted\n",
           text_at(table, "name"), number_at(table, "rows"), number_at(table, "width"),
           number_at(table, "size_bytes"), number_at(table, "shards"),
           number_at(status, "ps_expected"), number_at(table, "created"),
           number_at(table, "evicted"), number_at(table, "expired"),
           number_at(table, "unadmitted"));
}

/* Prints the status of a job, which was received as JSON, for people. */
static void
print_text(const json_t *status)
{
    const json_t *tasks = json_object_get(status, "tasks");
    const json_t *closures = json_object_get(status, "closures");
    const json_t *checkpoints = json_object_get(status, "checkpoints");
    const json_t *failures = json_object_get(status, "failures");
    size_t index = 0;
    const json_t *task = NULL;
    bool is_unreadable = json_is_true(json_object_get(status, "keys_unreadable"));

    printf("job %s: %d of %lld ps, %d workers, strategy %s, transport %s%s\n",
           text_at(status, "job"), count_role(tasks, "ps"), number_at(status, "ps_expected"),
           count_role(tasks, "worker"), text_at(status, "strategy"), text_at(status, "transport"),
           is_unreadable ? ", its allowed keys cannot be read: see its log" : "");
    printf("closures: %lld finished, %lld in flight, %lld queued, %lld failed, %lld attempts\n",
           number_at(closures, "finished"), number_at(closures, "in_flight"),
           number_at(closures, "queued"), number_at(closures, "failed"),
           number_at(closures, "attempts"));
    printf("lost: %lld workers, %lld ps\n", number_at(failures, "worker"),
           number_at(failures, "ps"));
    printf("checkpoints: %lld, the last %s\n", number_at(checkpoints, "committed"),
           text_at(checkpoints, "last"));
    json_array_foreach(tasks, index, task)
    {
        print_task(status, task);
    }
    json_array_foreach(json_object_get(status, "tables"), index, task)
    {
        print_table(status, task);
    }
}

/* --- the command --- */

/* Finds the coordinator by flags or environment, asks it, and gives its answer as JSON text. A
 * process with secret keys forbids core dumps of itself. */
static int
ask(flags_t *flags, char **text)
{
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {0};
    flags->sources.role = "worker"; /* a role whose tasks need no index */
    int status = cadre_security_read(&flags->security);
    if (flags->security.keys) {
        cadre_startup_hold_secrets();
    }
    if (status < 0) {
        return status;
    }

    status = cadre_cluster_config_read(&flags->sources, &config);
    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECONFIG, "where is the coordinator? Give --coordinator ENDPOINT, "
                                         "or set CADRE_CLUSTER or TF_CONFIG");
    }

    if (status < 0) {
        return status;
    }

    return cadre_status_ask(&config.coordinator, &flags->security, 1000 * flags->wait_s, text);
}

/* Runs `cadre status`: asks a coordinator how its job stands, prints it, and returns the exit
 * code. */
int
cadre_command_status(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"coordinator", KEY_COORDINATOR, "ENDPOINT", 0,
         "Where the coordinator is: tcp://HOST:PORT, HOST:PORT or ipc:///PATH (default: as "
         "CADRE_CLUSTER or TF_CONFIG says)",
         0},
        {"keys", KEY_KEYS, "DIR", 0,
         "Directory with client.key and allowed/, as `cadre keygen` makes it (default: CADRE_KEYS)",
         0},
        {"insecure-transport", KEY_INSECURE_TRANSPORT, 0, 0, CADRE_SECURITY_INSECURE_HELP, 0},
        {"wait", KEY_WAIT, "S", 0, "Seconds to wait for the answer (default: 10)", 0},
        {"output", 'o', "json|text", 0, "The whole status as JSON on one line", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Asks the coordinator of a job how that stands. It changes nothing, and needs the "
               "key of a client only.",
    };
    flags_t flags = {.wait_s = WAIT_S};
    cadre_auto(cadre_free) char *text = NULL;

    argv[0] = "cadre status";
    cadre_cluster_sources_from_environment(&flags.sources);
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    int status = ask(&flags, &text);
    if (status < 0) {
        return cadre_verb_fail(status);
    }

    json_t *object = json_loads(text, 0, NULL);
    if (!object) {
        return cadre_verb_fail(cadre_fail(CADRE_EMALFORMED, "the coordinator's answer is no JSON"));
    }

    if (flags.json) {
        printf("%s\n", text);
    } else {
        print_text(object);
    }

    json_decref(object);
    return CADRE_EXIT_OK;
}
