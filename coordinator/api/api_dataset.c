/* The public calls on datasets, and the one that trains on the rows of one. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_ranges.h"
#include "common/spec/data_spec.h"
#include "common/system/clock.h"
#include "coordinator/api/memory_rows.h"
#include "coordinator/coordinator.h"

/* Fails unless workers could take the description: a bad one need not be sent to be refused. */
static int
check_description(const char *name, const char *description)
{
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {0};
    if (!description) {
        return cadre_fail(CADRE_EINVALID, "dataset %s: there is no description", name ? name : "");
    }
    if (cadre_data_spec_decode(description, strlen(description), &spec) == 0) {
        return 0;
    }
    static const char prefix[] = "dataset: ";
    cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
    const bool has_prefix = strncmp(text, prefix, sizeof(prefix) - 1) == 0;
    return cadre_fail(CADRE_EINVALID, "dataset %s: %s", name ? name : "",
                      has_prefix ? text + sizeof(prefix) - 1 : text);
}

/* Under the lock: the wait for a dataset has failed. A description stays, for a call that waits for
 * it again; rows of the program's memory are given up, but kept for workers that ask for more of
 * them. */
static int
stop_waiting(cadre_dataset_t *self, int status)
{
    const cadre_data_answer_t *answer = self->answer_count > 0 ? &self->answers[0] : NULL;
    if (answer && answer->status < 0) {
        cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
        cadre_fail(status, "%s; a worker says: %s", text, answer->text);
    }
    status = cadre_fail_within(status, "dataset %s", self->name);
    if (self->rows.count > 0) {
        cadre_worker_admission_give_up(self, status);
        self->name[0] = '\0';
    } else {
        self->unclaimed = true;
    }
    return status;
}

/* Under the lock: waits until it is decided which rows the dataset has, or that no worker can open
 * it. In the latter case its name becomes free for another try. */
static int
await_opened(cadre_dataset_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (!self->opened) {
        int status = cadre_coordinator_wait_while_usable(self->coordinator, deadline_ms,
                                                         "a worker to open the data", &since_ms);
        if (status < 0) {
            return stop_waiting(self, status);
        }
    }

    if (self->status < 0) {
        int status = cadre_fail(self->status, "dataset %s: %s", self->name, self->text);
        cadre_catalogue_release_dataset(&self->coordinator->core.catalogue, self);
        return status;
    }

    return 0;
}

/* Under the lock: tells all workers to open a dataset that was added, and waits for what they
 * answer. */
static int
open_added(cadre_coordinator_t *self, cadre_dataset_t *dataset, int64_t deadline_ms,
           cadre_dataset_t **out)
{
    dataset->coordinator = self;
    cadre_announcements_tell_dataset(&self->core.announcements, dataset);

    int status = await_opened(dataset, deadline_ms);
    if (status < 0) {
        return status;
    }
    if (out) {
        *out = dataset;
    }

    return 0;
}

/* Under the lock: returns the dataset of this name that an earlier call has not waited for to the
 * end, if it is to be opened by the same description and has not failed; otherwise such a dataset
 * makes room for another of its name. NULL: there is none. */
static cadre_dataset_t *
take_up(cadre_coordinator_t *self, const char *name, const char *description)
{
    cadre_dataset_t *dataset = name ? cadre_catalogue_dataset(&self->core.catalogue, name) : NULL;
    if (!dataset || !dataset->unclaimed) {
        return NULL;
    }
    const bool has_failed = dataset->opened && dataset->status < 0;
    if (!has_failed && strcmp(dataset->description, description) == 0) {
        dataset->unclaimed = false;
        return dataset;
    }
    if (dataset->opened && !has_failed) {
        return NULL; /* workers have it, and it is listed: it keeps its name */
    }
    if (!dataset->opened) {
        cadre_worker_admission_give_up(dataset, CADRE_ETIMEOUT);
    }
    dataset->unclaimed = false;
    cadre_catalogue_release_dataset(&self->core.catalogue, dataset);
    return NULL;
}

