#include "tests/system/digits.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"

enum { DIGITS_SHORT_EPOCHS = 50 };

/* Ends the test unless `condition` holds; takes `text`. */
static void
expect(bool condition, char *text)
{
    require(condition, text);
    free(text);
}

void
digits_add(digits_t *self, const char *flag, const char *value)
{
    require(self->count + 2 < CADRE_COUNT_OF(self->arguments), "room for the flags");
    self->arguments[self->count++] = flag;
    self->arguments[self->count++] = value;
}

void
digits_open(digits_t *self, int epochs)
{
    *self = (digits_t){.count = 2, .epochs = epochs};
    if (SANITIZER && epochs > DIGITS_SHORT_EPOCHS) {
        self->epochs = epochs / 2; /* it is half as fast: the run takes as long */
    }
    command_open(&self->command);
    self->job = source_path("examples/digits.json");
    self->arguments[0] = "run";
    self->arguments[1] = self->job;
    digits_add(self, "-o", "json");
    digits_add(self, "--checkpoint-dir", self->command.checkpoints);
}

void
digits_close(digits_t *self)
{
    command_close(&self->command);
    free(self->job);
}

void
digits_start(digits_t *self)
{
    cadre_auto(cadre_free) char *epochs = cadre_asprintf("%d", self->epochs);
    size_t count = self->count;
    digits_add(self, "--epochs", epochs);
    command_start(&self->command, self->arguments);
    self->arguments[count] = NULL;
    self->count = count;
}

void
digits_start_to_checkpoint(digits_t *self, const char *every_s)
{
    digits_add(self, "--checkpoint-every", every_s);
    digits_start(self);
    command_wait_checkpoint(&self->command);
}

void
digits_expect_end(digits_t *self, int wanted)
{
    command_expect_exit(&self->command, command_end(&self->command), wanted);
}

void
digits_expect_number(const json_t *result, const char *path, double wanted)
{
    double number = json_number_at(result, path);
    expect(number >= wanted && number <= wanted,
           cadre_asprintf("%s is %.0f, not %.0f", path, number, wanted));
}

json_t *
digits_expect_finished(digits_t *self)
{
    static const char *const paths[] = {"closures.scheduled", "closures.finished",
                                        "updates.0.applied", "updates.1.applied"};
    digits_expect_end(self, 0);
    json_t *result = command_result(&self->command);
    require(result != NULL, "a result");
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        digits_expect_number(result, paths[i], (double)self->epochs * DIGITS_CLOSURES);
    }
    digits_expect_number(result, "examples", (double)self->epochs * DIGITS_ROWS);
    double accuracy = json_number_at(result, "accuracy");
    expect(accuracy >= 0.96, cadre_asprintf("accuracy %g", accuracy));
    return result;
}

void
digits_expect_resumed(digits_t *self)
{
    digits_add(self, "--resume", "auto");
    digits_start(self);
    self->count -= 2;
    self->arguments[self->count] = NULL;
    json_decref(digits_expect_finished(self));
}

void
digits_expect_checkpoints_intact(digits_t *self)
{
    const char *arguments[] = {"checkpoint", "verify", self->command.checkpoints, NULL};
    command_expect_exit(&self->command, command_run(&self->command, arguments), 0);
}

void
digits_expect_resumable(digits_t *self)
{
    digits_expect_checkpoints_intact(self);
    digits_expect_resumed(self);
}

void
digits_wait_said(const digits_t *self, const char *words)
{
    cadre_auto(cadre_free) char *errors = NULL;
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    do {
        require(again(deadline), words);
        cadre_free(&errors);
        errors = command_errors(&self->command);
    } while (!strstr(errors, words));
}

void
digits_expect_said(const digits_t *self, const char *words)
{
    cadre_auto(cadre_free) char *errors = command_errors(&self->command);
    expect(strstr(errors, words), cadre_asprintf("\"%s\" is missing: %s", words, errors));
}

void
digits_expect_next(const digits_t *self)
{
    cadre_auto(cadre_free) char *errors = command_errors(&self->command);
    const char *next = strstr(errors, "/cadre run ");
    bool right = next && strstr(next, "--resume auto") && strstr(next, self->command.checkpoints) &&
                 strchr(next, '\n') == next + strlen(next) - 1;
    expect(right, cadre_asprintf("the command to type next is not the last line: %s", errors));
}

int
digits_kill(const command_t *command, const char *const *tasks, size_t count, int kills_max,
            int64_t every_ms)
{
    int kills = 0;
    deadline_t next = deadline_in(every_ms);
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    while (!command_has_ended(command)) {
        if (kills == kills_max) {
            require(again(deadline), "the end of the run");
        } else if (!again(next)) {
            char role[16];
            int index = 0;
            require(sscanf(tasks[(size_t)kills % count], "%15[a-z]/%d", role, &index) == 2,
                    "a task");
            pid_t pid = command_task(command, role, index);
            kills += pid > 0 && kill(pid, SIGKILL) == 0;
            next = deadline_in(every_ms);
        }
    }
    return kills;
}
