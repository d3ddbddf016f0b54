/*
 * local_steps - HIDDEN EPOCHS STEPS MBIT: how much faster local steps train over slow links
 *
 * A job (`cadre train`) with one ps and two workers, each of which has MBIT per second to the ps in
 * each direction (slow_link.h): an MLP 64-HIDDEN-HIDDEN/2-10 over made-up rows, EPOCHS times, with
 * one step a closure and adam, and then with STEPS by DiLoCo (docs/strategies.md). Both are `sync`,
 * so that their accuracies are the same in each run on one machine. Wanted of 512 x 6 with 16 steps
 * over 100 Mbit/s: 8 times the examples per second, and an accuracy on 4,096 other rows that is at
 * most 0.5 points lower. The small form has a fast link and is judged by the bytes for one example,
 * of which 16 steps need a sixteenth, but for the one closure that evaluates. A worker that has
 * both closures of a step, since the other did not get to it on a busy machine, pulls once for
 * both: then one step a closure takes three quarters of the bytes.
 */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/scale/scale.h"
#include "tests/scale/slow_link.h"
#include "tests/system/command.h"

enum {
    WORKERS = 2,
    TRAIN_ROWS = 8192,
    TEST_ROWS = 4096,
    FEATURES = 64,
    CLASSES = 10,
    PROTOTYPES = 30,
    ARGUMENTS = 12,
    FASTER = 8,                  /* times, wanted */
    BYTES_PERCENT = 70,          /* of the steps: by how much the bytes of an example go down */
    MBIT_BYTES = 1000000 / 8,    /* bytes of a megabit */
    COMMAND_LONGEST_MS = 900000, /* for one run on a busy machine */
};

#define NOISE      1.5   /* of each feature, where prototypes have a deviation of 1 */
#define LOSS_LIMIT 0.005 /* of accuracy: half a point */

typedef struct {
    long hidden;
    long epochs;
    long mbit;
    char *rows; /* file */
} setup_t;

typedef struct {
    double examples_per_s;
    double accuracy;
    double bytes; /* over the links for one example, both ways */
} outcome_t;

/* --- rows --- */

/* Advances a linear congruential generator (Knuth's MMIX): in [0, 1). */
static double
draw(uint64_t *random)
{
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(*random >> 11) / 9007199254740992.0;
}

/* A normal deviate, nearly: the sum of twelve uniform ones, less its mean. */
static double
draw_normal(uint64_t *random)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += draw(random);
    }
    return sum;
}

/* Writes rows around 30 prototypes, three for each class. */
static void
write_rows(const char *path)
{
    static double prototypes[PROTOTYPES][FEATURES];
    uint64_t random = 1;
    for (int i = 0; i < PROTOTYPES * FEATURES; i++) {
        prototypes[i / FEATURES][i % FEATURES] = draw_normal(&random);
    }
    FILE *file = fopen(path, "we");
    require(file != NULL, path);
    for (int row = 0; row < TRAIN_ROWS + TEST_ROWS; row++) {
        int prototype = (int)(draw(&random) * PROTOTYPES);
        for (int i = 0; i < FEATURES; i++) {
            fprintf(file, "%.3f,", prototypes[prototype][i] + NOISE * draw_normal(&random));
        }
        fprintf(file, "%d\n", prototype % CLASSES);
    }
    require(fclose(file) == 0, path);
}

/* --- a run --- */

/* Writes the job file: adam with one step a closure, else DiLoCo. */
static void
write_job(const setup_t *setup, long steps, const char *path)
{
    FILE *file = fopen(path, "we");
    require(file != NULL, path);
    fprintf(file,
            "{\"seed\": 1, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"%s\", \"rows\": "
            "%d}, "
            "\"test\": {\"format\": \"csv\", \"path\": \"%s\", \"first_row\": %d}}, "
            "\"model\": {\"type\": \"mlp\", \"hidden\": [%ld, %ld]}, ",
            setup->rows, TRAIN_ROWS, setup->rows, TRAIN_ROWS, setup->hidden, setup->hidden / 2);
    fprintf(file, steps == 1 ? "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.001}, "
                             : "\"optimizer\": {\"type\": \"nesterov\", \"learning_rate\": 0.7, "
                               "\"momentum\": 0.5}, ");
    fprintf(file,
            "\"training\": {\"epochs\": %ld, \"local_steps\": %ld, \"consistency\": \"sync\", "
            "\"step_closures\": %d, \"evaluation_batch_size\": %d%s}, "
            "\"cluster\": {\"ps\": 1, \"workers\": %d}, \"checkpoint\": {\"dir\": \"none\"}}\n",
            setup->epochs, steps, WORKERS, TEST_ROWS,
            steps == 1 ? "" : ", \"inner\": {\"type\": \"adamw\", \"learning_rate\": 0.001}",
            WORKERS);
    require(fclose(file) == 0, path);
}