/* Opens a dataset on the workers. */
int
cadre_dataset_open(cadre_coordinator_t *self, const char *name, const char *description,
                   int64_t timeout_ms, cadre_dataset_t **out)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = check_description(name, description);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    cadre_dataset_t *dataset = take_up(self, name, description);
    if (!dataset) {
        status = cadre_catalogue_add_dataset(&self->core.catalogue, name, description, &dataset);
    }
    status = status < 0 ? status : open_added(self, dataset, deadline_ms, out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* --- rows of the program's memory --- */

/* Makes rows of the program's memory a dataset, which workers are sent. */
int
cadre_dataset_from_columns(cadre_coordinator_t *self, const char *name,
                           const cadre_columns_t *columns, int64_t timeout_ms,
                           cadre_dataset_t **out)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_auto(cadre_row_chunks_fini) cadre_row_chunks_t rows = {0};
    int status = cadre_memory_rows_take(columns, &rows); /* before the lock: copying takes long */
    if (status < 0) {
        return cadre_fail_within(status, "dataset %s", name ? name : "");
    }

    cadre_dataset_t *dataset = NULL;
    cadre_gate_lock(self->gate);
    (void)take_up(self, name, ""); /* rows of memory have no description: it only makes room */
    status = cadre_catalogue_add_memory_dataset(&self->core.catalogue, name, &rows, &dataset);
    status = status < 0 ? status : open_added(self, dataset, deadline_ms, out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* Makes rows of one array a dataset. */
int
cadre_dataset_from_memory(cadre_coordinator_t *self, const char *name, const cadre_tensor_t *x,
                          const cadre_tensor_t *y, int64_t timeout_ms, cadre_dataset_t **out)
{
    if (!x || !x->data || (x->dtype != CADRE_F32 && x->dtype != CADRE_I64) || x->rank < 2) {
        return cadre_fail(CADRE_EINVALID,
                          "dataset %s: x must be [rows, features], f32 or for keys i64",
                          name ? name : "");
    }
    const cadre_columns_t columns = {.columns = x, .count = 1, .y = y};
    return cadre_dataset_from_columns(self, name, &columns, timeout_ms, out);
}

/* --- epochs --- */

cadre_dataset_info_t
cadre_dataset_info(const cadre_dataset_t *self)
{
    return self->info;
}

/* Begins an epoch: its batches are given by cadre_dataset_next from position `first` on. A shuffled
 * order follows from the job's seed, the name and the epoch alone, so that a resumed job has it
 * again. */
int
cadre_dataset_begin(cadre_dataset_t *self, uint64_t epoch, int64_t first, int64_t batch_size,
                    cadre_order_t order, cadre_last_batch_t last)
{
    if (batch_size < 1 || first < 0 || first > self->info.rows) {
        return cadre_fail(
            CADRE_EINVALID, "dataset %s: batch size %lld or first position %lld of %lld rows",
            self->name, (long long)batch_size, (long long)first, (long long)self->info.rows);
    }

    if (self->ranges > 1 && order == CADRE_ORDER_SHUFFLED && first % batch_size != 0 &&
        first < self->info.rows) {
        return cadre_fail(CADRE_EINVALID,
                          "dataset %s: its batches come in turn from %lld ranges, so an epoch can "
                          "begin at a multiple of the batch size %lld, and not at position %lld",
                          self->name, (long long)self->ranges, (long long)batch_size,
                          (long long)first);
    }

    uint64_t order_seed = 0;
    if (order == CADRE_ORDER_SHUFFLED) {
        uint64_t key[] = {self->coordinator->core.options.seed, epoch};
        order_seed =
            XXH3_64bits_withSeed(self->name, strlen(self->name), XXH3_64bits(key, sizeof(key)));
        order_seed = order_seed ? order_seed : 1; /* 0 would mean the order of the file */
    }

    cadre_gate_lock(self->coordinator->gate);
    self->order = order_seed;
    self->next = first;
    self->batch_size = batch_size;
    self->drop_last = last == CADRE_LAST_BATCH_DROPPED;
    cadre_gate_unlock(self->coordinator->gate);
    return 0;
}

/* Gives the next batch of the epoch; false at its end. A last batch that the rows do
 * not fill is smaller, or left out if the options of the dataset say so. */
bool
cadre_dataset_next(cadre_dataset_t *self, cadre_batch_t *batch)
{
    cadre_gate_lock(self->coordinator->gate);
    int64_t left = self->info.rows - self->next;
    int64_t count = left < self->batch_size ? left : self->batch_size;
    bool more = count > 0 && !(self->drop_last && count < self->batch_size);
    if (more) {
        const bool is_dealt = self->order != 0 && self->ranges > 1;
        const int64_t first =
            is_dealt ? cadre_data_range_position(self->info.rows, self->batch_size, self->ranges,
                                                 self->next / self->batch_size)
                     : self->next;
        *batch =
            (cadre_batch_t){.dataset = self, .order = self->order, .first = first, .count = count};
        self->next += count;
    }

    cadre_gate_unlock(self->coordinator->gate);
    return more;
}

/* Returns the time that is left until a deadline, as the timeout of another call: -1 for no
 * deadline. */
static int64_t
time_left(int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = deadline_ms - cadre_clock_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* Schedules a closure for each batch of one epoch, in that epoch's order of rows. */
static int
schedule_epoch(cadre_dataset_t *self, const cadre_function_t *function, uint64_t epoch,
               int64_t batch_size, int64_t deadline_ms)
{
    int status = cadre_dataset_begin(self, epoch, 0, batch_size, CADRE_ORDER_SHUFFLED,
                                     CADRE_LAST_BATCH_SMALLER);
    if (status < 0) {
        return status;
    }

    cadre_batch_t batch;
    while (cadre_dataset_next(self, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        status = cadre_coordinator_schedule(self->coordinator, function, &call,
                                            time_left(deadline_ms), NULL);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Trains `epochs` epochs, from number `epoch` on, and joins at the end alone: batches of an epoch
 * go out while the last of the epoch before run. */
int
cadre_dataset_train(cadre_dataset_t *self, const cadre_function_t *function, uint64_t epoch,
                    uint64_t epochs, int64_t batch_size, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    for (uint64_t i = 0; i < epochs; i++) {
        int status = schedule_epoch(self, function, epoch + i, batch_size, deadline_ms);
        if (status < 0) {
            return status;
        }
    }
    return cadre_coordinator_join(self->coordinator, time_left(deadline_ms));
}
