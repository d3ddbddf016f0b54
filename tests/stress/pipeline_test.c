/*
 * pipeline_test - slots run closures of random programs on a device that does everything late
 * (late_device.h), while values come and updates go in any order: gradients and results are those
 * of the CPU, bit for bit, and ThreadSanitizer must see no race.
 *
 * This program plays the network thread: it answers what slots ask, late and in a drawn order.
 * Values that were pulled turn to noise when the slot drops them, updates are held as a socket
 * holds them, and whatever is not ready when it is used ends the process. Planted mistakes, each in
 * a process of its own (`test_stress_pipeline_test MISTAKE`), must do so.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/system/poll.h"
#include "tests/graph/random_program.h"
#include "tests/stress/late_device.h"
#include "worker/slot/slot_actor.h"
#include "worker/slot/slot_link.h"

enum {
    PROGRAMS = 6,
    PROGRAM_SIZE = 24,
    SLOTS = 3,
    CLOSURES = 400,
    SEEDS = 3,
    AHEAD = 2 * SLOTS,
    ROWS_MAX = 5,
    VARIABLES = 2,
    WEIGHTS = RANDOM_SIDE * RANDOM_SIDE,
    HELD_MAX = 16,
    DEADLINE_MS = 240000,
};

/* What the network does wrong, beside the faults of the device. */
typedef enum { MISTAKE_NONE, MISTAKE_NUMBER_TWICE } mistake_t;

typedef struct {
    float x[ROWS_MAX * RANDOM_SIDE];
    uint64_t items[4 + CADRE_RANK_MAX];
    const char *names[1];
    size_t program;
    cadre_tensor_list_t tensors;
    uint64_t contents[VARIABLES]; /* that it has pulled */
    float gradients[VARIABLES][WEIGHTS];
    int pushed;
} closure_t;

/* Bytes of a pulled value, which become noise when the slot drops them. */
typedef struct block {
    struct block *next;
    float numbers[WEIGHTS];
} block_t;

/* A gradient that a socket still holds. */
typedef struct {
    cadre_chunk_t *chunk;
    float copy[WEIGHTS];
} held_t;

typedef struct {
    cadre_random_t random;
    mistake_t mistake;
    cadre_context_t *context;
    cadre_device_t *device;
    cadre_work_queue_t *queue;
    cadre_slot_actor_t *actors[SLOTS];
    cadre_program_t *programs[PROGRAMS];
    cadre_function_entry_t functions[PROGRAMS];
    cadre_variable_entry_t variables[VARIABLES];
    closure_t closures[CLOSURES];
    uint64_t contents[VARIABLES]; /* now */
    uint64_t content_last;
    cadre_slot_request_t *asked[SLOTS]; /* not answered yet */
    block_t *blocks;
    held_t held[HELD_MAX];
    int held_count;
    int begun;
    int ended;
    cadre_device_t *cpu;
    cadre_slot_t *cpu_slot;
} rig_t;

static void
expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}

static uint64_t
draw(rig_t *self, uint64_t below)
{
    return cadre_random_below(&self->random, below);
}

/* --- what is trained --- */

static float
number_of(uint64_t content, size_t index)
{
    return 2 * cadre_random_uniform(content, 7, index) - 1;
}

static void
make_variable(rig_t *self, size_t i)
{
    static char names[VARIABLES][2] = {"v", "w"};
    self->variables[i] =
        (cadre_variable_entry_t){.id = (uint32_t)i + 1,
                                 .name = names[i],
                                 .dtype = CADRE_F32,
                                 .wire = CADRE_F32,
                                 .rank = 2,
                                 .shape = {RANDOM_SIDE, RANDOM_SIDE},
                                 .rows = RANDOM_SIDE,
                                 .row_size_bytes = RANDOM_SIDE * sizeof(float),
                                 .wire_row_size_bytes = RANDOM_SIDE * sizeof(float),
                                 .partitions = 1};
    self->contents[i] = ++self->content_last;
}

