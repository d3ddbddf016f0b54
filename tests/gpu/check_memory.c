/* What grows, what is shared, and what several slots do to each other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"

enum { BATCHES = 12, ROUNDS = 30, SLOTS = 3, WIDTH = 24 };
enum { WARM_RUNS = 40, MANY_RUNS = 1500, GROWTH_MAX = 4 << 20 };

static int64_t
hidden_size(const gpu_check_t *self)
{
    return self->scale ? 20000 : 12000;
}

/* Batches of any size, with gradients of two variables of more than a megabyte on a real device, so
 * that outputs leave in several groups. */
static cadre_program_t *
make_program(const gpu_check_t *self)
{
    int64_t hidden = hidden_size(self);
    cadre_program_t *p = cadre_program_new("memory");
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32,
                                  (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(WIDTH)}, 2);
    cadre_node_t w0 = cadre_op_var(p, "w0", (int64_t[]){WIDTH, hidden}, 2);
    cadre_node_t w1 = cadre_op_var(p, "w1", (int64_t[]){hidden, WIDTH}, 2);
    cadre_node_t y = cadre_op_matmul(p, cadre_op_tanh(p, cadre_op_matmul(p, x, w0)), w1);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_sub(p, y, x)));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    return p;
}

static void
set_batch(gpu_case_t *one, int64_t rows)
{
    cadre_tensor_fini(&one->arguments[0]);
    one->arguments[0] = gpu_random(CADRE_F32, (int64_t[]){rows, WIDTH}, 2, -1, 1);
}

static float
first_number(const gpu_outcome_t *outcome)
{
    return *(const float *)outcome->results[0].data;
}

