/*
 * commands - the verbs of the `cadre` command. Each gets its own argv, argv[0] being the verb, and
 * gives an exit code; what it has to say it has said.
 *
 * Thread:  the main thread, before any other starts.
 */
#ifndef CADRE_COORDINATOR_CLI_COMMANDS_H
#define CADRE_COORDINATOR_CLI_COMMANDS_H

#include <argp.h>
#include <stdbool.h>

/* A local cluster and a job on it, or a program of the user's: `run job.json`, `run -- program`. */
int cadre_command_run(int argc, char **argv);

/* A job on a cluster that exists: `train job.json`. */
int cadre_command_train(int argc, char **argv);

/* A job's checkpoints on the rows held out, on a cluster of its own: `evaluate job.json`. */
int cadre_command_evaluate(int argc, char **argv);

int cadre_command_checkpoint(int argc, char **argv);
int cadre_command_config(int argc, char **argv);
int cadre_command_status(int argc, char **argv);
int cadre_command_keygen(int argc, char **argv);

/* The whole command line: finds the verb and runs it. */
int cadre_command(int argc, char **argv);

#endif
