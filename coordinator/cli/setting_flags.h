/*
 * setting_flags - the flags that are settings of a job, in one table, and the reading of them.
 *
 * Owner:   the caller of each function.
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_SETTING_FLAGS_H
#define CADRE_COORDINATOR_CLI_SETTING_FLAGS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "coordinator/cli/verb.h"

enum {
    CADRE_SETTING_FLAGS_MAX = 48, /* flags of the table */
    CADRE_OTHER_FLAGS_MAX = 16,   /* flags of a verb besides these */
};

typedef struct {
    const char *flag;     /* "consistency" */
    const char *argument; /* "HOW" */
    const char *setting;  /* "training.consistency" */
    bool local_only;      /* it is for tasks that are started here: `train` has no such flag */
    /* What a program does in its place ("says how in ..."), as only a job file has a use for the
     * flag; NULL: it counts with `cadre run -- PROGRAM` too. */
    const char *in_program;
    const char *does;
} cadre_setting_flag_t;

/* Returns the table, with its number of rows. */
const cadre_setting_flag_t *cadre_setting_flags(size_t *count);

/* Settings that flags gave, in the order of the command line. */
typedef struct {
    cadre_verb_setting_t list[CADRE_JOB_SETTINGS_MAX];
    size_t count;
} cadre_given_settings_t;

/* Writes the flags of the table, at most CADRE_SETTING_FLAGS_MAX, as options of argp into
 * `options`; returns how many there are. `local`: also those for tasks that are started here. Keys
 * of other options must be letters, or at least 0x2000. */
size_t cadre_setting_flags_options(bool local, struct argp_option *options);

/* Keeps the value of the flag with argp's `key` as text: it counts only after the job file and the
 * environment. Returns the flag's row; NULL when the key is none of the table. */
const cadre_setting_flag_t *cadre_setting_flags_take(cadre_given_settings_t *self, int key,
                                                     const char *argument,
                                                     const struct argp_state *state);

/* Refuses flags that are not written out, with a guess at what was meant: CADRE_EINVALID. getopt
 * would take "--ps 3" for "--ps-timeout 3" where there is no --ps, and the command is shown again
 * to the user with a flag changed. Behind "--" there are none. `argv[0]` names the verb, and
 * `options` ends with an empty one. */
int cadre_flags_check_written_out(const struct argp_option *options, int argc, char **argv);

#endif
