#include "coordinator/cli/train/evaluation.h"

#include "common/base/bounds.h"
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
    if (status < 0) {
        return status;
    }
    *value = *(const float *)tensor.data;
    return 0;
}

/* Waits for the oldest closure of the window and adds its results to the sums in `self`. */
static int
take_oldest(cadre_evaluation_t *self, window_t *window)
{
    cadre_future_t *future = window->futures[window->first];
    double loss = 0;
    double correct = 0;
    int status = fetch_scalar(future, "loss", &loss);
    if (status < 0) {
        return status;
    }

    if (self->counts_correct) {
        status = fetch_scalar(future, "correct", &correct);
        if (status < 0) {
            return status;
        }
    }

    self->loss += loss * (double)window->counts[window->first];
    self->accuracy += correct;
    cadre_future_destroy(&window->futures[window->first]);
    window->first = (window->first + 1) % CADRE_EVALUATION_AWAITED_MAX;
    window->count--;
    return 0;
}

/* Schedules the evaluation of `count` rows from `done` on; the window has room for it. */
static int
schedule_batch(cadre_evaluation_t *self, cadre_coordinator_t *coordinator, int64_t done,
               int64_t count, window_t *window)
{
    cadre_batch_t batch = {
        .dataset = self->dataset,
        .first = self->first + done,
        .count = count,
    };
    cadre_call_t call = cadre_call_batch(&batch);
    size_t slot = (window->first + window->count) % CADRE_EVALUATION_AWAITED_MAX;
    int status =
        cadre_coordinator_schedule(coordinator, self->function, &call, -1, &window->futures[slot]);
    if (status < 0) {
        return status;
    }

    window->counts[slot] = count;
    window->count++;
    return 0;
}

int
cadre_evaluation_run(cadre_evaluation_t *self, cadre_coordinator_t *coordinator)
{
    cadre_auto(drop_window) window_t window = {0};
    self->loss = 0;
    self->accuracy = 0;

    /* A window of closures keeps every worker busy and bounds the results that wait. */
    for (int64_t done = 0; done < self->rows;) {
        int64_t count = cadre_min_i64(self->rows - done, self->batch_size);
        int status = window.count == CADRE_EVALUATION_AWAITED_MAX ? take_oldest(self, &window) : 0;
        if (status < 0) {
            return status;
        }
        status = schedule_batch(self, coordinator, done, count, &window);
        if (status < 0) {
            return status;
        }
        done += count;
    }

    while (window.count > 0) {
        int status = take_oldest(self, &window);
        if (status < 0) {
            return status;
        }
    }

    self->loss /= (double)self->rows;
    self->accuracy /= (double)self->rows;
    return 0;
}
