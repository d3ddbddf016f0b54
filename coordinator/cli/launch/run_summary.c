#include "coordinator/cli/launch/run_summary.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "coordinator/cli/terminal/command_text.h"
#include "coordinator/cli/terminal/exit_code.h"
#include "coordinator/cli/train/job_strategy.h"
#include "coordinator/cli/train/training_stop.h"

/* Returns the exit code of the run: the one with which the launcher ended it, else that of a
 * failure of the supervisor, else of the signal that stopped it, else of the trainer. */
int
cadre_run_summary_code(const cadre_run_summary_t *self)
{
    if (self->ended) {
        return self->exit_code;
    }
    if (self->status < 0) {
        return self->cannot_write ? CADRE_EXIT_CANNOT_WRITE : cadre_exit_code(self->status);
    }
    if (self->stop_signal && (!self->outcome || self->outcome->status == CADRE_EINTERRUPTED)) {
        return 128 + self->stop_signal;
    }
    if (!self->outcome) {
        return CADRE_EXIT_OK;
    }

    if (self->outcome->status < 0) {
        return cadre_exit_code(self->outcome->status);
    }

    return self->outcome->target_missed ? CADRE_EXIT_FAILED : CADRE_EXIT_OK;
}

/* --- the command to type next --- */

/* Returns the user's command with one flag changed, freed by the caller. */
static char *
with_flag(const cadre_run_summary_t *self, const char *flag, const char *value)
{
    const cadre_command_flag_t changed = {flag, value};
    return cadre_command_text(self->command, &changed, 1);
}

/* Returns the command that resumes from the newest checkpoint; NULL when there is none. */
static char *
resume_command(const cadre_run_summary_t *self)
{
    const char *checkpoint = self->outcome ? self->outcome->result.checkpoint : NULL;
    return checkpoint ? with_flag(self, "--resume", "auto") : NULL;
}

/* Returns the command that trains for twice as many epochs, from the checkpoint if the job has
 * any. */
static char *
more_epochs(const cadre_run_summary_t *self)
{
    char epochs[24];
    snprintf(epochs, sizeof(epochs), "%lld", (long long)(2 * self->job->epochs));
    const cadre_command_flag_t flags[] = {{"--epochs", epochs}, {"--resume", "auto"}};
    return cadre_command_text(self->command, flags, cadre_job_checkpoints(self->job) ? 2 : 1);
}

/* Returns whether a condition of training.stop ended the run: then more epochs change nothing. */
static bool
ended_early(const cadre_run_summary_t *self)
{
    const char *stopped = self->outcome ? self->outcome->result.stopped : NULL;
    return stopped && strcmp(stopped, cadre_stop_word(CADRE_STOP_EPOCHS)) != 0;
}

/* Returns the command for a missing file: that which goes on if rows were trained on before, with
 * another --resume if it is the named checkpoint, else with --data. */
static char *
find_input(const cadre_run_summary_t *self)
{
    const char *resume = self->job->resume;
    if (self->outcome && self->outcome->result.seconds > 0) {
        return resume_command(self); /* it was there, and is gone: the text says what to put back */
    }
    bool is_name = resume && strcmp(resume, "auto") != 0 && strcmp(resume, "never") != 0;
    bool checkpoint = is_name && strstr(self->text, resume);
    return checkpoint ? with_flag(self, "--resume", "auto") : with_flag(self, "--data", "DIR");
}

/* Returns the command that an error text about keys contains; NULL if it contains none. */
static char *
make_keys(const char *text)
{
    const char *command = strstr(text, "`cadre keygen ");
    return command ? cadre_strndup(command + 1, strcspn(command + 1, "`")) : NULL;
}

/* Returns the command for a configuration error: without the checkpoint if that is of another
 * model, with new keys, or to check the job file. NULL where the launcher has ended the run: its
 * reason is a task's, which no setting of the job mends. */
static char *
mend_configuration(const cadre_run_summary_t *self)
{
    int status = self->outcome ? self->outcome->status : self->status;
    const char *text = self->outcome ? self->outcome->text : self->text;

    if (self->ended || status == CADRE_EFULL) {
        return NULL; /* the file is sound; what has no room says what to do */
    }
    if (strncmp(text, "keys: ", strlen("keys: ")) == 0) {
        return make_keys(text); /* only the keys are at fault */
    }

    return status == CADRE_ESHAPE || status == CADRE_EDTYPE || strstr(text, "--resume never")
               ? with_flag(self, "--resume", "never")
               : cadre_asprintf("%s config check %s", cadre_command_name(), self->job->file);
}

/* Returns whether the job's own newest checkpoint cannot be read, which the error text names; an
 * older one may be good. */
static bool
newest_is_at_fault(const cadre_run_summary_t *self)
{
    const char *checkpoint = self->outcome ? self->outcome->result.checkpoint : NULL;
    const int status = self->outcome ? self->outcome->status : 0;
    return checkpoint && status < 0 && status != CADRE_ECONFIG &&
           strstr(self->outcome->text, checkpoint);
}

/* Returns the command that most likely helps, freed by the caller; NULL when there is none. */
static char *
next_command(const cadre_run_summary_t *self, int code)
{
    if (!self->job) {
        return NULL;
    }
    if (newest_is_at_fault(self)) {
        return resume_command(self);
    }

    switch (code) {
    case CADRE_EXIT_OK:
        return ended_early(self) ? NULL : more_epochs(self);
    case CADRE_EXIT_FAILED:
        return self->outcome && self->outcome->target_missed ? more_epochs(self) : NULL;
    case CADRE_EXIT_NO_INPUT:
        return find_input(self);
    case CADRE_EXIT_CONFIG:
        return mend_configuration(self);
    case CADRE_EXIT_UNAVAILABLE:
    case CADRE_EXIT_IO:
    case CADRE_EXIT_TIMEOUT:
    case CADRE_EXIT_INTERRUPTED:
    case CADRE_EXIT_TERMINATED:
        return resume_command(self);
    }

    return NULL;
}

