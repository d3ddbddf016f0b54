/*
 * checkpoints - CLOSURE_MS EVERY_MS SECONDS STRAGGLE: what checkpoints take of the slots' time
 *
 * Two jobs at the same time, each with 4 workers of 4 slots, run closures that sleep for CLOSURE_MS
 * on average, one in 50 of them STRAGGLE times as long; one job takes a checkpoint every EVERY_MS.
 * Wanted: 97 % of the closures of the other, of 5 s with a checkpoint every 10 s, and of 200 ms
 * with one in 50 taking 10 s; and that checkpoints commit where closures of 20 s run with one every
 * 2 s (it goes on until one has). A busy machine is busy for both. The small forms are ten times as
 * short, with too few closures to be counted so: they, and the large ones too, are judged by the
 * slots for which a closure was in flight, 97 % of what that was without checkpoints. A cut that
 * stopped dispatch would show there (76 and 64 % were measured), and how late the machine is does
 * not.
 */

#include "common/base/memory.h"
#include "tests/scale/scale.h"

enum { WORKERS = 4, SLOTS = 4, AHEAD = 2048, STRAGGLER_OF = 50, PERCENT = 97 };

typedef struct {
    long closure_ms;
    long every_ms;
    long seconds;
    long straggle; /* 1: none */
} load_t;

typedef struct {
    scratch_t scratch;
    scale_cluster_t cluster;
    cadre_function_t *function;
    uint64_t number; /* of the next closure */
    double seen_s;   /* when it was last looked at */
    double slot_s;   /* seconds times slots with a closure in flight */
    cadre_totals_t totals;
} job_t;

static int64_t
duration_ms(const load_t *load, uint64_t number)
{
    if (load->straggle > 1) {
        return number % STRAGGLER_OF == STRAGGLER_OF - 1 ? load->closure_ms * load->straggle
                                                         : load->closure_ms;
    }
    return load->closure_ms / 10 + load->closure_ms * 18 / 10 * (int64_t)(number * 7 % 11) / 10;
}

static void
job_open(job_t *self, const load_t *load, bool with_checkpoints)
{
    scratch_open(&self->scratch);
    cadre_auto(cadre_free) char *directory = scratch_path(&self->scratch, "checkpoints");
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.checkpoint_dir = with_checkpoints ? directory : NULL;
    options.checkpoint_every_ms = with_checkpoints ? load->every_ms : 0;
    scale_cluster_open(&self->cluster, 1, &options);
    self->cluster.native = "../tests/scale_functions.so";
    scale_cluster_add_processes(&self->cluster, WORKERS, SLOTS);
    scale_check(cadre_coordinator_wait_ready(self->cluster.coordinator, WORKERS, SCALE_WAIT_MS),
                "the workers");
    cadre_variable_options_t adds = cadre_variable_options();
    adds.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    cadre_variable_t *total = NULL;
    scale_check(cadre_variable_create(self->cluster.coordinator, "total", CADRE_F32, NULL, 0, &adds,
                                      &total),
                "total");
    scale_check(cadre_function_native(self->cluster.coordinator, "sleep_add", &self->function),
                "a function");
}

static void
job_close(job_t *self)
{
    scale_cluster_close(&self->cluster);
    scratch_close(&self->scratch);
}

/* Notes what is in flight, and schedules what is missing. */
static void
job_turn(job_t *self, const load_t *load)
{
    double now = scale_now();
    self->totals = cadre_coordinator_totals(self->cluster.coordinator);
    uint64_t busy =
        self->totals.in_flight < WORKERS * SLOTS ? self->totals.in_flight : WORKERS * SLOTS;
    self->slot_s += self->seen_s > 0 ? (now - self->seen_s) * (double)busy : 0;
    self->seen_s = now;
    for (uint64_t i = self->totals.queued; i < AHEAD; i++) {
        int64_t ms = duration_ms(load, self->number++);
        cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 0, .data = &ms};
        cadre_argument_t argument = {"ms", &value};
        cadre_call_t call = cadre_call_tensors(&argument, 1);
        scale_check(cadre_coordinator_schedule(self->cluster.coordinator, self->function, &call,
                                               SCALE_WAIT_MS, NULL),
                    "a closure");
    }
}

static double
percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static int
measure(const load_t *load, bool is_short)
{
    job_t without = {.number = 0};
    job_t with = {.number = 0};
    job_open(&without, load, false);
    job_open(&with, load, true);
    deadline_t deadline = deadline_in(SCALE_WAIT_MS);
    for (double from = scale_now();
         scale_now() - from < (double)load->seconds || with.totals.checkpoints == 0;) {
        job_turn(&without, load);
        job_turn(&with, load);
        require(again(deadline), "a checkpoint that is committed");
    }
    double slots = percent_of(with.slot_s, without.slot_s);
    double closures = percent_of((double)with.totals.finished, (double)without.totals.finished);
    bool passed = slots >= PERCENT && (is_short || closures >= PERCENT);
    int status = scale_verdict(
        passed,
        "checkpoints every %ld ms, closures of %ld ms, one in %d x %ld: %llu of %llu closures in "
        "%ld s (%.1f %%), a closure in flight for %.1f %% of the slots' time, %llu checkpoints "
        "committed",
        load->every_ms, load->closure_ms, STRAGGLER_OF, load->straggle,
        (unsigned long long)with.totals.finished, (unsigned long long)without.totals.finished,
        load->seconds, closures, slots, (unsigned long long)with.totals.checkpoints);
    job_close(&with);
    job_close(&without);
    return status;
}

int
main(int argc, char **argv)
{
    static const load_t full[] = {{5000, 10000, 60, 1}, {200, 10000, 60, 50}, {20000, 2000, 90, 1}};
    static const load_t small[] = {{500, 1000, 6, 1}, {20, 1000, 6, 50}, {2000, 200, 9, 1}};
    scale_arguments_t arguments = scale_arguments(argc, argv);
    bool is_short = arguments.is_short;
    int status = 0;
    for (size_t i = 0; arguments.count == 0 && i < CADRE_COUNT_OF(full); i++) {
        status |= measure(is_short ? &small[i] : &full[i], is_short);
    }
    if (arguments.count > 0) {
        const load_t asked = {.closure_ms = scale_number(&arguments, 0, 5000, 500),
                              .every_ms = scale_number(&arguments, 1, 10000, 1000),
                              .seconds = scale_number(&arguments, 2, 60, 6),
                              .straggle = scale_number(&arguments, 3, 1, 1)};
        status = measure(&asked, is_short);
    }
    return status;
}
