/*
 * A coordinator core with ps, workers and strangers that say anything, under names that are theirs
 * or others', while a program schedules, reads, assigns and takes checkpoints.
 *
 * Input: what is drawn (fuzz_message.h), one step after another.
 */
#include "common/checkpoint/manifest.h"
#include "coordinator/core/closures/results.h"
#include "coordinator/core/coordinator_core.h"
#include "tests/fuzz/fuzz_message.h"

enum { SELF = 77, EPOCH = 5, OPERATIONS = 4, CLOSURES_MAX = 150, NAMES = 8 };

typedef struct {
    fuzz_t fuzz;
    cadre_core_t core;
    cadre_variable_t *variable;
    cadre_operation_t operations[OPERATIONS];
    float target[64];
    uint64_t now_ms;
    uint64_t checkpoint;
    int closures;
} target_t;

static const uint64_t INCARNATIONS[NAMES] = {SELF, 1000, 1001, 1002, 1003, 2000, 2001, 2002};
static const uint32_t INDEXES[NAMES] = {0, 1, 2, 3, 7, 4095, CADRE_INDEX_ANY, CADRE_INDEX_ANY};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the shell --- */

static void
answer_store(target_t *self, const cadre_store_order_t *order)
{
    static const char *const paths[] = {"/somewhere/.draft", "/somewhere/checkpoint"};
    bool opens = order->kind == CADRE_STORE_OPEN;
    if (order->manifest) {
        cadre_manifest_fini(order->manifest);
        free(order->manifest);
    }
    if (!opens && order->kind != CADRE_STORE_COMMIT) {
        return;
    }
    cadre_store_answer_t answer = {.kind = order->kind,
                                   .checkpoint = opens ? ++self->checkpoint : order->checkpoint,
                                   .status = fuzz_byte(&self->fuzz) % 8 == 7 ? CADRE_EIO : 0,
                                   .text = paths[!opens]};
    cadre_core_stored(&self->core, &answer, self->now_ms);
}

static void
take(target_t *self)
{
    cadre_effect_t event;
    while (cadre_effects_take(&self->core.effects, &event)) {
        if (event.kind == CADRE_EFFECT_STORE) {
            answer_store(self, &event.store);
        }
    }
    fuzz_drain(&self->core.effects.outbox);
}

/* --- what tasks say --- */

static cadre_task_t
draw_task(target_t *self)
{
    unsigned byte = fuzz_byte(&self->fuzz);
    unsigned name = byte % NAMES;
    cadre_role_t role = name >= 5 ? CADRE_ROLE_PS : CADRE_ROLE_WORKER;
    if (byte >= 192) { /* a name that is not its own */
        role = (cadre_role_t)(fuzz_byte(&self->fuzz) % 5);
    }
    uint32_t index = byte & 32 ? INDEXES[fuzz_byte(&self->fuzz) % NAMES] : name % 5 % 4;
    return (cadre_task_t){role, index, INCARNATIONS[name]};
}

static void
say(target_t *self)
{
    fuzz_t *fuzz = &self->fuzz;
    cadre_task_t from = draw_task(self);
    cadre_message_t message;
    cadre_message_t received;
    if (!fuzz_message(fuzz, from.role, &message)) {
        return;
    }
    unsigned how = fuzz_byte(fuzz);
    message.request = how & 64 ? fuzz_number(fuzz, UINT64_MAX) : self->core.requests.last;
    message.incarnation = from.incarnation;
    message.epoch = how & 7 ? EPOCH : fuzz_byte(fuzz);
    if (message.type == CADRE_MESSAGE_HELLO && how & 24) {
        message.hello.lowest = CADRE_PROTOCOL_LOWEST;
        message.hello.highest = CADRE_PROTOCOL_VERSION;
        message.hello.schema = cadre_message_schema_hash();
        message.hello.role = from.role;
        message.hello.index = from.index == CADRE_INDEX_ANY ? message.hello.index : from.index;
        message.hello.session = how & 32 ? SELF : 0;
    }
    if (message.type == CADRE_MESSAGE_ATTACH && how & 24) {
        message.attach.schema = cadre_message_schema_hash();
        message.epoch = how & 32 ? EPOCH : 0;
    }
    fuzz_chunks(fuzz, &message);
    if (fuzz_wire(&message, &received)) {
        cadre_core_receive(&self->core, &from, &received, self->now_ms);
    }
}

/* --- what the program does --- */

