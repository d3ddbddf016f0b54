#include "coordinator/cli/commands.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/startup.h"
#include "coordinator/cli/launch/launcher.h"
#include "coordinator/cli/terminal/command_text.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/train/suggest.h"
#include "coordinator/cli/verb.h"

static int
print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("cadre %s, protocol %d\n", CADRE_VERSION, CADRE_PROTOCOL_VERSION);
    return CADRE_EXIT_OK;
}

/* Replaces this process by the daemon `name` from this executable's folder; returns only on
 * failure. */
static int
become(const char *name, char **argv)
{
    cadre_auto(cadre_free) char *folder = cadre_launcher_binary_folder();
    if (!folder) {
        return cadre_verb_fail(CADRE_EUNAVAILABLE);
    }
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    argv[0] = path;
    execv(path, argv);
    return cadre_verb_fail(cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno)));
}

static int
become_ps(int argc, char **argv)
{
    (void)argc;
    return become("cadre-ps", argv);
}

static int
become_worker(int argc, char **argv)
{
    (void)argc;
    return become("cadre-worker", argv);
}

static const struct {
    const char *verb;
    int (*run)(int argc, char **argv);
    const char *does;
} verbs[] = {
    {"run", cadre_command_run,
     "JOB.json, or -- PROGRAM ARGS: start ps and workers on this machine and\n"
     "              train the job, or run the program on them"},
    {"train", cadre_command_train, "JOB.json: train the job on a cluster that exists"},
    {"ps", become_ps, "one parameter server (cadre-ps)"},
    {"worker", become_worker, "one worker (cadre-worker)"},
    {"evaluate", cadre_command_evaluate,
     "JOB.json: test the newest checkpoint on the rows held out, also while it trains"},
    {"status", cadre_command_status,
     "how a job stands that runs somewhere: its tasks and closures"},
    {"variables", cadre_command_variables,
     "[NAME]: the variables of a job that runs somewhere, or the values of one"},
    {"checkpoint", cadre_command_checkpoint,
     "list, verify, variables or export DIR: look at checkpoints, or write one for\n              "
     "NumPy"},
    {"embedding", cadre_command_embedding,
     "neighbours, text or words: the vectors that a job has learned, and their words"},
    {"config", cadre_command_config, "check JOB.json, or show JOB.json: look at a job file"},
    {"keygen", cadre_command_keygen,
     "DIR: make the keys of a job, by which its tasks authenticate each other"},
    {"version", print_version, "what this is"},
};

/* Prints the verbs and the exit codes. */
static void
print_help(FILE *to)
{
    fputs("Usage: cadre VERB ...\n\n"
          "Trains models asynchronously on parameter servers.\n\n",
          to);
    for (size_t i = 0; i < CADRE_COUNT_OF(verbs); i++) {
        fprintf(to, "  %-12s%s\n", verbs[i].verb, verbs[i].does);
    }

    fputs("\n`cadre VERB --help` lists the flags of a verb. Try: cadre run examples/digits.json\n"
          "\nExit codes:\n",
          to);
#define X(name, number, text) fprintf(to, "  %3d  %s\n", number, text);
    CADRE_EXIT_LIST(X)
#undef X
}

/* Prints that there is no such verb, with the nearest one; returns the exit code. */
static int
fail_verb(const char *verb)
{
    const char *words[CADRE_COUNT_OF(verbs)];
    for (size_t i = 0; i < CADRE_COUNT_OF(verbs); i++) {
        words[i] = verbs[i].verb;
    }
    cadre_auto(cadre_free) char *hint = cadre_suggest_text(verb, words, CADRE_COUNT_OF(verbs));
    fprintf(stderr, "cadre: there is no verb \"%s\"%s\nnext: %s --help\n", verb, hint,
            cadre_command_name());
    return CADRE_EXIT_USAGE;
}

/* Runs the verb in argv[1], with the rest of the arguments. */
static int
run_verb(int argc, char **argv)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(verbs); i++) {
        if (strcmp(argv[1], verbs[i].verb) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    return fail_verb(argv[1]);
}

/* Runs the command line: finds the verb, runs it, and returns the exit code. Help and version may
 * be asked for in several ways. */
int
cadre_command(int argc, char **argv)
{
    argp_err_exit_status = CADRE_EXIT_USAGE;
    if (cadre_startup() < 0) {
        return cadre_verb_fail(CADRE_ECONFIG);
    }

    if (argc < 2) {
        print_help(stderr);
        return CADRE_EXIT_USAGE;
    }

    const char *verb = argv[1];
    bool asks = strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0;
    if (asks && argc == 2) {
        print_help(stdout);
        return CADRE_EXIT_OK;
    }

    if (asks) { /* `cadre help VERB` is `cadre VERB --help` */
        static char help[] = "--help";
        char *words[] = {argv[0], argv[2], help, NULL};
        return run_verb(3, words);
    }

    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0) {
        return print_version(argc - 1, argv + 1);
    }

    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0) {
            argv[i] = "--help"; /* argp has no short form of --help */
        }
    }

    return run_verb(argc, argv);
}
