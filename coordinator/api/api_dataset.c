/* The public calls on datasets, and the one that trains on the rows of one. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/coordinator.h"

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
            return status;
        }
    }

    if (self->status < 0) {
        int status = cadre_fail(self->status, "dataset %s: %s", self->name, self->text);
        self->name[0] = '\0';
        return status;
    }

    return 0;
}

/* Under the lock: adds the dataset, tells all workers to open it, and waits for what they
 * answer. */
static int
open_dataset(cadre_coordinator_t *self, const char *name, const char *description,
             int64_t deadline_ms, cadre_dataset_t **out)
{
    cadre_dataset_t *dataset = NULL;
    int status = cadre_catalogue_add_dataset(&self->core.catalogue, name, description, &dataset);
    if (status < 0) {
        return status;
    }

    dataset->coordinator = self;
    cadre_announcements_tell_dataset(&self->core.announcements, dataset);

    status = await_opened(dataset, deadline_ms);
    if (status < 0) {
        return status;
    }
    if (out) {
        *out = dataset;
    }

    return 0;
}

/* Opens a dataset on the workers. */
int
cadre_dataset_open(cadre_coordinator_t *self, const char *name, const char *description,
                   int64_t timeout_ms, cadre_dataset_t **out)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = open_dataset(self, name, description, deadline_ms, out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

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
        *batch = (cadre_batch_t){
            .dataset = self, .order = self->order, .first = self->next, .count = count};
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