static void
make_program(rig_t *self, size_t i)
{
    static char names[PROGRAMS][8];
    cadre_program_t *program = random_program(draw(self, 1000000) + 1, PROGRAM_SIZE);
    expect(cadre_program_finish(program) == 0, cadre_error_text());
    snprintf(names[i], sizeof(names[i]), "p%d", (int)i);
    self->programs[i] = program;
    self->functions[i] = (cadre_function_entry_t){
        .id = (uint32_t)i + 1,
        .kind = CADRE_FUNCTION_PROGRAM,
        .name = names[i],
        .program = cadre_chunk_new_copy(program->bytes, program->size_bytes)};
}

static cadre_tensor_t
argument_of(closure_t *closure)
{
    return (cadre_tensor_t){
        .dtype = CADRE_F32,
        .rank = 2,
        .shape = {(int64_t)closure->items[0], RANDOM_SIDE},
        .data = closure->x,
    };
}

static cadre_work_t *
new_work(rig_t *self, int number)
{
    closure_t *closure = &self->closures[number];
    closure->program = draw(self, PROGRAMS);
    closure->items[0] = 2 + draw(self, ROWS_MAX - 1);
    closure->names[0] = "x";
    for (size_t i = 0; i < CADRE_COUNT_OF(closure->x); i++) {
        closure->x[i] = number_of((uint64_t)number + 1000000, i);
    }
    cadre_tensor_t x = argument_of(closure);
    expect(cadre_tensor_list_encode(&x, 1, SIZE_MAX, &closure->tensors) == 0, "an argument");
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE, .incarnation = 1};
    message.closure =
        (cadre_closure_message_t){.id = (uint64_t)number + 1,
                                  .attempt = 1,
                                  .function = closure->program + 1,
                                  .steps = 1,
                                  .flags = CADRE_CLOSURE_WANTS_RESULTS,
                                  .seed = (uint64_t)number * 7 + 3,
                                  .names = {closure->names, 1},
                                  .tensors = cadre_tensor_list_items(&closure->tensors)};
    cadre_tensor_list_add_chunks(&closure->tensors, &message);
    cadre_run_t *run = cadre_run_new(&message, 0);
    run->call.function = &self->functions[closure->program];
    return cadre_work_new(run);
}

/* --- pull --- */

static void
spoil(void *owner)
{
    block_t *block = owner;
    memset(block->numbers, 0x55, sizeof(block->numbers));
}

/* A value as it comes: in one chunk or several. */
static void
make_value(rig_t *self, size_t variable, uint64_t content, cadre_value_t *value)
{
    size_t chunks = 1 + variable * draw(self, 3); /* v is read where it lies, w is joined */
    *value = (cadre_value_t){.variable = &self->variables[variable],
                             .content = draw(self, 8) == 0 ? 0 : content,
                             .size_bytes = WEIGHTS * sizeof(float),
                             .chunk_count = chunks};
    value->chunks = cadre_calloc(chunks, sizeof(cadre_chunk_t *));
    size_t each = WEIGHTS / chunks;
    for (size_t k = 0; k < chunks; k++) {
        block_t *block = cadre_calloc(1, sizeof(*block));
        block->next = self->blocks;
        self->blocks = block;
        for (size_t i = 0; i < each; i++) {
            block->numbers[i] = number_of(content, k * each + i);
        }
        value->chunks[k] =
            cadre_chunk_new_foreign(block->numbers, each * sizeof(float), spoil, block);
    }
}

static void
answer_pull(rig_t *self, cadre_slot_request_t *request)
{
    closure_t *closure = &self->closures[cadre_closure_call_id(request->work->call) - 1];
    request->values = cadre_calloc(request->count, sizeof(*request->values));
    request->value_count = request->count;
    for (size_t i = 0; i < request->count; i++) {
        size_t variable = request->wanted[i].variable->id - 1;
        if (draw(self, 24) == 0) { /* a program comes to the same slot again after as many */
            self->contents[variable] = ++self->content_last;
        }
        closure->contents[variable] = self->contents[variable];
        make_value(self, variable, self->contents[variable], &request->values[i]);
        if (self->mistake == MISTAKE_NUMBER_TWICE && variable == 0) {
            request->values[i].content = 1;
        }
    }
}

/* --- push --- */

/* A socket has sent the gradient of place `i`, which nobody may have written to meanwhile. */
static void
let_go(rig_t *self, int i)
{
    held_t *held = &self->held[i];
    expect(memcmp(cadre_chunk_data(held->chunk), held->copy, sizeof(held->copy)) == 0,
           "a gradient stays as it is while a message holds it");
    cadre_chunk_unref(&held->chunk);
    *held = self->held[--self->held_count];
}

