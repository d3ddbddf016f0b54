#include "coordinator/cli/train/evaluation.h"

#include "common/base/memory.h"

/* Closures that were scheduled and whose results are awaited, oldest first. */
typedef struct {
    cadre_future_t *futures[CADRE_EVALUATION_AWAITED_MAX];
    int64_t counts[CADRE_EVALUATION_AWAITED_MAX]; /* rows of each */
    size_t first;
    size_t count;
} window_t;

static void
drop_window(window_t *window)
{
    for (; window->count > 0; window->count--) {
        cadre_future_destroy(&window->futures[window->first]);
        window->first = (window->first + 1) % CADRE_EVALUATION_AWAITED_MAX;
    }
}

static int
fetch_scalar(cadre_future_t *future, const char *name, double *value)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    int status = cadre_future_fetch(future, name, &tensor, -1);
    if (status == 0) {
        *value = *(const float *)tensor.data;
    }
    return status;
}

/* Waits for the oldest closure and adds its results. */
static int
take_oldest(cadre_evaluation_t *self, window_t *window)
{
    cadre_future_t *future = window->futures[window->first];
    double loss = 0;
    double correct = 0;
    int status = fetch_scalar(future, "loss", &loss);
    if (status == 0 && self->counts_correct) {
        status = fetch_scalar(future, "correct", &correct);
    }
    if (status == 0) {
        self->loss += loss * (double)window->counts[window->first];
        self->accuracy += correct;
        cadre_future_destroy(&window->futures[window->first]);
        window->first = (window->first + 1) % CADRE_EVALUATION_AWAITED_MAX;
        window->count--;
    }
    return status;
}

int
cadre_evaluation_run(cadre_evaluation_t *self, cadre_coordinator_t *coordinator)
{
    cadre_auto(drop_window) window_t window = {0};
    self->loss = 0;
    self->accuracy = 0;
    int status = 0;
    for (int64_t done = 0; status == 0 && done < self->rows;) {
        if (window.count == CADRE_EVALUATION_AWAITED_MAX) {
            status = take_oldest(self, &window);
            continue;
        }
        int64_t left = self->rows - done;
        cadre_batch_t batch = {
            .dataset = self->dataset,
            .first = self->first + done,
            .count = left < self->batch_size ? left : self->batch_size,
        };
        cadre_call_t call = cadre_call_batch(&batch);
        size_t slot = (window.first + window.count) % CADRE_EVALUATION_AWAITED_MAX;
        window.counts[slot] = batch.count;
        status = cadre_coordinator_schedule(coordinator, self->function, &call, -1,
                                            &window.futures[slot]);
        if (status == 0) {
            window.count++;
            done += batch.count;
        }
    }
    while (status == 0 && window.count > 0) {
        status = take_oldest(self, &window);
    }
    self->loss /= (double)self->rows;
    self->accuracy /= (double)self->rows;
    return status;
}
