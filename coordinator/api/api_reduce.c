/* The public calls that join results of several closures: of a function that runs over all rows of
 * a dataset, and of closures whose futures the caller has. */
#include <stdlib.h>
#include <string.h>

#include <cadre/coordinator.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/tensor/dtype.h"
#include "coordinator/coordinator.h"

enum {
    BATCHES_AHEAD = 256,        /* closures under way at a time */
    REDUCTIONS_MAX = 64,        /* results that one pass reduces: as many as a program may have */
    ROWS_NUMBERS_MAX = 1 << 26, /* numbers of a result that is kept for each row: 512 MiB */
};

/* One pass over a dataset: a ring of closures under way, the oldest at `first`, and the sums of
 * results so far. */
typedef struct {
    cadre_dataset_t *dataset;
    const cadre_function_t *function;
    const cadre_reduction_t *reductions; /* [count] */
    size_t count;
    bool wants_numbers; /* refuse a result that has more than one element */
    int64_t deadline_ms;
    cadre_tensor_t sums[REDUCTIONS_MAX]; /* [count], f64; empty before the first batch */
    cadre_future_t *futures[BATCHES_AHEAD];
    int64_t rows[BATCHES_AHEAD]; /* rows of the batch of each closure in `futures` */
    int64_t done;                /* rows of all batches whose results were taken */
    size_t first;
    size_t under_way;
} pass_t;

/* Makes a pass over a dataset, with nothing under way. */
static pass_t *
pass_new(cadre_dataset_t *dataset, const cadre_function_t *function,
         const cadre_reduction_t *reductions, size_t count, int64_t timeout_ms)
{
    pass_t *self = cadre_calloc(1, sizeof(*self));
    self->dataset = dataset;
    self->function = function;
    self->reductions = reductions;
    self->count = count;
    self->deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    return self;
}

/* Frees a pass; closures that are still under way go on, and their results are dropped. */
static void
pass_destroy(pass_t **self_p)
{
    pass_t *self = *self_p;
    for (size_t i = 0; i < BATCHES_AHEAD; i++) {
        cadre_future_destroy(&self->futures[i]);
    }
    for (size_t i = 0; i < REDUCTIONS_MAX; i++) {
        cadre_tensor_fini(&self->sums[i]);
    }
    free(self);
}

/* Returns the time until a deadline, as the timeout of another call; -1 without a deadline. */
static int64_t
time_left(int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX) {
        return -1;
    }
    return cadre_max_i64(deadline_ms - cadre_clock_now_ms(), 0);
}

static bool
same_shape(const cadre_tensor_t *left, const cadre_tensor_t *right)
{
    return left->rank == right->rank &&
           memcmp(left->shape, right->shape, (size_t)left->rank * sizeof(left->shape[0])) == 0;
}

/* Adds the numbers of a result to as many others, `weight` times. */
static void
add_numbers(const cadre_tensor_t *value, double weight, double *sums)
{
    size_t size_bytes = cadre_dtype_size(value->dtype);
    const cadre_dtype_traits_t *traits = cadre_dtype_traits(value->dtype);
    for (int64_t i = 0; i < cadre_tensor_count(value); i++) {
        sums[i] += weight * traits->number((const char *)value->data + (size_t)i * size_bytes);
    }
}

/* Adds a result to its sum, which is empty before the first, `weight` times. `each` says what a
 * result is of, for messages. */
static int
add(const cadre_reduction_t *reduction, const char *each, const cadre_tensor_t *value,
    double weight, cadre_tensor_t *sum)
{
    int status = sum->data ? 0 : cadre_tensor_init(sum, CADRE_F64, value->shape, value->rank);
    if (status < 0) {
        return status;
    }

    if (!same_shape(value, sum)) {
        return cadre_fail(CADRE_ESHAPE,
                          "result %s has not the same shape for every %s: only what has can be "
                          "summed",
                          reduction->name ? reduction->name : "of the function", each);
    }

    add_numbers(value, weight, sum->data);
    return 0;
}

