/*
 * sim_test - runs whole jobs in one thread, one per seed, and checks the invariants
 * (docs/protocol.md) after every event.
 *
 *     sim_test                     seeds 1 to 500 (150 with a sanitizer), those beyond that found a
 *                                  defect of a core, 1 to 10 quiet, 1 to 20 in series and 1 to 20
 *                                  refused, and that a seed repeats itself
 *     sim_test --seeds 1..5000     others; a line for each with --list
 *     sim_test --quiet --seeds ... jobs in which only messages suffer
 *     sim_test --series --seeds ... synchronous jobs whose steps one slot runs in series
 *     sim_test --refused --seeds ... synchronous jobs whose shards refuse to end a step
 *     sim_test --seed 17 --verbose one, with every message and fault
 *
 * Every job that is not quiet must have had SIM_FAULTS_MIN faults.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/sim/sim_run.h"

enum {
    SEEDS = SANITIZER ? 150 : 500,
    QUIET_SEEDS = 10,
    SERIES_SEEDS = 20,
    REFUSED_SEEDS = 20,
    REPEATED = 20
};

typedef struct {
    uint64_t first;
    uint64_t last;
    bool quiet;
    bool series;
    bool refused;
    bool verbose;
    bool list;
} options_t;

/* Beyond SEEDS: what fails here when a defect of a core that is mended comes back.
 * 990, 3804: a client's closure that failed in a replay was an error that nobody heard.
 * 11717: an assignment was repeated behind an update of a closure that was handed out after it.
 * 2941, 10150: a dropped function went while a client's closure that names it was kept. */
static const uint64_t found_defects[] = {990, 3804, 11717, 2941, 10150};

static const int fatal_signals[] = {SIGABRT, SIGSEGV};

static char aborted_text[64]; /* for the signal handler, like the next one */
static struct sigaction before[2];

/* A crash, or an assert in a core, must name its seed as well. Then whoever looked at the signal
 * before, a sanitizer perhaps, gets it. */
static void
on_fatal_signal(int signal_number)
{
    ssize_t written = write(STDERR_FILENO, aborted_text, strlen(aborted_text));
    (void)written;
    for (size_t i = 0; i < CADRE_COUNT_OF(before); i++) {
        if (fatal_signals[i] == signal_number) {
            sigaction(signal_number, &before[i], NULL);
        }
    }
}

static bool
parse(int count, char **words, options_t *options)
{
    *options = (options_t){.first = 1, .last = SEEDS};
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        char *end = NULL;
        if (strcmp(words[i], "--verbose") == 0) {
            options->verbose = true;
        } else if (strcmp(words[i], "--quiet") == 0) {
            options->quiet = true;
        } else if (strcmp(words[i], "--series") == 0) {
            options->series = true;
        } else if (strcmp(words[i], "--refused") == 0) {
            options->refused = true;
        } else if (strcmp(words[i], "--list") == 0) {
            options->list = true;
        } else if (strcmp(words[i], "--seed") == 0 || strcmp(words[i], "--seeds") == 0) {
            options->first = strtoull(value, &end, 10);
            options->last =
                strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : options->first;
            if (end == value || *end != '\0') {
                return false;
            }
            i++;
        } else {
            return false;
        }
    }
    return options->first <= options->last;
}

/* The option that made worlds special. */
static const char *
name_of(const options_t *options)
{
    const char *name = options->quiet ? " --quiet" : "";
    return options->series ? " --series" : name;
}

static sim_summary_t
run(uint64_t seed, const options_t *options)
{
    snprintf(aborted_text, sizeof(aborted_text), "sim: seed %" PRIu64 "%s crashed\n", seed,
             name_of(options));
    sim_summary_t summary = sim_run(&(sim_options_t){.seed = seed,
                                                     .quiet = options->quiet,
                                                     .in_series = options->series,
                                                     .refuses_steps = options->refused,
                                                     .verbose = options->verbose});
    if (options->list || options->verbose) {
        printf("seed %" PRIu64 ": trace %016" PRIx64 ", %" PRIu64 " events, %" PRIu64
               " messages, %" PRIu64 " closures, %" PRIu64 " faults, %" PRIu64 " restores, %" PRIu64
               " replayed, %" PRIu64 " lives, %" PRIu64 " + %" PRIu64 " checkpoints, %" PRIu64
               " errors, %" PRIu64 " that no worker could run, %.1f s\n",
               seed, summary.trace, summary.events, summary.messages, summary.closures,
               summary.faults, summary.restores, summary.replayed, summary.lives, summary.committed,
               summary.given_up, summary.errors, summary.unserved, (double)summary.time_ms / 1000);
        fflush(stdout);
    }
    return summary;
}

/* True when the job repeats itself: same trace, as many events. */
static bool
repeats(uint64_t seed, const options_t *options, const sim_summary_t *summary)
{
    sim_summary_t again = run(seed, options);
    bool same = again.trace == summary->trace && again.events == summary->events;
    if (!same) {
        fprintf(stderr, "sim: seed %" PRIu64 " does not repeat itself\n", seed);
    }
    return same;
}