static void
answer_push(rig_t *self, const cadre_slot_request_t *request)
{
    closure_t *closure = &self->closures[cadre_closure_call_id(request->work->call) - 1];
    expect(closure->pushed++ == 0 && request->count == VARIABLES, "one push of both variables");
    for (size_t i = 0; i < request->count; i++) {
        cadre_chunk_t *gradient = request->gradients[i].gradient;
        size_t variable = request->gradients[i].variable->id - 1;
        late_device_expect_ready(cadre_chunk_data(gradient), cadre_chunk_size_bytes(gradient));
        memcpy(closure->gradients[variable], cadre_chunk_data(gradient), WEIGHTS * sizeof(float));
        if (self->held_count == HELD_MAX) {
            let_go(self, (int)draw(self, HELD_MAX));
        }
        if (draw(self, 2) == 0) {
            held_t *held = &self->held[self->held_count++];
            held->chunk = cadre_chunk_ref(gradient);
            memcpy(held->copy, cadre_chunk_data(gradient), sizeof(held->copy));
        }
    }
}

/* --- the end of a closure --- */

static void
compare_results(const cadre_work_t *work, const cadre_tensor_t *wanted)
{
    const cadre_message_t message = {.chunks = work->results.chunks,
                                     .chunk_count = work->results.chunk_count};
    cadre_tensor_t *results = NULL;
    size_t count = 0;
    expect(cadre_tensor_list_decode(cadre_tensor_list_items(&work->results), &message, SIZE_MAX,
                                    &results, &count) == 0 &&
               count == RANDOM_RESULTS,
           "results");
    for (size_t i = 0; i < count; i++) {
        expect(memcmp(results[i].data, wanted[i].data, cadre_tensor_size_bytes(&wanted[i])) == 0,
               "results are the CPU's");
    }
    cadre_tensors_fini(&results, count);
}

static void
compare(rig_t *self, const cadre_work_t *work)
{
    closure_t *closure = &self->closures[cadre_closure_call_id(work->call) - 1];
    const cadre_program_t *program = self->programs[closure->program];
    expect(work->status == 0, work->text ? work->text : "a closure ends well");
    expect(closure->pushed == 1, "a closure has pushed");
    float values[VARIABLES][WEIGHTS];
    float gradients[VARIABLES][WEIGHTS];
    const void *variables[VARIABLES];
    void *outputs[VARIABLES];
    cadre_tensor_t results[RANDOM_RESULTS] = {{0}};
    cadre_tensor_t x = argument_of(closure);
    for (int i = 0; i < VARIABLES; i++) {
        size_t variable = strcmp(cadre_program_variable(program, i)->name, "v") != 0;
        for (size_t k = 0; k < WEIGHTS; k++) {
            values[i][k] = number_of(closure->contents[variable], k);
        }
        variables[i] = values[i];
        outputs[i] = gradients[i];
    }
    const cadre_slot_run_t run = {.program = program,
                                  .arguments = &x,
                                  .argument_count = 1,
                                  .variables = variables,
                                  .seed = work->call->message.closure.seed,
                                  .gradients = outputs,
                                  .results = results};
    expect(cadre_slot_run(self->cpu_slot, &run) == 0, cadre_error_text());
    for (int i = 0; i < VARIABLES; i++) {
        int of = cadre_program_push(program, i)->variable;
        size_t variable = strcmp(cadre_program_variable(program, of)->name, "v") != 0;
        expect(memcmp(closure->gradients[variable], gradients[i], sizeof(gradients[i])) == 0,
               "gradients are the CPU's");
    }
    compare_results(work, results);
    for (int i = 0; i < RANDOM_RESULTS; i++) {
        cadre_tensor_fini(&results[i]);
    }
}

static void
end_work(rig_t *self, cadre_work_t *work)
{
    compare(self, work);
    self->ended++;
    cadre_run_t *run = work->run;
    cadre_tensor_list_fini(&self->closures[cadre_run_id(run) - 1].tensors);
    cadre_run_destroy(&run);
    cadre_work_destroy(&work);
}

/* --- the network thread --- */