/* More sizes of a batch than plans are kept: the memory is that of the largest. */
static void
check_growth(gpu_check_t *self)
{
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    set_batch(&one, BATCHES);
    size_t size_bytes = 0;
    for (int i = 0; i < ROUNDS; i++) {
        set_batch(&one, BATCHES - i % BATCHES);
        gpu_outcome_t outcome;
        int status = gpu_case_run(&one, slot, 1, &outcome);
        gpu_check_that(self, status == 0, "batches of many sizes, run %d: %s", i,
                       cadre_error_text());
        gpu_outcome_fini(&one, &outcome);
        size_bytes = i == 0 ? cadre_slot_arena_size_bytes(slot) : size_bytes;
        gpu_check_that(self, cadre_slot_arena_size_bytes(slot) == size_bytes,
                       "the slot's memory grew from %zu to %zu bytes", size_bytes,
                       cadre_slot_arena_size_bytes(slot));
    }
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

/* Bytes of this process that are in memory. */
static int64_t
resident_bytes(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    cadre_assert(file && fgets(text, sizeof(text), file));
    fclose(file);
    char *end = NULL;
    strtoll(text, &end, 10); /* the whole size */
    return strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}

/* The process does not grow either, however many runs there are. */
static void
check_many_runs(gpu_check_t *self)
{
    if (!self->scale) {
        return; /* the tools that smaller sizes are for keep books of their own */
    }
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    int64_t begin = 0;
    for (int i = 0; i < WARM_RUNS + MANY_RUNS; i++) {
        set_batch(&one, 1 + i % 2);
        gpu_outcome_t outcome;
        int status = gpu_case_run(&one, slot, (uint64_t)i, &outcome);
        gpu_check_that(self, status == 0, "run %d of many: %s", i, cadre_error_text());
        gpu_outcome_fini(&one, &outcome);
        begin = i + 1 == WARM_RUNS ? resident_bytes() : begin;
    }
    int64_t grown = resident_bytes() - begin;
    gpu_check_that(self, grown < GROWTH_MAX, "%d runs made the process %lld bytes larger",
                   MANY_RUNS, (long long)grown);
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

/* Memory that moves when a larger plan comes: what was recorded for the old place must not run. */
static void
check_moving(gpu_check_t *self)
{
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    cadre_slot_t *slots[2] = {NULL, NULL}; /* the device's and the CPU's */
    cadre_assert(cadre_slot_open(self->device, NULL, &slots[0]) == 0);
    cadre_assert(cadre_slot_open(self->cpu, NULL, &slots[1]) == 0);
    for (int i = 0; i < 12; i++) {
        int64_t rows = i % 3 == 2 ? 2 + i : 1; /* small, small, larger than ever */
        set_batch(&one, rows);
        float losses[2] = {0};
        for (int k = 0; k < 2; k++) {
            gpu_outcome_t outcome;
            int status = gpu_case_run(&one, slots[k], 1, &outcome);
            gpu_check_that(self, status == 0, "memory that moves: %s", cadre_error_text());
            losses[k] = status == 0 ? first_number(&outcome) : 0;
            gpu_outcome_fini(&one, &outcome);
        }
        float difference = losses[0] - losses[1];
        gpu_check_that(self, difference < 1e-4F * losses[1] && difference > -1e-4F * losses[1],
                       "memory that moves, run %d: the loss is %.9g, on the CPU %.9g", i,
                       (double)losses[0], (double)losses[1]);
    }
    cadre_slot_close(&slots[0]);
    cadre_slot_close(&slots[1]);
    gpu_case_fini(&one);
}

typedef struct {
    cadre_device_t *device;
    const gpu_case_t *one;
    int failures;
    gpu_outcome_t first;
} thread_t;

static void *
work(void *argument)
{
    thread_t *self = argument;
    cadre_slot_t *slot = NULL;
    self->failures = cadre_slot_open(self->device, NULL, &slot) < 0;
    for (int i = 0; i < ROUNDS && !self->failures; i++) {
        gpu_outcome_t outcome;
        self->failures += gpu_case_run(self->one, slot, 3, &outcome) < 0;
        if (i == 0) {
            self->first = outcome;
            continue;
        }
        self->failures += !self->failures && first_number(&outcome) != first_number(&self->first);
        gpu_outcome_fini(self->one, &outcome);
    }
    cadre_slot_close(&slot);
    return NULL;
}

static void
check_slots(gpu_check_t *self)
{
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    set_batch(&one, 5);
    thread_t threads[SLOTS] = {0};
    pthread_t ids[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        threads[i] = (thread_t){.device = self->device, .one = &one};
        cadre_assert(pthread_create(&ids[i], NULL, work, &threads[i]) == 0);
    }
    for (int i = 0; i < SLOTS; i++) {
        pthread_join(ids[i], NULL);
        gpu_check_that(self, threads[i].failures == 0, "slot %d of %d: %d runs failed or differ", i,
                       SLOTS, threads[i].failures);
        gpu_check_that(self, first_number(&threads[i].first) == first_number(&threads[0].first),
                       "slot %d gives another loss than slot 0", i);
    }
    for (int i = 0; i < SLOTS; i++) {
        gpu_outcome_fini(&one, &threads[i].first);
    }
    gpu_case_fini(&one);
}

/* Memory from the device itself is used without a detour. */
static void
check_host_memory(gpu_check_t *self)
{
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    set_batch(&one, 3);
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    gpu_outcome_t want;
    int status = gpu_case_run(&one, slot, 1, &want);
    gpu_check_that(self, status == 0, "%s", cadre_error_text());
    size_t size_bytes = (size_t)hidden_size(self) * WIDTH * sizeof(float);
    void *memory[4];
    for (int i = 0; i < 4; i++) {
        memory[i] = cadre_device_memory_new(self->device, size_bytes);
        cadre_assert(memory[i]);
    }
    cadre_slot_close(&slot); /* in a fresh one nothing is there from the run before */
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    memcpy(memory[0], one.variables[0], size_bytes);
    memcpy(memory[1], one.variables[1], size_bytes);
    cadre_tensor_t result = {0};
    cadre_slot_run_t run = {.program = one.program,
                            .arguments = one.arguments,
                            .argument_count = 1,
                            .variables = (const void *const *)memory,
                            .seed = 1,
                            .gradients = memory + 2,
                            .results = &result};
    status = cadre_slot_run(slot, &run);
    gpu_check_that(self, status == 0, "%s", cadre_error_text());
    for (int i = 0; i < 2 && status == 0; i++) {
        gpu_check_that(self, memcmp(memory[2 + i], want.gradients[i], size_bytes) == 0,
                       "gradient %d differs when it goes to the device's own host memory", i);
    }
    for (int i = 0; i < 4; i++) {
        cadre_device_memory_free(self->device, memory[i]);
    }
    cadre_tensor_fini(&result);
    gpu_outcome_fini(&one, &want);
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

/* A copy of `size_bytes` in memory of the device. */
static void *
buffer_with(gpu_check_t *self, const void *data, size_t size_bytes)
{
    void *buffer = NULL;
    int status = cadre_device_buffer_new(self->device, size_bytes, &buffer);
    status =
        status < 0 ? status : cadre_device_buffer_write(self->device, buffer, data, size_bytes);
    gpu_check_that(self, status == 0, "a buffer of %zu bytes: %s", size_bytes, cadre_error_text());
    cadre_assert(status == 0);
    return buffer;
}

/* Arguments, variables and gradients that stay on the device: the same bits as with the host's. A
 * first run with numbers that are none, then the right ones: nothing of before is used again. */
static void
check_resident(gpu_check_t *self)
{
    gpu_case_t one = {0};
    gpu_case_init(&one, make_program(self));
    set_batch(&one, 4);
    const size_t size_bytes = (size_t)hidden_size(self) * WIDTH * sizeof(float);
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    gpu_outcome_t want;
    int status = gpu_case_run(&one, slot, 1, &want);
    gpu_check_that(self, status == 0, "%s", cadre_error_text());
    cadre_tensor_t argument = one.arguments[0];
    argument.data = buffer_with(self, argument.data, cadre_tensor_size_bytes(&argument));
    void *buffers[4];
    for (int i = 0; i < 4; i++) {
        buffers[i] =
            buffer_with(self, i < 2 ? (void *)want.gradients[i] : one.variables[0], size_bytes);
    }
    for (int round = 0; round < 4 && status == 0; round++) {
        cadre_tensor_t result = {0};
        cadre_slot_run_t run = {.program = one.program,
                                .arguments = &argument,
                                .argument_count = 1,
                                .variables = (const void *const *)buffers,
                                .seed = 1,
                                .gradients = buffers + 2,
                                .results = &result,
                                .resident = true};
        status = cadre_slot_run(slot, &run);
        gpu_check_that(self, status == 0, "a resident run: %s", cadre_error_text());
        bool same = status == 0 && *(const float *)result.data == first_number(&want);
        gpu_check_that(self, same == (round > 0), "resident run %d: the loss %s", round,
                       same ? "is right too early" : "is another one");
        cadre_tensor_fini(&result);
        for (int i = 0; i < 2 && round == 0; i++) {
            cadre_assert(cadre_device_buffer_write(self->device, buffers[i], one.variables[i],
                                                   size_bytes) == 0);
        }
    }
    cadre_auto(cadre_free) void *got = cadre_aligned_alloc(size_bytes);
    for (int i = 0; i < 2 && status == 0; i++) {
        status = cadre_device_buffer_read(self->device, buffers[2 + i], got, size_bytes);
        gpu_check_that(self, status == 0 && memcmp(got, want.gradients[i], size_bytes) == 0,
                       "gradient %d differs when it stays on the device", i);
    }
    for (int i = 0; i < 4; i++) {
        cadre_device_buffer_free(self->device, buffers[i]);
    }
    cadre_device_buffer_free(self->device, argument.data);
    gpu_outcome_fini(&one, &want);
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

void
gpu_check_memory(gpu_check_t *self)
{
    check_growth(self);
    check_many_runs(self);
    check_moving(self);
    check_slots(self);
    check_host_memory(self);
    check_resident(self);
}
