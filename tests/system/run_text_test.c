/* Jobs over a text that is streamed: trained as in memory, also where tasks are killed. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_text, .timeout = 900);

enum { WORDS = 4000, EPOCHS = 40 };

/* Two kinds of passages, of words that are in no other. */
static void
write_text(const char *path)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    uint32_t state = 1; /* of a linear congruential generator */
    for (unsigned i = 0; i < WORDS; i++) {
        const unsigned passage = i / 20 % 2;
        state = state * 1664525 + 1013904223;
        fprintf(file, "w%u%s", passage * 100 + (state >> 16) % 100, i % 20 == 19 ? "\n\n" : " ");
    }
    cr_assert_eq(fclose(file), 0);
}

/* Each epoch is one step of all rows, which is the same in any order of them. */
static void
write_job(const char *path, const char *data)
{
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fprintf(file,
            "{\"seed\": 5, \"data\": {\"train\": {\"format\": \"text\", \"path\": \"text-*\", "
            "\"label_kind\": \"binary\", \"vocabulary\": 200, \"subsample\": 0, \"window\": 3%s}, "
            "\"test\": {\"fraction\": 0.1}}, "
            "\"model\": {\"type\": \"factorization_machine\", \"fields\": [200, 200], "
            "\"factors\": 4, \"linear\": false}, "
            "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.1}, "
            "\"training\": {\"epochs\": %d, \"consistency\": \"sync\", \"step_closures\": 2048, "
            "\"batch_size\": 1024}, \"cluster\": {\"ps\": 2, \"workers\": 2}}",
            data, EPOCHS);
    cr_assert_eq(fclose(file), 0);
}

/* Ends the run's worker 0 after a checkpoint, then all of it, and takes it up again. */
static int
disturb(command_t *command, const char **arguments)
{
    command_start(command, arguments);
    command_wait_checkpoint(command);
    cr_assert_gt(command_signal_task(command, "worker", 0, SIGKILL), 0);
    (void)command_wait_checkpoint_after(command, 1);
    command_signal(command, SIGKILL);
    cr_assert_eq(command_end(command), -SIGKILL, "it was in the middle");
    arguments[6] = "--resume";
    arguments[7] = "auto";
    return command_run(command, arguments);
}

/* Trains on the text, which `data` describes further. Returns the loss on the rows held out. */
static double
loss_of(const char *data, bool is_disturbed)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *text = scratch_path(&command.scratch, "text-1");
    cadre_auto(cadre_free) char *other = scratch_path(&command.scratch, "text-2");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    write_text(text);
    write_text(other);
    write_job(job, data);
    const char *arguments[] = {"run", job,    "--checkpoint-dir",   command.checkpoints,
                               "-o",  "json", "--checkpoint-every", is_disturbed ? "0.1" : "100",
                               NULL};
    int code = is_disturbed ? disturb(&command, arguments) : command_run(&command, arguments);
    command_expect_exit(&command, code, 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    const double loss = json_number_at(result, "loss");
    const double closures = json_number_at(result, "closures.finished");
    cr_expect_eq(json_number_at(result, "updates.0.applied"), closures);
    json_decref(result);
    command_close(&command);
    return loss;
}

#define STREAMED ", \"streaming\": true, \"shuffle_blocks\": 4, \"memory_mib\": 1"

Test(run_text, is_learned_from_a_stream_as_from_memory)
{
    const double loss = loss_of("", false);
    cr_expect_lt(loss, 0.42, "%g", loss); /* 0.451 where nothing is learned but how many are 1 */
    const double streamed = loss_of(STREAMED, false);
    cr_expect_float_eq(streamed, loss, 1e-5, "%.7f and %.7f", streamed, loss);
    const double drawn_otherwise = loss_of(STREAMED ", \"sample_seed\": 2", false);
    cr_expect_gt(fabs(drawn_otherwise - loss), 3e-5, "%.7f and %.7f", drawn_otherwise, loss);
}

/* A checkpoint may cut a step in two, so the loss is not quite the same. */
Test(run_text, is_learned_from_a_stream_although_tasks_are_killed)
{
    const double loss = loss_of("", false);
    const double disturbed = loss_of(STREAMED, true);
    cr_expect_float_eq(disturbed, loss, 0.02, "%.7f and %.7f", disturbed, loss);
}
