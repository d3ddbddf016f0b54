/*
 * The time from kill -9 of a ps to the first new push that its shard applies, under the local
 * launcher, and what the other shard notices of it. recovery_job.c measures.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/chaos/chaos.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

enum {
    RUN_MS = 600000,
    P50_MAX_MS = 1000, /* what the figures must be, where time is not a sanitizer's */
    P99_MAX_MS = 3000,
};

static void
run_job(command_t *command, int kills, const char *results)
{
    cadre_auto(cadre_free) char *native = program_path("../tests/chaos_functions.so");
    cadre_auto(cadre_free) char *program = program_path("../tests/chaos_recovery_job");
    char number[16];
    int end = 0;
    snprintf(number, sizeof(number), "%d", kills);
    const char *arguments[] = {
        "run",       "--ps",     "2",    "--workers", "2",     "--max-restarts",
        "unlimited", "--native", native, "--",        program, command->checkpoints,
        number,      results,    NULL};
    command_start(command, arguments);
    bool ended = process_wait(command->pid, RUN_MS, &end);
    require(ended, "the end of the run");
    command->pid = 0;
    require(WIFEXITED(end) && WEXITSTATUS(end) == 0, "a run that counts every closure once");
}

/* The figures in `results`: so many lines of two numbers, then the number of closures. */
static double
read_results(const char *results, int count, double *aways, double *pauses)
{
    cadre_auto(cadre_free) char *text = file_text(results);
    const char *at = text;
    double closures = 0;
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        aways[i] = strtod(at, &end);
        pauses[i] = strtod(end, &end);
        require(end != at && *end == '\n', "a line of two numbers for each kill");
        at = end + 1;
    }
    require(sscanf(at, "closures %lf", &closures) == 1, "the number of closures");
    return closures;
}

void
chaos_recovery_time(chaos_run_t *run)
{
    command_t command;
    double *aways = cadre_calloc((size_t)run->count, sizeof(*aways));
    double *pauses = cadre_calloc((size_t)run->count, sizeof(*pauses));
    command_open(&command);
    cadre_auto(cadre_free) char *results = scratch_path(&command.scratch, "results");
    run_job(&command, run->count, results);
    double closures = read_results(results, run->count, aways, pauses);
    command_close(&command);
    double p50 = chaos_percentile(aways, run->count, 50);
    double p99 = chaos_percentile(aways, run->count, 99);
    double most = chaos_percentile(aways, run->count, 100);
    double pause = chaos_percentile(pauses, run->count, 50);
    double longest = chaos_percentile(pauses, run->count, 100);
    chaos_say(
        run,
        "%d kills of a ps with 64 MB: a new push applied after p50 %.0f, p99 %.0f, most %.0f "
        "ms; the other shard's longest pause p50 %.0f, most %.0f ms; %.0f closures, counted once",
        run->count, p50, p99, most, pause, longest, closures);
    chaos_number(run, "p50_ms", p50);
    chaos_number(run, "p99_ms", p99);
    chaos_number(run, "max_ms", most);
    chaos_number(run, "other_pause_p50_ms", pause);
    chaos_number(run, "other_pause_max_ms", longest);
    free(aways);
    free(pauses);
    require(run->short_form || (p50 < P50_MAX_MS && p99 < P99_MAX_MS), "p50 < 1 s and p99 < 3 s");
}