/* Divides the numbers of a sum, which may be empty, by `count`. */
static void
divide(cadre_tensor_t *sum, double count)
{
    double *numbers = sum->data;
    for (int64_t k = 0; numbers && k < cadre_tensor_count(sum); k++) {
        numbers[k] /= count;
    }
}

/* Moves a sum to the caller who wants it. */
static void
give(const cadre_reduction_t *reduction, cadre_tensor_t *sum)
{
    if (reduction->value) {
        cadre_tensor_fini(reduction->value);
        *reduction->value = *sum;
        *sum = (cadre_tensor_t){0};
    }
}

/* Makes room for a result that has an entry for each row of the dataset. */
static int
begin_rows(const pass_t *self, const cadre_tensor_t *value, cadre_tensor_t *all)
{
    int64_t shape[CADRE_RANK_MAX] = {self->dataset->info.rows};
    int64_t numbers = cadre_max_i64(shape[0], 1);
    for (int i = 1; i < value->rank; i++) {
        shape[i] = value->shape[i];
        numbers = numbers > ROWS_NUMBERS_MAX ? numbers : numbers * cadre_max_i64(shape[i], 1);
    }
    if (numbers > ROWS_NUMBERS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "dataset %s: a result for each row has over %d numbers",
                          self->dataset->name, (int)ROWS_NUMBERS_MAX);
    }
    return cadre_tensor_init(all, CADRE_F64, shape, value->rank);
}

/* Puts the entries of a result behind those of the batches before, in the order of the rows. */
static int
append(const pass_t *self, size_t position, const cadre_tensor_t *value, cadre_tensor_t *all)
{
    int status = all->data || value->rank == 0 ? 0 : begin_rows(self, value, all);
    if (status < 0) {
        return status;
    }

    bool fits =
        value->rank == all->rank && value->rank > 0 && value->shape[0] == self->rows[self->first];
    for (int i = 1; fits && i < value->rank; i++) {
        fits = value->shape[i] == all->shape[i];
    }
    if (!fits) {
        const char *name = self->reductions[position].name;
        return cadre_fail(CADRE_ESHAPE, "result %s has no entry for each row of a batch",
                          name ? name : "of the function");
    }

    const int64_t row_size = cadre_tensor_count(all) / all->shape[0];
    add_numbers(value, 1, (double *)all->data + self->done * row_size);
    return 0;
}

/* Joins a result of the oldest closure with those of the batches before. */
static int
join(const pass_t *self, size_t position, const cadre_tensor_t *value, cadre_tensor_t *sum)
{
    const cadre_reduction_t *reduction = &self->reductions[position];
    double number = 0;
    int status = self->wants_numbers ? cadre_tensor_number(value, &number) : 0;
    if (status < 0) {
        return status;
    }

    switch (reduction->kind) {
    case CADRE_REDUCTION_SUM:
        return add(reduction, "batch", value, 1, sum);
    case CADRE_REDUCTION_MEAN:
        return add(reduction, "batch", value, (double)self->rows[self->first], sum);
    case CADRE_REDUCTION_ROWS:
        break;
    }
    return append(self, position, value, sum);
}

/* Waits for the oldest closure and adds its results. */
static int
take_oldest(pass_t *self)
{
    cadre_future_t *future = self->futures[self->first];
    for (size_t i = 0; i < self->count; i++) {
        const cadre_reduction_t *reduction = &self->reductions[i];
        cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
        int status =
            cadre_future_fetch(future, reduction->name, &value, time_left(self->deadline_ms));
        if (status < 0) {
            return status;
        }

        status = join(self, i, &value, &self->sums[i]);
        if (status < 0) {
            return status;
        }
    }

    cadre_future_destroy(&self->futures[self->first]);
    self->done += self->rows[self->first];
    self->first = (self->first + 1) % BATCHES_AHEAD;
    self->under_way--;
    return 0;
}

