/*
 * commands - the verbs of the `cadre` command. Each gets its own argv, whose argv[0] is the verb,
 * prints its output and errors, and returns an exit code.
 *
 * Thread:  the main thread, before any other starts.
 */
#ifndef CADRE_COORDINATOR_CLI_COMMANDS_H
#define CADRE_COORDINATOR_CLI_COMMANDS_H

#include <argp.h>
#include <stdbool.h>

/* Runs a job on a new local cluster, or a program of the user: `run job.json`, `run -- program`. */
int cadre_command_run(int argc, char **argv);

/* Runs a job on a cluster that exists: `train job.json`. */
int cadre_command_train(int argc, char **argv);

/* Tests a job's checkpoints on the held-out rows, on a local cluster of its own: `evaluate
 * job.json`. */
int cadre_command_evaluate(int argc, char **argv);

int cadre_command_checkpoint(int argc, char **argv);
int cadre_command_embedding(int argc, char **argv);
int cadre_command_config(int argc, char **argv);
int cadre_command_status(int argc, char **argv);
int cadre_command_variables(int argc, char **argv);
int cadre_command_keygen(int argc, char **argv);

/* Runs the whole command line: finds the verb and calls it. */
int cadre_command(int argc, char **argv);

#endif
