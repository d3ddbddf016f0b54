/* A coordinator that tests kill: visits the rows of a file in epochs, resumes from its checkpoints,
 * and says in the end what was counted. See outside.h. */
#include <cadre/coordinator.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/conformance/functions.h"
#include "tests/conformance/outside.h"
#include "tests/conformance/rows.h"

enum { WAIT_MS = 120000, HOLD_MS = 100000, SEED = 7 };

typedef struct {
    const char *address;
    const char *checkpoints;
    const char *data;
    const char *release; /* file that ends the hold */
    int ps; /* and workers: all of them are waited for, as none would leave a job it is not in */
    int epochs;
    int every_ms;
    int64_t save_at; /* closures; 0: never */
    int64_t hold_at;
} arguments_t;

typedef struct {
    arguments_t arguments;
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *dataset;
    cadre_variable_t *visits;
    cadre_function_t *visit;
    int64_t start; /* closures that the checkpoint covers */
    uint64_t first_id;
    int64_t scheduled;
} driver_t;

static char *
progress_at(void *context, uint64_t cut)
{
    const driver_t *self = context;
    uint64_t since = cut > self->first_id ? cut - self->first_id : 0;
    return cadre_asprintf("{\"done\": %" PRId64 "}", self->start + (int64_t)since);
}

static void
take_up(driver_t *self)
{
    const char *path;
    const char *progress;
    self->first_id = 1;
    if (cadre_checkpoint_resumed(self->coordinator, &path, &self->first_id, &progress)) {
        json_t *root = progress ? json_loads(progress, 0, NULL) : NULL;
        self->start = json_integer_value(json_object_get(root, "done"));
        json_decref(root);
    }
    self->scheduled = self->start;
    cadre_checkpoint_on_progress(self->coordinator, progress_at, self);
}

static int
open_all(driver_t *self)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = self->arguments.address;
    options.ps_count = self->arguments.ps;
    options.seed = SEED;
    options.queue_capacity = OUTSIDE_QUEUE;
    options.checkpoint_dir = self->arguments.checkpoints;
    options.checkpoint_every_ms = self->arguments.every_ms;
    options.resume = CADRE_RESUME_AUTO;
    int status = cadre_coordinator_open(&options, &self->coordinator);
    if (status == 0) {
        take_up(self);
        printf("start %" PRId64 "\n", self->start);
        /* As many workers as ps: one that came after the end would wait for another coordinator. */
        status = cadre_coordinator_wait_ready(self->coordinator, self->arguments.ps, WAIT_MS);
    }
    if (status == 0) {
        status = visits_create(self->coordinator, self->arguments.ps, &self->visits);
    }
    if (status == 0) {
        status =
            rows_open(self->coordinator, self->arguments.data, "rows", WAIT_MS, &self->dataset);
    }
    return status == 0 ? cadre_function_native(self->coordinator, "visit", &self->visit) : status;
}

/* What happens before closure number `scheduled`: the checkpoint, the hold. */
static int
save_or_hold(driver_t *self)
{
    int status = 0;
    if (self->scheduled > self->start && self->scheduled == self->arguments.save_at) {
        uint64_t checkpoint;
        status =
            cadre_coordinator_join(self->coordinator, WAIT_MS); /* a cut is where dispatch is */
        status = status == 0 ? cadre_checkpoint_save(self->coordinator, NULL, WAIT_MS, &checkpoint)
                             : status;
    }
    if (status == 0 && self->scheduled == self->arguments.hold_at) {
        printf("holding\n");
        for (deadline_t deadline = deadline_in(HOLD_MS);
             access(self->arguments.release, F_OK) != 0 && again(deadline);) {
        }
    }
    return status;
}

static int
run_epoch(driver_t *self, int64_t epoch, int64_t position)
{
    int status = cadre_dataset_begin(self->dataset, (uint64_t)epoch, position, OUTSIDE_BATCH,
                                     CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER);
    cadre_batch_t batch;
    while (status == 0 && cadre_dataset_next(self->dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        status = save_or_hold(self);
        if (status == 0) {
            status =
                cadre_coordinator_schedule(self->coordinator, self->visit, &call, WAIT_MS, NULL);
            self->scheduled++;
        }
    }
    return status;
}

static int
run(driver_t *self)
{
    int64_t rows = cadre_dataset_info(self->dataset).rows;
    int64_t batches = (rows + OUTSIDE_BATCH - 1) / OUTSIDE_BATCH;
    int64_t position = self->start % batches * OUTSIDE_BATCH;
    int status = 0;
    for (int64_t epoch = self->start / batches; status == 0 && epoch < self->arguments.epochs;
         epoch++, position = 0) {
        status = run_epoch(self, epoch, position);
    }
    return status == 0 ? cadre_coordinator_join(self->coordinator, WAIT_MS) : status;
}

static int
report(driver_t *self)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t counts = {.data = NULL};
    int status = cadre_variable_read(self->visits, &counts, WAIT_MS);
    json_t *visits = json_array();
    json_t *applied = json_array();
    for (int64_t i = 0; status == 0 && i < cadre_dataset_info(self->dataset).rows; i++) {
        json_array_append_new(visits, json_real((double)((const float *)counts.data)[i]));
    }
    for (int i = 0; status == 0 && i < self->arguments.ps; i++) {
        cadre_shard_totals_t totals;
        status = cadre_shard_totals(self->coordinator, i, &totals, WAIT_MS);
        json_array_append_new(applied, json_integer((json_int_t)totals.applied));
    }
    cadre_totals_t totals = cadre_coordinator_totals(self->coordinator);
    json_t *result = json_pack("{s:I, s:I, s:I, s:o, s:o}", "start", (json_int_t)self->start,
                               "scheduled", (json_int_t)totals.scheduled, "finished",
                               (json_int_t)totals.finished, "visits", visits, "applied", applied);
    cadre_auto(cadre_free) char *text = json_dumps(result, JSON_COMPACT);
    json_decref(result);
    printf("%s\n", text);
    return status;
}

/* An argument that outside.c has written. */
static int
number(const char *text)
{
    char *end = NULL;
    long value = strtol(text, &end, 10);
    require(*end == '\0' && value >= 0 && value <= INT_MAX, text);
    return (int)value;
}

int
main(int argc, char **argv)
{
    if (argc != OUTSIDE_ARGUMENTS) {
        fprintf(stderr, "started by tests/conformance/outside.c only\n");
        return 2;
    }
    driver_t self = {.arguments = {.address = argv[1],
                                   .checkpoints = argv[2],
                                   .data = argv[3],
                                   .release = argv[4],
                                   .ps = number(argv[5]),
                                   .epochs = number(argv[6]),
                                   .every_ms = number(argv[7]),
                                   .save_at = number(argv[8]),
                                   .hold_at = number(argv[9])}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = open_all(&self);
    if (status == 0) {
        status = run(&self);
    }
    if (status == 0) {
        status = report(&self);
    }
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", cadre_status_name(status), cadre_error_text());
    }
    cadre_coordinator_close(&self.coordinator);
    return status < 0;
}