static void
answer(rig_t *self, size_t slot)
{
    cadre_slot_request_t *request = self->asked[slot];
    self->asked[slot] = NULL;
    switch (request->question) {
    case CADRE_SLOT_RESOLVE:
        request->variable = &self->variables[strcmp(request->name, "v") != 0];
        break;
    case CADRE_SLOT_PULL:
        answer_pull(self, request);
        break;
    case CADRE_SLOT_PUSH:
        answer_push(self, request);
        break;
    }
    cadre_pipe_send(cadre_slot_actor_socket(self->actors[slot]), CADRE_SLOT_ANSWERED, request);
}

static void
begin_more(rig_t *self)
{
    while (self->begun < CLOSURES && self->begun - self->ended < SLOTS + AHEAD) {
        cadre_work_queue_put(self->queue, new_work(self, self->begun));
        self->begun++;
    }
}

/* One turn: takes what slots say, then answers one of the questions, or leaves them waiting. */
static void
turn(rig_t *self)
{
    zmq_pollitem_t items[SLOTS];
    bool waiting = false;
    begin_more(self);
    for (size_t i = 0; i < SLOTS; i++) {
        items[i] = (zmq_pollitem_t){.socket = cadre_slot_actor_socket(self->actors[i]),
                                    .events = ZMQ_POLLIN};
        waiting = waiting || self->asked[i];
    }
    expect(cadre_poll(items, SLOTS, waiting ? 0 : DEADLINE_MS) > 0 || waiting, "slots go on");
    for (size_t i = 0; i < SLOTS; i++) {
        cadre_pipe_message_t message;
        while ((items[i].revents & ZMQ_POLLIN) &&
               cadre_pipe_receive(items[i].socket, &message) == 0) {
            if (message.kind == CADRE_SLOT_ENDED) {
                end_work(self, message.pointer);
            } else {
                self->asked[i] = message.pointer;
            }
        }
    }
    size_t chosen = draw(self, 2 * SLOTS);
    if (chosen < SLOTS && self->asked[chosen]) {
        answer(self, chosen);
    }
    if (self->held_count > 0 && draw(self, 4) == 0) {
        let_go(self, (int)draw(self, (uint64_t)self->held_count));
    }
}

/* --- opening and closing --- */

static void
rig_open(rig_t *self, uint64_t seed, late_fault_t fault, mistake_t mistake)
{
    cadre_random_init(&self->random, seed, 5);
    self->mistake = mistake;
    for (size_t i = 0; i < VARIABLES; i++) {
        make_variable(self, i);
    }
    for (size_t i = 0; i < PROGRAMS; i++) {
        make_program(self, i);
    }
    late_device_plan(seed, fault);
    const cadre_device_options_t options = {.name = "late", .threads = 1};
    expect(cadre_device_open_functions(&late_device_functions, &options, &self->device) == 0 &&
               cadre_device_open("cpu", 1, &self->cpu) == 0 &&
               cadre_slot_open(self->cpu, NULL, &self->cpu_slot) == 0 &&
               cadre_context_open(&self->context) == 0,
           cadre_error_text());
    self->queue = cadre_work_queue_new();
    const cadre_slot_actor_options_t slot = {.queue = self->queue, .device = self->device};
    for (size_t i = 0; i < SLOTS; i++) {
        expect(cadre_slot_actor_open(self->context, &slot, &self->actors[i]) == 0,
               cadre_error_text());
    }
}

static void
rig_close(rig_t *self)
{
    cadre_work_queue_close(self->queue);
    for (size_t i = 0; i < SLOTS; i++) {
        expect(cadre_slot_actor_close(&self->actors[i], CADRE_ACTOR_STOP_MS) == 0, "a slot ends");
    }
    while (self->held_count > 0) {
        let_go(self, 0);
    }
    cadre_work_queue_destroy(&self->queue);
    cadre_context_close(&self->context);
    cadre_slot_close(&self->cpu_slot);
    cadre_device_close(&self->cpu);
    cadre_device_close(&self->device);
    for (size_t i = 0; i < PROGRAMS; i++) {
        cadre_program_destroy(&self->programs[i]);
        cadre_chunk_unref(&self->functions[i].program);
    }
    while (self->blocks) {
        block_t *block = self->blocks;
        self->blocks = block->next;
        free(block);
    }
}