static void
add(sim_summary_t *total, const sim_summary_t *summary)
{
    total->events += summary->events;
    total->closures += summary->closures;
    total->faults += summary->faults;
    total->restores += summary->restores;
    total->replayed += summary->replayed;
    total->found += summary->found;
    total->taken += summary->taken;
    total->lives += summary->lives - 1;
    total->committed += summary->committed;
    total->given_up += summary->given_up;
    total->unserved += summary->unserved;
    total->backups += summary->backups;
    total->won += summary->won;
    total->refused += summary->refused;
    total->full_steps += summary->full_steps;
    total->went_back += summary->went_back;
    total->row_updates += summary->row_updates;
    total->row_steps += summary->row_steps;
    total->keyless += summary->keyless;
    total->chained += summary->chained;
    total->rows_gone += summary->rows_gone;
    total->compensated += summary->compensated;
    total->uncompensated += summary->uncompensated;
    total->in_images += summary->in_images;
    total->resized += summary->resized;
    total->hopeless += summary->hopeless;
    total->rotten += summary->rotten;
    total->full_tables += summary->full_tables;
}

/* Every seed of a range; false when one does not repeat itself or had too few faults. */
static bool
run_range(const options_t *options)
{
    sim_summary_t total = {0};
    uint64_t few = 0;
    for (uint64_t seed = options->first; seed <= options->last; seed++) {
        sim_summary_t summary = run(seed, options);
        add(&total, &summary);
        if (!options->quiet && !options->series && summary.faults < SIM_FAULTS_MIN) {
            fprintf(stderr, "sim: seed %" PRIu64 " has only %" PRIu64 " faults\n", seed,
                    summary.faults);
            few++;
        }
        if (seed < options->first + REPEATED && !options->verbose &&
            !repeats(seed, options, &summary)) {
            return false;
        }
    }
    printf("sim: %" PRIu64 " seeds%s, %" PRIu64 " events, %" PRIu64 " closures, %" PRIu64
           " faults (%" PRIu64 " seeds with fewer than %d), %" PRIu64 " restores, %" PRIu64
           " updates replayed, %" PRIu64 " results taken (%" PRIu64 " where they were), %" PRIu64
           " checkpoints and %" PRIu64 " given up, %" PRIu64 " operations refused, %" PRIu64
           " closures that no worker could run, %" PRIu64 " backup attempts (%" PRIu64
           " won), %" PRIu64 " updates that found no room in their step, %" PRIu64
           " updates of parts of tables (%" PRIu64 " by steps, %" PRIu64 " without keys), %" PRIu64
           " of their files with a base, %" PRIu64 " found damaged (%" PRIu64
           " times nothing was whole), %" PRIu64 " of their rows evicted (%" PRIu64
           " updates found no room), %" PRIu64 " late gradients compensated and %" PRIu64
           " not, %" PRIu64 " in images, %" PRIu64 " times that the job went back, %" PRIu64
           " resumed with other ps, %" PRIu64 " deaths of the coordinator: all invariants held\n",
           options->last - options->first + 1, name_of(options), total.events, total.closures,
           total.faults, few, SIM_FAULTS_MIN, total.restores, total.replayed, total.taken,
           total.found, total.committed, total.given_up, total.refused, total.unserved,
           total.backups, total.won, total.full_steps, total.row_updates, total.row_steps,
           total.keyless, total.chained, total.rotten, total.hopeless, total.rows_gone,
           total.full_tables, total.compensated, total.uncompensated, total.in_images,
           total.went_back, total.resized, total.lives);
    return few == 0;
}

/* The seeds that found defects; each ends the process where an invariant does not hold. */
static void
run_found_defects(const options_t *options)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(found_defects); i++) {
        run(found_defects[i], options);
    }
    printf("sim: %zu seeds that found defects: all invariants held\n",
           CADRE_COUNT_OF(found_defects));
}

/* Jobs whose shards refuse to end a step, all of them repeated; false when one does not repeat
 * itself, or none ended by it. */
static bool
run_refused(const options_t *options)
{
    uint64_t fatal = 0;
    for (uint64_t seed = options->first; seed <= options->last; seed++) {
        sim_summary_t summary = run(seed, options);
        fatal += summary.is_fatal;
        if (!options->verbose && !repeats(seed, options, &summary)) {
            return false;
        }
    }
    printf("sim: %" PRIu64 " seeds whose shards end no step: %" PRIu64
           " jobs ended with the error\n",
           options->last - options->first + 1, fatal);
    return fatal > 0;
}

int
main(int count, char **words)
{
    options_t options;
    if (!parse(count, words, &options)) {
        fprintf(stderr,
                "usage: sim_test [--seed N | --seeds A..B] [--quiet | --series | --refused] "
                "[--list] [--verbose]\n");
        return 64;
    }
    printf("sim: seeds %" PRIu64 "..%" PRIu64 "\n", options.first, options.last);
    fflush(stdout);
    for (size_t i = 0; i < CADRE_COUNT_OF(before); i++) {
        sigaction(fatal_signals[i], &(struct sigaction){.sa_handler = on_fatal_signal}, &before[i]);
    }
    bool good = options.refused ? run_refused(&options) : run_range(&options);
    if (good && count == 1) {
        options_t quiet = {.first = 1, .last = QUIET_SEEDS, .quiet = true};
        options_t series = {.first = 1, .last = SERIES_SEEDS, .series = true};
        options_t refused = {.first = 1, .last = REFUSED_SEEDS, .refused = true};
        run_found_defects(&options);
        good = run_range(&quiet) && run_range(&series) && run_refused(&refused);
    }
    return good ? 0 : 1;
}
