/*
 * Training under fire: the shipped example, digits, with a random ps and a random worker killed
 * every three seconds, against the same run left alone. Accuracies are means over some runs each,
 * because one row held out is 0.28 points and no two runs apply their updates in one order. Where
 * $CADRE_TEST_DATA is set, adult.json too, whose 16,281 test rows need no mean.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

enum {
    KILL_EVERY_MS = 3000,
    RUN_MS = 300000,
    WORDS_MAX = 24,
    PS = 2, /* as in the examples */
    WORKERS = 2,
};

static const double points_max = 0.5;

typedef struct {
    const char *job;    /* in examples/ */
    const char *epochs; /* enough for some kills in each run */
    const char *data;   /* folder below $CADRE_TEST_DATA, NULL: none is needed */
    int runs;
} example_t;

/* Kills one ps and one worker every KILL_EVERY_MS until the run has ended; how many processes. */
static int
disturb(chaos_run_t *run, const command_t *command, int *end)
{
    int kills = 0;
    int64_t over_ms = cadre_clock_now_ms() + RUN_MS;
    while (!process_wait(command->pid, KILL_EVERY_MS, end)) {
        pid_t pids[] = {command_task(command, "ps", chaos_draw(run, PS)),
                        command_task(command, "worker", chaos_draw(run, WORKERS))};
        for (size_t i = 0; i < CADRE_COUNT_OF(pids); i++) {
            kills += pids[i] > 1 && kill(pids[i], SIGKILL) == 0;
        }
        require(cadre_clock_now_ms() < over_ms, "the end of a run");
    }
    return kills;
}

/* The accuracy of one run, whose totals must be exact. */
static double
train(chaos_run_t *run, const example_t *example, const char *folder, int *kills)
{
    command_t command;
    int end = 0;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path(example->job);
    const char *words[WORDS_MAX] = {"run",
                                    job,
                                    "-o",
                                    "json",
                                    "--epochs",
                                    example->epochs,
                                    "--checkpoint-dir",
                                    command.checkpoints,
                                    "--checkpoint-every",
                                    "2",
                                    "--max-restarts",
                                    "unlimited"};
    if (folder) {
        words[12] = "--data";
        words[13] = folder;
    }
    command_start(&command, words);
    if (kills) {
        *kills += disturb(run, &command, &end);
    } else {
        require(process_wait(command.pid, RUN_MS, &end), "the end of a run");
    }
    command.pid = 0;
    cadre_auto(cadre_free) char *said = command_errors(&command);
    json_t *result = command_result(&command);
    require(end == 0 && result, said);
    double scheduled = json_number_at(result, "closures.scheduled");
    const char *const paths[] = {"closures.finished", "updates.0.applied", "updates.1.applied"};
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        double found = json_number_at(result, paths[i]);
        require(found >= scheduled && found <= scheduled, paths[i]);
    }
    double accuracy = json_number_at(result, "accuracy");
    json_decref(result);
    command_close(&command);
    return accuracy;
}

static void
compare(chaos_run_t *run, const example_t *example, const char *name)
{
    const char *data = getenv("CADRE_TEST_DATA");
    cadre_auto(cadre_free) char *folder =
        example->data && data ? cadre_asprintf("%s/%s", data, example->data) : NULL;
    if (example->data && !data) {
        chaos_say(run, "%s left out: CADRE_TEST_DATA names no folder; ", name);
        return;
    }
    double quiet = 0;
    double disturbed = 0;
    int kills = 0;
    for (int i = 0; i < example->runs; i++) {
        quiet += 100 * train(run, example, folder, NULL) / example->runs;
        disturbed += 100 * train(run, example, folder, &kills) / example->runs;
    }
    double points = disturbed - quiet;
    chaos_say(run,
              "%s: %.2f %% left alone, %.2f %% with %d processes killed (%d runs each): %+.2f "
              "points; ",
              name, quiet, disturbed, kills, example->runs, points);
    char number[32];
    snprintf(number, sizeof(number), "%s_points", name);
    chaos_number(run, number, points);
    snprintf(number, sizeof(number), "%s_kills", name);
    chaos_number(run, number, kills);
    require(kills > 0, "a run that lasts long enough to be disturbed");
    require(points >= -points_max && points <= points_max, "accuracies within half a point");
}

void
chaos_accuracy(chaos_run_t *run)
{
    const example_t digits = {"examples/digits.json", "600", NULL, run->count};
    const example_t adult = {"examples/adult.json", "60", "adult", 1};
    compare(run, &digits, "digits");
    compare(run, &adult, "adult");
}
