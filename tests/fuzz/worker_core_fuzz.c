/*
 * A worker core that gets any messages from its coordinator and from ps, while its one slot pulls,
 * pushes and ends runs.
 *
 * Input: what is drawn (fuzz_message.h), one step after another.
 */
#include "common/wire/tensor_list.h"
#include "tests/fuzz/fuzz_message.h"
#include "worker/core/worker_core.h"

enum { SELF = 77, COORDINATOR = 5, EPOCH = 1, SHARDS = 2, RUNS_MAX = 8, ROWS = 4, FIRST_PS = 100 };

typedef struct {
    cadre_run_t *run;
    bool busy; /* it waits for a pull or a push */
} slot_t;

typedef struct {
    fuzz_t fuzz;
    cadre_worker_core_t *core;
    uint64_t now_ms;
    slot_t slots[RUNS_MAX];
    size_t slot_count;
} target_t;

static const cadre_task_t THE_COORDINATOR = {CADRE_ROLE_COORDINATOR, 0, 0};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the shell --- */

static void
end_wait(target_t *self, const cadre_run_t *run)
{
    for (size_t i = 0; i < self->slot_count; i++) {
        self->slots[i].busy = self->slots[i].busy && self->slots[i].run != run;
    }
}

static void
start(target_t *self, cadre_run_t *run)
{
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    cadre_assert(self->slot_count < RUNS_MAX);
    self->slots[self->slot_count++] = (slot_t){.run = run};
    if (cadre_closure_call_tensors(&run->call, &tensors, &count) == 0) {
        cadre_tensors_fini(&tensors, count);
    }
}

static void
take(target_t *self)
{
    cadre_worker_event_t event;
    cadre_dataset_ready_message_t ready = {.rows = 5, .text = ""};
    while (cadre_worker_core_event(self->core, &event)) {
        switch (event.kind) {
        case CADRE_WORKER_START:
            start(self, event.run);
            break;
        case CADRE_WORKER_LOAD:
            cadre_worker_core_loaded(self->core, event.run->call.message.closure.id,
                                     fuzz_byte(&self->fuzz) % 4 ? 0 : CADRE_EDATA, "no data",
                                     self->now_ms);
            break;
        case CADRE_WORKER_OPEN_DATASET:
            cadre_worker_core_dataset_opened(self->core, event.index, &ready, self->now_ms);
            break;
        case CADRE_WORKER_VALUES:
            cadre_values_fini(&event.values, event.value_count);
            end_wait(self, event.run);
            break;
        case CADRE_WORKER_PUSHED:
            end_wait(self, event.run);
            break;
        case CADRE_WORKER_RELEASE:
            cadre_holding_destroy(&event.holding);
            break;
        case CADRE_WORKER_SHARD_MOVED:
        case CADRE_WORKER_REACHABILITY:
        case CADRE_WORKER_FORGET:
        case CADRE_WORKER_LACKS:
        case CADRE_WORKER_RESET:
        case CADRE_WORKER_REDIAL:
        case CADRE_WORKER_REFUSED:
        case CADRE_WORKER_LEFT:
            break;
        }
    }
    fuzz_drain(cadre_worker_core_outbox(self->core));
}

static void
tell(target_t *self, const cadre_task_t *from, cadre_message_t *message)
{
    cadre_message_t received;
    if (fuzz_wire(message, &received)) {
        cadre_worker_core_receive(self->core, from, &received, self->now_ms);
    }
    take(self);
}

/* --- what is said --- */

static cadre_message_t
of_coordinator(cadre_message_type_t type)
{
    return (cadre_message_t){.type = type, .incarnation = COORDINATOR, .epoch = EPOCH};
}

/* A member that knows two shards, a variable in two parts and a function. */
static void
begin(target_t *self)
{
    static const uint64_t rows = ROWS;
    static const uint64_t shards[] = {0, 1};
    cadre_worker_core_connected(self->core, self->now_ms);
    cadre_message_t message = of_coordinator(CADRE_MESSAGE_WELCOME);
    message.welcome = (cadre_welcome_message_t){.index = 3,
                                                .job = "j",
                                                .heartbeat_ms = 1000,
                                                .lease_ms = 10000,
                                                .resend_ms = 500,
                                                .shards = SHARDS};
    tell(self, &THE_COORDINATOR, &message);
    for (uint64_t i = 0; i < SHARDS; i++) {
        message = of_coordinator(CADRE_MESSAGE_SHARD);
        message.shard = (cadre_shard_message_t){.index = i,
                                                .address = "tcp://127.0.0.1:1",
                                                .incarnation = FIRST_PS + i,
                                                .generation = 1};
        tell(self, &THE_COORDINATOR, &message);
    }
    message = of_coordinator(CADRE_MESSAGE_VARIABLE);
    message.variable = (cadre_variable_message_t){.id = 1,
                                                  .name = "w",
                                                  .dtype = CADRE_F32,
                                                  .shape = {&rows, 1},
                                                  .partitions = 2,
                                                  .shards = {shards, SHARDS}};
    tell(self, &THE_COORDINATOR, &message);
    message = of_coordinator(CADRE_MESSAGE_FUNCTION);
    message.function =
        (cadre_function_message_t){.id = 1, .kind = CADRE_FUNCTION_NATIVE, .name = "work"};
    tell(self, &THE_COORDINATOR, &message);
}

