/* The public calls on datasets, and those that run a function over all rows of one. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/coordinator.h"

enum { SUMMANDS_AHEAD = 256 }; /* futures of a sum that are waited for at a time */

int
cadre_dataset_open(cadre_coordinator_t *self, const char *name, const char *description,
                   int64_t timeout_ms, cadre_dataset_t **out)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int64_t since_ms = 0;
    cadre_dataset_t *dataset = NULL;
    cadre_gate_lock(self->gate);
    int status = cadre_catalogue_add_dataset(&self->core.catalogue, name, description, &dataset);
    if (status == 0) {
        dataset->coordinator = self;
        cadre_announcements_tell_dataset(&self->core.announcements, dataset);
    }
    while (status == 0 && !dataset->opened) {
        status = cadre_coordinator_usable(self);
        if (status == 0) {
            status =
                cadre_coordinator_wait(self, deadline_ms, "a worker to open the data", &since_ms);
        }
    }
    if (status == 0 && dataset->status < 0) {
        status = cadre_fail(dataset->status, "dataset %s: %s", name, dataset->text);
        dataset->name[0] = '\0'; /* the name is free for another try */
    }
    cadre_gate_unlock_and_wake(self->gate);
    if (status == 0 && out) {
        *out = dataset;
    }
    return status;
}

cadre_dataset_info_t
cadre_dataset_info(const cadre_dataset_t *self)
{
    return self->info;
}

int
cadre_dataset_begin(cadre_dataset_t *self, uint64_t epoch, int64_t first, int64_t batch_size,
                    bool shuffle, bool drop_last)
{
    if (batch_size < 1 || first < 0 || first > self->info.rows) {
        return cadre_fail(
            CADRE_EINVALID, "dataset %s: batch size %lld or first position %lld of %lld rows",
            self->name, (long long)batch_size, (long long)first, (long long)self->info.rows);
    }
    uint64_t order = 0;
    if (shuffle) {
        uint64_t key[] = {self->coordinator->core.options.seed, epoch};
        order = XXH3_64bits_withSeed(self->name, strlen(self->name), XXH3_64bits(key, sizeof(key)));
        order = order ? order : 1;
    }
    cadre_gate_lock(self->coordinator->gate);
    self->order = order;
    self->next = first;
    self->batch_size = batch_size;
    self->drop_last = drop_last;
    cadre_gate_unlock(self->coordinator->gate);
    return 0;
}

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

/* What is left of a deadline, as the timeout of another call. */
static int64_t
time_left(int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = deadline_ms - cadre_clock_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

int
cadre_dataset_train(cadre_dataset_t *self, const cadre_function_t *function, uint64_t epoch,
                    uint64_t epochs, int64_t batch_size, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = 0;
    for (uint64_t i = 0; i < epochs && status == 0; i++) {
        cadre_batch_t batch;
        status = cadre_dataset_begin(self, epoch + i, 0, batch_size, true, false);
        while (status == 0 && cadre_dataset_next(self, &batch)) {
            cadre_call_t call = cadre_call_batch(&batch);
            status = cadre_coordinator_schedule(self->coordinator, function, &call,
                                                time_left(deadline_ms), NULL);
        }
    }
    return status < 0 ? status : cadre_coordinator_join(self->coordinator, time_left(deadline_ms));
}

/* A sum under way: a ring of futures, the oldest of which is taken first. */
typedef struct {
    const char *name;
    int64_t deadline_ms;
    double value;
    cadre_future_t *futures[SUMMANDS_AHEAD];
    size_t first;
    size_t count;
} sum_t;

/* Adds the oldest future's result. */
static int
add_oldest(sum_t *self)
{
    double number = 0;
    cadre_future_t **future = &self->futures[self->first];
    int status =
        cadre_future_fetch_number(*future, self->name, &number, time_left(self->deadline_ms));
    cadre_future_destroy(future);
    self->first = (self->first + 1) % SUMMANDS_AHEAD;
    self->count--;
    self->value += number;
    return status;
}

static int
add_batch(sum_t *self, const cadre_function_t *function, const cadre_batch_t *batch)
{
    int status = self->count == SUMMANDS_AHEAD ? add_oldest(self) : 0;
    if (status < 0) {
        return status;
    }
    cadre_call_t call = cadre_call_batch(batch);
    status = cadre_coordinator_schedule(
        batch->dataset->coordinator, function, &call, time_left(self->deadline_ms),
        &self->futures[(self->first + self->count) % SUMMANDS_AHEAD]);
    self->count += status == 0;
    return status;
}

int
cadre_dataset_sum(cadre_dataset_t *self, const cadre_function_t *function, const char *name,
                  int64_t batch_size, int64_t timeout_ms, double *sum)
{
    cadre_batch_t batch;
    cadre_auto(cadre_free) sum_t *under_way = cadre_calloc(1, sizeof(*under_way));
    under_way->name = name;
    under_way->deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = cadre_dataset_begin(self, 0, 0, batch_size, false, false);
    while (status == 0 && cadre_dataset_next(self, &batch)) {
        status = add_batch(under_way, function, &batch);
    }
    while (status == 0 && under_way->count > 0) {
        status = add_oldest(under_way);
    }
    for (size_t i = 0; i < SUMMANDS_AHEAD; i++) {
        cadre_future_destroy(&under_way->futures[i]);
    }
    if (status == 0 && sum) {
        *sum = under_way->value;
    }
    return status;
}
