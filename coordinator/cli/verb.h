/*
 * verb - functions that several verbs of the `cadre` command share.
 *
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_VERB_H
#define CADRE_COORDINATOR_CLI_VERB_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/checkpoint/checkpoint_directory.h"
#include "coordinator/cli/train/job.h"

/* Returns whether -o asks for json. Anything but json and text is a usage error, which ends the
 * process. */
bool cadre_verb_is_json(const char *argument, const struct argp_state *state);

/* Prints this thread's error text on stderr and returns the exit code of `status`. */
int cadre_verb_fail(int status);

/* The two words that follow a verb: what to do, and with which file or directory. NULL: not given
 * yet. */
typedef struct {
    const char *what;
    const char *object;
} cadre_verb_words_t;

/* Takes the next word; returns false when it is one too many. */
bool cadre_verb_words_take(cadre_verb_words_t *self, const char *word);

/* Ends the process with a usage error unless `what` is one of the words in `known`, which ends with
 * NULL. */
void cadre_verb_words_check(const cadre_verb_words_t *self, const char *const *known,
                            const struct argp_state *state);

/* Gives the newest sound checkpoint of a directory, and warns on stderr where a newer one is
 * damaged, which one and how. CADRE_ENOTFOUND when there is none, and
 * CADRE_ECORRUPT, with what is wrong with the newest, when there are some and none is sound. */
int cadre_verb_newest(cadre_checkpoint_directory_t *directory, uint64_t *id);

/* A setting of the job that a flag gave. */
typedef struct {
    const char *setting; /* "data.dir" */
    const char *text;
    const char *flag; /* "data" */
} cadre_verb_setting_t;

/* Fills `job` from `file` (NULL: none), then from the environment, then from `count` flags; later
 * sources overrule earlier ones. The caller may change settings and then calls cadre_job_finish.
 * Fails with CADRE_ECONFIG for a bad environment variable, and as cadre_job_file_read and
 * cadre_job_set do. */
int cadre_verb_read_job(cadre_job_t *job, const char *file, const cadre_verb_setting_t *settings,
                        size_t count);

#endif
