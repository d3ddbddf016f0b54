#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/system/startup.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/setting_flags.h"
#include "coordinator/cli/terminal/command_text.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/train/job_keys.h"
#include "coordinator/cli/verb.h"

enum { KEY_KUBERNETES = 0x1000 };

typedef struct {
    const char *directory;
    const char *kubernetes_name; /* name of the Kubernetes objects to print; NULL: write files */
    bool json;
} flags_t;

/* Checks that either a directory or --kubernetes was given. */
static void
check_flags(const flags_t *self, struct argp_state *state)
{
    if (self->kubernetes_name && (self->directory || self->json)) {
        argp_error(state, "--kubernetes writes no directory and has no -o json");
    }
    if (!self->kubernetes_name && !self->directory) {
        argp_error(state, "a directory for the keys is missing");
    }
}

/* Takes one option, the directory, or the end of the command line; called by argp. */
static error_t
parse(int key, char *argument, struct argp_state *state)
{
    flags_t *self = state->input;
    switch (key) {
    case KEY_KUBERNETES:
        if (!cadre_kubernetes_name_valid(argument)) {
            argp_error(state,
                       "--kubernetes: \"%s\" is no name of a Secret: a-z, 0-9, - and ., a letter "
                       "or digit first and last",
                       argument);
        }
        self->kubernetes_name = argument;
        break;
    case 'o':
        self->json = cadre_verb_is_json(argument, state);
        break;
    case ARGP_KEY_ARG:
        if (self->directory) {
            argp_error(state, "one directory, not also \"%s\"", argument);
        }
        if (!argument[0] || !cadre_utf8_valid(argument, strlen(argument))) {
            argp_error(state, "the directory's name is empty, no UTF-8 or has control characters");
        }
        self->directory = argument;
        break;
    case ARGP_KEY_END:
        check_flags(self, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }

    return 0;
}

/* Prints on one line which files hold the keys of which role, and the public keys; never the secret
 * ones. */
static void
print_json(const cadre_job_keys_t *keys, const char *directory)
{
    json_t *array = json_array();
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cadre_auto(cadre_free) char *key = cadre_job_keys_path(directory, role, true);
        cadre_auto(cadre_free) char *allowed = cadre_job_keys_path(directory, role, false);
        json_array_append_new(array,
                              json_pack("{s:s, s:s, s:s, s:s}", "role", cadre_key_role_text(role),
                                        "key", key, "allowed", allowed, "public_key",
                                        keys->certificates[role].public_key));
    }

    json_t *object = json_pack("{s:s, s:o}", "schema", "cadre.keys/v1", "keys", array);
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT);
    printf("%s\n", text);
    json_decref(object);
}

/* Prints which files were written and whom each is for. */
static void
print_text(const char *directory)
{
    static const char *const owners[CADRE_KEY_ROLES] = {
        [CADRE_KEY_COORDINATOR] = "secret, for the coordinator alone",
        [CADRE_KEY_PS] = "secret, for every ps alone",
        [CADRE_KEY_WORKER] = "secret, for every worker alone",
        [CADRE_KEY_CLIENT] = "secret, for who looks at the job",
    };
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cadre_auto(cadre_free) char *path = cadre_job_keys_path(directory, role, true);
        printf("%s  %s\n", path, owners[role]);
    }

    printf("%s/allowed  public, for every task: who may connect\n", directory);
    fflush(stdout);
    fprintf(stderr, "next: copy to each task the key of its role and the directory allowed, no "
                    "other key\n");
}

/* Writes the keys as files and says where they are; returns the exit code. */
static int
make_files(const cadre_job_keys_t *keys, const flags_t *flags)
{
    int status = cadre_job_keys_write(keys, flags->directory);
    if (status < 0) {
        int code = cadre_verb_fail(status);
        return status == CADRE_EEXISTS ? code : CADRE_EXIT_CANNOT_WRITE;
    }

    if (flags->json) {
        print_json(keys, flags->directory);
    } else {
        print_text(flags->directory);
    }

    return CADRE_EXIT_OK;
}

/* Prints the keys as objects of Kubernetes; warns if they stand on a terminal, where others may see
 * them. */
static int
make_objects(const cadre_job_keys_t *keys, const char *name)
{
    cadre_job_keys_print_kubernetes(keys, name, stdout);
    fflush(stdout);
    if (isatty(STDOUT_FILENO)) {
        fprintf(stderr,
                "cadre: these secret keys stand on a terminal now: do not use them\n"
                "next: %s keygen --kubernetes %s | kubectl create -f -\n",
                cadre_command_name(), name);
    }
    return CADRE_EXIT_OK;
}

/* Runs `cadre keygen`: makes a pair of keys for each role, as files or as objects of Kubernetes.
 * Before there are secrets, core dumps of this process are forbidden. */
int
cadre_command_keygen(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"kubernetes", KEY_KUBERNETES, "NAME", 0,
         "Print a Secret NAME and a ConfigMap NAME-allowed as YAML and write no file", 0},
        {"output", 'o', "json|text", 0, "As JSON on one line", 0},
        {0}};
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "DIR\n--kubernetes NAME",
        .doc = "Makes the keys of a job, one pair for each role: DIR/ROLE.key, which is secret, "
               "and DIR/allowed/ROLE.pub. DIR is made, or is empty; nothing is written over (exit "
               "77). Exit 73 when DIR cannot be written.",
    };
    flags_t flags = {0};

    argv[0] = "cadre keygen";
    if (cadre_flags_check_written_out(options, argc, argv) < 0) {
        return cadre_verb_fail(CADRE_EINVALID);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &flags);
    cadre_startup_hold_secrets();
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    int status = cadre_job_keys_make(&keys);
    if (status < 0) {
        return cadre_verb_fail(status);
    }

    return flags.kubernetes_name ? make_objects(&keys, flags.kubernetes_name)
                                 : make_files(&keys, &flags);
}