/* Makes of a closure one that can run. */
static void
correct(cadre_message_t *message, unsigned how)
{
    if (message->type == CADRE_MESSAGE_CLOSURE) {
        cadre_closure_message_t *closure = &message->closure;
        closure->function = 1;
        closure->variables = 1;
        closure->generations = SHARDS;
        if (how & 16) {
            closure->batches.count = 0;
            closure->values.count = 0;
            closure->tensors.count = 0;
            closure->names.count = 0;
            closure->resources.count = 0;
        }
    } else if (message->type == CADRE_MESSAGE_RESOURCE) {
        message->resource.function = 1;
        message->resource.names.count = 0;
        message->resource.tensors.count = 0;
        message->resource.generations = SHARDS;
    } else if (message->type == CADRE_MESSAGE_WELCOME) {
        message->welcome.shards = SHARDS;
    }
}

static void
say(target_t *self)
{
    fuzz_t *fuzz = &self->fuzz;
    unsigned how = fuzz_byte(fuzz);
    bool is_ps = how % 4 == 0;
    cadre_task_t from = THE_COORDINATOR;
    if (is_ps) {
        from = (cadre_task_t){CADRE_ROLE_PS, fuzz_byte(fuzz) % (SHARDS + 1), 0};
    }
    cadre_message_t message;
    if (!fuzz_message(fuzz, from.role, &message)) {
        return;
    }
    bool ends = message.type == CADRE_MESSAGE_STOP || message.type == CADRE_MESSAGE_REFUSED;
    if (ends && fuzz_byte(fuzz) % 8) {
        return;
    }
    if (how & 8) {
        correct(&message, how);
    }
    message.request = fuzz_number(fuzz, UINT64_MAX);
    message.incarnation = is_ps ? FIRST_PS + from.index : how & 96 ? COORDINATOR : 6;
    message.epoch = EPOCH;
    fuzz_chunks(fuzz, &message);
    tell(self, &from, &message);
}

/* --- what a slot does --- */

static void
push(target_t *self, slot_t *slot, const cadre_variable_entry_t *variable, const cadre_rows_t *rows)
{
    bool fits = variable->rank == 1 && variable->shape[0] == ROWS && variable->dtype == CADRE_F32 &&
                variable->wire == CADRE_F32;
    if (!fits) {
        return;
    }
    static const float ones[ROWS] = {1, 1, 1, 1};
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *chunk = cadre_chunk_new_copy(ones, sizeof(ones));
    cadre_gradient_t gradient = {.variable = variable, .gradient = chunk, .rows = rows};
    slot->busy = true;
    cadre_worker_core_push(self->core, slot->run, &gradient, 1, self->now_ms);
}

static void
finish(target_t *self, bool failed)
{
    cadre_run_t *run = self->slots[0].run;
    cadre_run_outcome_t outcome = {.status = failed ? CADRE_EFUNCTION : 0,
                                   .text = "",
                                   .failure = failed ? CADRE_FAILURE_USER : 0};
    self->slot_count--;
    memmove(self->slots, self->slots + 1, self->slot_count * sizeof(*self->slots));
    cadre_worker_core_finish(self->core, run, &outcome, self->now_ms);
}

static void
work(target_t *self)
{
    if (self->slot_count == 0 || self->slots[0].busy) {
        return;
    }
    const cadre_variable_entry_t *variable = cadre_directory_variable_by_name(
        cadre_worker_core_directory(self->core), "w", 0, &(bool){false});
    const unsigned byte = fuzz_byte(&self->fuzz);
    const unsigned what = byte % 4;
    /* The number of one row, of the first or the last partition. */
    const uint64_t id =
        byte & 8 && variable && !variable->is_table ? (uint64_t)variable->rows - 1 : 0;
    const cadre_rows_t row = {.ids = &id, .count = 1};
    const cadre_rows_t *rows = byte & 4 ? &row : NULL;
    if (what == 0 && variable) {
        self->slots[0].busy = true;
        const cadre_wanted_t wanted = {.variable = variable, .rows = rows};
        cadre_worker_core_pull(self->core, self->slots[0].run, &wanted, 1, self->now_ms);
    } else if (what == 1 && variable) {
        push(self, &self->slots[0], variable, rows);
    } else if (what >= 2) {
        finish(self, what == 3);
    }
    take(self);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t pauses_ms[] = {0, 1, 50, 600, 1001, 3001, 10001, 60001};
    cadre_worker_options_t options = {
        .session = {.task = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, SELF}, .build = "1", .host = "h"},
        .devices = "cpu",
        .slots = 1,
        .ahead = 1,
        .shard_timeout_ms = 3000,
        .kept_values_max = 20000,
        .row_cache_bytes = 4096,
        .row_cache_patient = true};
    target_t *self = cadre_calloc(1, sizeof(*self));
    self->fuzz.at = data;
    self->fuzz.end = data + size;
    self->now_ms = 10000;
    self->core = cadre_worker_core_new(&options, self->now_ms);
    begin(self);
    while (fuzz_more(&self->fuzz)) {
        unsigned step = fuzz_byte(&self->fuzz) % 16;
        if (step < 10) {
            say(self);
        } else if (step < 12) {
            self->now_ms += pauses_ms[fuzz_byte(&self->fuzz) % CADRE_COUNT_OF(pauses_ms)];
            cadre_worker_core_tick(self->core, self->now_ms);
            take(self);
        } else {
            work(self);
        }
    }
    cadre_worker_core_destroy(&self->core);
    free(self);
    return 0;
}