/* Calls the function for the rows [first, first + count), in file order. */
static int
schedule_batch(pass_t *self, int64_t first, int64_t count)
{
    cadre_batch_t batch = {.dataset = self->dataset, .first = first, .count = count};
    cadre_call_t call = cadre_call_batch(&batch);
    size_t slot = (self->first + self->under_way) % BATCHES_AHEAD;
    int status = cadre_coordinator_schedule(self->dataset->coordinator, self->function, &call,
                                            time_left(self->deadline_ms), &self->futures[slot]);
    if (status < 0) {
        return status;
    }

    self->rows[slot] = count;
    self->under_way++;
    return 0;
}

/* Runs the function on all rows, batch by batch: at most BATCHES_AHEAD closures are under way, and
 * results are added in the order of the rows, so that the rounding of a sum does not depend on
 * which closure ends first. */
static int
run_pass(pass_t *self, int64_t batch_size)
{
    int64_t rows = self->dataset->info.rows;
    for (int64_t first = 0; first < rows; first += batch_size) {
        int status = self->under_way == BATCHES_AHEAD ? take_oldest(self) : 0;
        if (status < 0) {
            return status;
        }
        status = schedule_batch(self, first, cadre_min_i64(batch_size, rows - first));
        if (status < 0) {
            return status;
        }
    }

    while (self->under_way > 0) {
        int status = take_oldest(self);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Divides the sums of CADRE_REDUCTION_MEAN by the rows, and moves all sums to the caller. */
static void
give_values(pass_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        const cadre_reduction_t *reduction = &self->reductions[i];
        if (reduction->kind == CADRE_REDUCTION_MEAN) {
            divide(&self->sums[i], (double)self->dataset->info.rows);
        }
        give(reduction, &self->sums[i]);
    }
}

/* Checks the batch size and the reductions of a pass. */
static int
check_arguments(const cadre_dataset_t *dataset, const cadre_reduction_t *reductions, size_t count,
                int64_t batch_size)
{
    if (batch_size < 1) {
        return cadre_fail(CADRE_EINVALID, "dataset %s: batch size %lld", dataset->name,
                          (long long)batch_size);
    }
    if (count < 1 || count > REDUCTIONS_MAX || !reductions) {
        return cadre_fail(CADRE_EINVALID, "dataset %s: %zu reductions, 1 to %d are possible",
                          dataset->name, count, (int)REDUCTIONS_MAX);
    }

    for (size_t i = 0; i < count; i++) {
        if ((unsigned)reductions[i].kind > CADRE_REDUCTION_ROWS) {
            return cadre_fail(CADRE_EINVALID,
                              "reduction %zu: %d is not one of cadre_reduction_kind_t", i,
                              (int)reductions[i].kind);
        }
    }

    return 0;
}

/* Reduces results of the function over all batches of a dataset. */
int
cadre_dataset_reduce(cadre_dataset_t *self, const cadre_function_t *function,
                     const cadre_reduction_t *reductions, size_t count, int64_t batch_size,
                     int64_t timeout_ms)
{
    int status = check_arguments(self, reductions, count, batch_size);
    if (status < 0) {
        return status;
    }

    cadre_auto(pass_destroy) pass_t *pass = pass_new(self, function, reductions, count, timeout_ms);
    status = run_pass(pass, batch_size);
    if (status < 0) {
        return status;
    }

    give_values(pass);
    return 0;
}

/* Reduces one result, which has one element, to a number. */
static int
reduce_number(cadre_dataset_t *self, const cadre_function_t *function,
              const cadre_reduction_t *reduction, int64_t batch_size, int64_t timeout_ms,
              double *number)
{
    int status = check_arguments(self, reduction, 1, batch_size);
    if (status < 0) {
        return status;
    }

    cadre_auto(pass_destroy) pass_t *pass = pass_new(self, function, reduction, 1, timeout_ms);
    pass->wants_numbers = true;
    status = run_pass(pass, batch_size);
    if (status < 0) {
        return status;
    }

    give_values(pass);
    if (number) {
        *number = pass->sums[0].data ? *(const double *)pass->sums[0].data : 0; /* without rows */
    }
    return 0;
}

int
cadre_dataset_sum(cadre_dataset_t *self, const cadre_function_t *function, const char *name,
                  int64_t batch_size, int64_t timeout_ms, double *sum)
{
    cadre_reduction_t reduction = {.name = name, .kind = CADRE_REDUCTION_SUM};
    return reduce_number(self, function, &reduction, batch_size, timeout_ms, sum);
}

int
cadre_dataset_mean(cadre_dataset_t *self, const cadre_function_t *function, const char *name,
                   int64_t batch_size, int64_t timeout_ms, double *mean)
{
    cadre_reduction_t reduction = {.name = name, .kind = CADRE_REDUCTION_MEAN};
    return reduce_number(self, function, &reduction, batch_size, timeout_ms, mean);
}

/* --- closures whose futures the caller has --- */

/* The sums of results so far. */
typedef struct {
    cadre_tensor_t values[REDUCTIONS_MAX];
} sums_t;

static void
sums_destroy(sums_t **self_p)
{
    for (size_t i = 0; i < REDUCTIONS_MAX; i++) {
        cadre_tensor_fini(&(*self_p)->values[i]);
    }
    free(*self_p);
}

/* Checks the futures and reductions of cadre_future_reduce_all. */
static int
check_futures(cadre_future_t *const *futures, size_t count, const cadre_reduction_t *reductions,
              size_t reduction_count)
{
    if (reduction_count < 1 || reduction_count > REDUCTIONS_MAX || !reductions) {
        return cadre_fail(CADRE_EINVALID, "%zu reductions, 1 to %d are possible", reduction_count,
                          (int)REDUCTIONS_MAX);
    }
    for (size_t i = 0; i < reduction_count; i++) {
        if (reductions[i].kind != CADRE_REDUCTION_SUM &&
            reductions[i].kind != CADRE_REDUCTION_MEAN) {
            return cadre_fail(CADRE_EINVALID,
                              "reduction %zu: results of closures are summed or averaged, not %d "
                              "of cadre_reduction_kind_t",
                              i, (int)reductions[i].kind);
        }
    }
    if (count < 1) {
        return cadre_fail(CADRE_EINVALID, "there is no closure whose results could be reduced");
    }
    for (size_t i = 0; i < count; i++) {
        if (!futures || !futures[i]) {
            return cadre_fail(CADRE_EINVALID, "future %zu of %zu is NULL", i, count);
        }
    }
    return 0;
}

/* Waits for a closure and adds its results. */
static int
take_results(cadre_future_t *future, const cadre_reduction_t *reductions, size_t count,
             int64_t deadline_ms, sums_t *sums)
{
    for (size_t i = 0; i < count; i++) {
        cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
        int status = cadre_future_fetch(future, reductions[i].name, &value, time_left(deadline_ms));
        if (status < 0) {
            return status;
        }
        status = add(&reductions[i], "closure", &value, 1, &sums->values[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Reduces results of several closures, in the order of their futures, so that the rounding of a sum
 * does not depend on which ends first. */
int
cadre_future_reduce_all(cadre_future_t *const *futures, size_t count,
                        const cadre_reduction_t *reductions, size_t reduction_count,
                        int64_t timeout_ms)
{
    int status = check_futures(futures, count, reductions, reduction_count);
    if (status < 0) {
        return status;
    }

    const int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_auto(sums_destroy) sums_t *sums = cadre_calloc(1, sizeof(*sums));
    for (size_t i = 0; i < count; i++) {
        status = take_results(futures[i], reductions, reduction_count, deadline_ms, sums);
        if (status < 0) {
            return status;
        }
    }

    for (size_t i = 0; i < reduction_count; i++) {
        if (reductions[i].kind == CADRE_REDUCTION_MEAN) {
            divide(&sums->values[i], (double)count);
        }
        give(&reductions[i], &sums->values[i]);
    }
    return 0;
}