static void
run_all(uint64_t seed, late_fault_t fault, mistake_t mistake)
{
    rig_t *rig = cadre_calloc(1, sizeof(*rig));
    rig_open(rig, seed, fault, mistake);
    while (rig->ended < CLOSURES) {
        turn(rig);
    }
    late_counts_t counts = late_device_counts();
    expect(counts.runs == CLOSURES, "each closure ran once");
    expect(counts.copies + counts.copies_saved == VARIABLES * CLOSURES, "all variables are there");
    expect(counts.copies_saved > 0, "some were there already");
    rig_close(rig);
    free(rig);
}

/* --- planted mistakes --- */

/* Changes a number while a run may read it: the mistake that is to be seen, so that a sanitizer of
 * threads, which sees it too where both come together, is not to look here. */
__attribute__((no_sanitize_thread, noinline)) static void
change_under_way(volatile float *number)
{
    *number += 1;
}

/* What a run reads changes, or what it writes is read, before it has ended: without slots around
 * it, so that it is certain which comes first. */
static void
meddle(bool change)
{
    cadre_program_t *program = random_program(5, PROGRAM_SIZE);
    expect(cadre_program_finish(program) == 0, cadre_error_text());
    late_device_plan(1, LATE_FAULT_NONE);
    cadre_device_t *device = NULL;
    cadre_slot_t *slot = NULL;
    const cadre_device_options_t options = {.name = "late", .threads = 1};
    expect(cadre_device_open_functions(&late_device_functions, &options, &device) == 0 &&
               cadre_slot_open(device, NULL, &slot) == 0,
           cadre_error_text());
    float numbers[2 * VARIABLES][WEIGHTS] = {{0}};
    float rows[2 * RANDOM_SIDE] = {0};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {2, RANDOM_SIDE}, .data = rows};
    cadre_tensor_t results[RANDOM_RESULTS] = {{0}};
    const cadre_slot_run_t run = {.program = program,
                                  .arguments = &x,
                                  .argument_count = 1,
                                  .variables = (const void *[]){numbers[0], numbers[1]},
                                  .gradients = (void *[]){numbers[2], numbers[3]},
                                  .results = results};
    for (int i = 0; i < 1000; i++) { /* a device may be quick, but not each time */
        expect(cadre_slot_start(slot, &run) == 0, cadre_error_text());
        if (change) {
            change_under_way(&numbers[0][0]);
        } else {
            late_device_expect_ready(numbers[2], sizeof(numbers[2]));
        }
        expect(cadre_slot_wait(slot) == 0, cadre_error_text());
        for (int k = 0; k < RANDOM_RESULTS; k++) {
            cadre_tensor_fini(&results[k]);
        }
    }
}

static const char *const mistakes[] = {"compute-early", "copy-out-early", "wait-early",
                                       "number-twice",  "change",         "read-early"};

static void
make_mistake(const char *name)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (strcmp(name, "compute-early") == 0) {
        run_all(1, LATE_FAULT_COMPUTE_EARLY, MISTAKE_NONE);
    } else if (strcmp(name, "copy-out-early") == 0) {
        run_all(1, LATE_FAULT_COPY_OUT_EARLY, MISTAKE_NONE);
    } else if (strcmp(name, "wait-early") == 0) {
        run_all(1, LATE_FAULT_WAIT_EARLY, MISTAKE_NONE);
    } else if (strcmp(name, "number-twice") == 0) {
        run_all(1, LATE_FAULT_NONE, MISTAKE_NUMBER_TWICE);
    } else {
        meddle(strcmp(name, "change") == 0);
    }
}

/* In a process of its own, which must abort. */
static void
expect_abort(const char *program, const char *mistake)
{
    int end = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, mistake, (char *)NULL);
        _exit(127);
    }
    expect(pid > 0 && waitpid(pid, &end, 0) == pid, "a process");
    if (!WIFSIGNALED(end) || WTERMSIG(end) != SIGABRT) {
        fprintf(stderr, "%s was not noticed: %x\n", mistake, (unsigned)end);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    if (argc > 1) {
        make_mistake(argv[1]);
        return 0;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fprintf(stderr, "seed=%d\n", (int)seed);
        run_all(seed, LATE_FAULT_NONE, MISTAKE_NONE);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(mistakes); i++) {
        expect_abort(argv[0], mistakes[i]);
    }
    return 0;
}