/* --- the texts --- */

/* Returns a hint for bad data: where a line is bad that could be skipped, which the reader of the
 * file says; NULL for anything else. */
static const char *
data_hint(const char *text)
{
    if (!strstr(text, "bad line: ") && !strstr(text, "bad lines: ")) {
        return NULL;
    }
    return strncmp(text, "dataset test: ", strlen("dataset test: ")) == 0
               ? "mend the line, or let some be skipped: \"skip_bad\" in data.test"
               : "mend the line, or let some be skipped: \"skip_bad\" in data.train";
}

/* Returns a hint on what to change after a failure; NULL when there is none for its status. */
static const char *
hint(const cadre_run_summary_t *self)
{
    int status = self->outcome ? self->outcome->status : self->status;
    switch (status) {
    case CADRE_ENOTFINITE:
        return "training diverged: a smaller \"learning_rate\" in the job's optimizer helps most "
               "often";
    case CADRE_EDATA:
        return data_hint(self->outcome ? self->outcome->text : self->text);
    case CADRE_ENOMEMORY:
        return "a smaller \"batch_size\" in the job's training, or smaller layers, need less";
    case CADRE_EPROTOCOL:
        return "all tasks must be of one build";
    }

    return NULL;
}

/* Returns the text of the failure, freed by the caller; NULL when there was none. */
static char *
failure(const cadre_run_summary_t *self, int code)
{
    /* The cause is named before its consequences: a lost task also makes the trainer fail. */
    if (self->ended && self->outcome) {
        return cadre_asprintf("%s; %s", self->reason,
                              self->outcome->result.checkpoint
                                  ? "the checkpoint is intact"
                                  : "there is no checkpoint yet to go on from");
    }

    if (self->ended) {
        return *self->reason ? cadre_strdup(self->reason) : NULL;
    }
    if (self->status < 0) {
        return cadre_strdup(self->text);
    }
    if (!self->outcome || code == CADRE_EXIT_OK) {
        return NULL;
    }

    if (self->outcome->target_missed) {
        return cadre_asprintf("accuracy %.2f %% is below the target of %.2f %%",
                              100 * self->outcome->result.accuracy,
                              100 * self->job->target_accuracy);
    }

    if (self->outcome->status == CADRE_EINTERRUPTED) {
        return cadre_asprintf("stopped%s", self->outcome->saved ? " after a checkpoint" : "");
    }

    return cadre_asprintf("%s (%s)", self->outcome->text, cadre_status_text(self->outcome->status));
}

/* Prints a result with nothing in it: scripts expect one JSON object even if nothing was
 * trained. */
static void
put_nothing(const cadre_job_t *job)
{
    cadre_result_t nothing;
    cadre_result_init(&nothing);
    nothing.strategy = cadre_job_strategy_word(job);
    cadre_auto(cadre_free) char *text = cadre_result_json(&nothing);
    printf("%s\n", text);
    fflush(stdout);
    cadre_result_fini(&nothing);
}

/* Prints the result on stdout, as JSON or, if anything was trained, in words; then on stderr where
 * the checkpoints are. */
static void
put_result(const cadre_run_summary_t *self, cadre_console_t *console)
{
    const cadre_result_t *result = &self->outcome->result;
    cadre_console_clear(console);
    if (self->json) {
        cadre_auto(cadre_free) char *text = cadre_result_json(result);
        printf("%s\n", text);
    } else if (result->seconds > 0) {
        cadre_auto(cadre_free) char *text = cadre_result_text(result);
        printf("%s\n", text);
    }

    fflush(stdout);
    if (result->checkpoint) {
        cadre_console_say(console, "checkpoint: %s", result->checkpoint);
    }
    if (result->best_checkpoint) {
        cadre_console_say(console, "best checkpoint: %s (%s %.4g after %lld steps)",
                          result->best_checkpoint, result->best_metric, result->best,
                          (long long)result->best_step);
    }
}

/* Prints the result, the failure with a hint, and the command to type next; writes the events
 * "result" and "ended". Returns the exit code. */
int
cadre_run_summary_print(const cadre_run_summary_t *self, cadre_console_t *console,
                        cadre_events_t *events)
{
    int code = cadre_run_summary_code(self);
    if (self->outcome) {
        put_result(self, console);
        cadre_events_write(events, "result", cadre_result_object(&self->outcome->result));
    } else if (self->job && self->json) {
        put_nothing(self->job);
    }

    cadre_auto(cadre_free) char *text = failure(self, code);
    if (text) {
        cadre_console_say(console, "cadre: %s", text);
    }
    if (code != CADRE_EXIT_OK && hint(self)) {
        cadre_console_say(console, "hint: %s", hint(self));
    }

    cadre_auto(cadre_free) char *next = next_command(self, code);
    if (next) {
        cadre_console_say(console, "next: %s", next);
    }

    cadre_events_write(events, "ended", json_pack("{s:i, s:s?}", "exit_code", code, "text", text));
    /* A run that went well but could not write its events file has failed for who reads that. */
    return code == CADRE_EXIT_OK && events->error ? CADRE_EXIT_IO : code;
}