static void
schedule(target_t *self)
{
    unsigned how = fuzz_byte(&self->fuzz);
    if (self->closures++ >= CLOSURES_MAX) {
        return;
    }
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->steps = 1 + how % 3;
    if (how & 8) {
        closure->resources = cadre_calloc(1, sizeof(uint64_t));
        closure->resources[0] = 1;
        closure->resource_count = 1;
    }
    if (how & 16) {
        closure->wants_results = true;
        closure->results = cadre_results_new();
    }
    if (cadre_closure_queue_put(&self->core.queue, closure) < 0) {
        cadre_closure_destroy(&closure);
    }
}

static void
operate(target_t *self)
{
    unsigned how = fuzz_byte(&self->fuzz);
    cadre_operation_t *operation = &self->operations[how % OPERATIONS];
    if (operation->pending > 0) {
        cadre_operations_give_up(&self->core.operations, operation);
    }
    *operation = (cadre_operation_t){.target = self->target};
    if (how & 64) {
        cadre_operations_read(&self->core.operations, self->variable, operation);
    } else if (how & 32) {
        cadre_operations_assign(&self->core.operations, self->variable, CADRE_ASSIGN_ADD,
                                self->target, operation);
    } else {
        cadre_operations_count(&self->core.operations, how / 4 % self->core.options.ps_count,
                               operation);
    }
}

static void
step(target_t *self)
{
    static const uint64_t pauses_ms[] = {0, 1, 50, 999, 1001, 3001, 10001, 60001};
    cadre_core_t *core = &self->core;
    unsigned kind = fuzz_byte(&self->fuzz) % 24;
    if (kind < 14) {
        say(self);
    } else if (kind < 17) {
        self->now_ms += pauses_ms[fuzz_byte(&self->fuzz) % CADRE_COUNT_OF(pauses_ms)];
        cadre_core_tick(core, self->now_ms, fuzz_byte(&self->fuzz) % 2);
    } else if (kind < 19) {
        schedule(self);
    } else if (kind == 19 && core->checkpoint.state == CADRE_CHECKPOINT_IDLE) {
        cadre_checkpoint_begin(&core->checkpoint, NULL);
    } else if (kind == 20) {
        cadre_task_t gone = draw_task(self);
        cadre_core_gone(core, &gone, self->now_ms);
    } else if (kind == 21) {
        operate(self);
    } else if (kind == 22) {
        cadre_core_probe(core);
    } else {
        cadre_member_t *member =
            cadre_membership_find(&core->membership, INCARNATIONS[fuzz_byte(&self->fuzz) % NAMES]);
        if (member && member->task.role == CADRE_ROLE_WORKER) {
            cadre_members_drain(&core->members, member);
        }
    }
    take(self);
}

static void
define(target_t *self)
{
    cadre_catalogue_t *catalogue = &self->core.catalogue;
    cadre_variable_options_t options = {
        .size = sizeof(options), .partitioner = CADRE_PARTITION_FIXED, .count = 2};
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 1, .shape = {6}};
    cadre_function_t native = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "work"};
    cadre_function_t *function = NULL;
    cadre_dataset_t *dataset = NULL;
    cadre_resource_t *resource = NULL;
    bool is_new = false;
    int status = cadre_catalogue_add_variable(catalogue, "w", &like, &options, &self->variable);
    cadre_assert(status == 0);
    self->variable->created = true;
    cadre_catalogue_add_function(catalogue, &native, &function, &is_new);
    cadre_catalogue_add_dataset(catalogue, "d", "{}", &dataset);
    cadre_closure_t *call = cadre_closure_new(function->id);
    cadre_catalogue_add_resource(catalogue, "r", &call, &resource);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    target_t *self = cadre_calloc(1, sizeof(*self));
    self->fuzz.at = data;
    self->fuzz.end = data + size;
    self->now_ms = 100000;
    unsigned how = fuzz_byte(&self->fuzz);
    cadre_core_options_t options = {.incarnation = SELF,
                                    .epoch = EPOCH,
                                    .job = "j",
                                    .build = "1",
                                    .ps_count = 1 + how % 2,
                                    .seed = 42,
                                    .queue_capacity = 200,
                                    .lease_ms = 10000,
                                    .heartbeat_ms = 1000,
                                    .resend_ms = 1000,
                                    .ps_timeout_ms = 60000,
                                    .client_closures = how / 64 % 2,
                                    .recovery = (cadre_recovery_t)(how / 2 % 3)};
    cadre_core_init(&self->core, &options, self->now_ms);
    self->core.checkpoint.enabled = true;
    define(self);
    while (fuzz_more(&self->fuzz)) {
        step(self);
    }
    for (size_t i = 0; i < OPERATIONS; i++) {
        cadre_operations_give_up(&self->core.operations, &self->operations[i]);
    }
    cadre_core_stop(&self->core, "over");
    take(self);
    cadre_core_fini(&self->core);
    free(self);
    return 0;
}
