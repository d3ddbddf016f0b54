#include <argp.h>
#include <jansson.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/whole_number.h"
#include "common/net/cluster_config.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/status_client.h"
#include "coordinator/cli/status_lines.h"
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
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }
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
        cadre_status_lines_print(object, stdout);
    }

    json_decref(object);
    return CADRE_EXIT_OK;
}