/* Starts a ps, which listens at `own`, or a worker (NULL), for the coordinator at `address`. */
static pid_t
start_task(const command_t *command, const char *address, const char *own, int index)
{
    cadre_auto(cadre_free) char *program = program_path(own ? "cadre-ps" : "cadre-worker");
    cadre_auto(cadre_free) char *number = cadre_asprintf("%d", index);
    cadre_auto(cadre_free) char *log =
        cadre_asprintf("%s/%s-%d.log", command->scratch.path, own ? "ps" : "worker", index);
    const char *of_ps[] = {program, "--index",   number, "--coordinator",
                           address, "--address", own,    NULL};
    const char *of_worker[] = {program, "--index", number, "--coordinator",
                               address, "--slots", "1",    "--threads",
                               "1",     NULL};
    return process_start(&(process_t){.arguments = own ? of_ps : of_worker, .output = log});
}

/* What `cadre train` says at its end. */
static outcome_t
outcome_of(command_t *command, const slow_link_t *link)
{
    for (deadline_t deadline = deadline_in(COMMAND_LONGEST_MS); !command_has_ended(command);) {
        require(again(deadline), "the end of the training");
    }
    command_expect_exit(command, command_end(command), 0);
    json_t *result = command_result(command);
    require(result != NULL, "a result");
    double bytes = (double)(slow_link_up_bytes(link) + slow_link_down_bytes(link));
    outcome_t outcome = {.examples_per_s = json_number_at(result, "examples_per_s"),
                         .accuracy = json_number_at(result, "accuracy"),
                         .bytes = bytes / json_number_at(result, "examples")};
    json_decref(result);
    return outcome;
}

/* Trains the job with so many local steps, each process started here. */
static outcome_t
train(const setup_t *setup, long steps)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    cadre_auto(cadre_free) char *socket = scratch_path(&command.scratch, "ps-0");
    cadre_auto(cadre_free) char *own = cadre_asprintf("ipc://%s", socket);
    cadre_auto(cadre_free) char *address =
        cadre_asprintf("ipc://%s/coordinator", command.scratch.path);
    write_job(setup, steps, job);

    pid_t tasks[1 + WORKERS] = {start_task(&command, address, own, 0)};
    for (deadline_t deadline = deadline_in(SCALE_WAIT_MS); access(socket, F_OK) != 0;) {
        require(again(deadline), "a ps that listens");
    }
    slow_link_t *link = slow_link_open_each(socket, (uint64_t)setup->mbit * MBIT_BYTES);
    const char *arguments[] = {"train", job, "--address", address, "-o", "json", NULL};
    command_start(&command, arguments);
    for (int i = 0; i < WORKERS; i++) {
        tasks[1 + i] = start_task(&command, address, NULL, i);
    }

    /* On a busy machine a worker may come when the training is over, and look for its coordinator
     * until it is told to end. */
    outcome_t outcome = outcome_of(&command, link);
    for (int i = 0; i < 1 + WORKERS; i++) {
        int status = 0;
        kill(tasks[i], SIGTERM);
        require(process_wait(tasks[i], SCALE_WAIT_MS, &status), "the end of a task");
    }
    slow_link_close(&link);
    command_close(&command);
    return outcome;
}

int
main(int argc, char **argv)
{
    scale_arguments_t arguments = scale_arguments(argc, argv);
    setup_t setup = {.hidden = scale_number(&arguments, 0, 512, 64),
                     .epochs = scale_number(&arguments, 1, 6, 2),
                     .mbit = scale_number(&arguments, 3, 100, 100000)};
    long steps = scale_number(&arguments, 2, 16, 16);
    scratch_t scratch;
    scratch_open(&scratch);
    setup.rows = scratch_path(&scratch, "rows.csv");
    write_rows(setup.rows);
    outcome_t one = train(&setup, 1);
    outcome_t many = train(&setup, steps);
    free(setup.rows);
    scratch_close(&scratch);

    double faster = many.examples_per_s / one.examples_per_s;
    double lighter = one.bytes / many.bytes;
    bool is_light = lighter * 100 >= (double)(BYTES_PERCENT * steps);
    bool is_fast = faster >= FASTER && many.accuracy >= one.accuracy - LOSS_LIMIT;
    return scale_verdict(
        is_light && (arguments.is_short || is_fast),
        "64-%ld-%ld-10, 2 workers of %ld Mbit/s, %ld epochs: with 1 step %.0f examples/s, %.0f "
        "bytes for each, accuracy %.2f %%; with %ld steps %.0f, %.0f, %.2f %%: %.1f times as fast, "
        "%.1f times fewer bytes",
        setup.hidden, setup.hidden / 2, setup.mbit, setup.epochs, one.examples_per_s, one.bytes,
        100 * one.accuracy, steps, many.examples_per_s, many.bytes, 100 * many.accuracy, faster,
        lighter);
}
