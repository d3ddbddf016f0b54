/*
 * A ps core and its shard, which get any messages from their coordinator, from workers and from
 * strangers, on both planes: every one is answered, refused or dropped, and what is answered can be
 * read.
 *
 * Input: what is drawn (fuzz_message.h), one step after another.
 */
#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/spec/initializer_spec.h"
#include "common/spec/optimizer_spec.h"
#include "common/wire/row_list.h"
#include "ps/core/ps_core.h"
#include "ps/core/shard.h"
#include "tests/fuzz/fuzz_message.h"

enum {
    PS = 7,
    COORDINATOR = 8,
    WORKER = 9,
    EPOCH = 3,
    VARIABLES = 4, /* dense ones, and */
    TABLE = 5,     /* one of rows by key */
    DIM = 2,
    KEYS = 4, /* that the checkpoint has */
    SIZE_MAX_BYTES = 4 << 20,
    STEP_BYTES = 100, /* held for a step: six gradients of a variable */
    LOADS_MAX = 8
};

typedef struct {
    fuzz_t fuzz;
    cadre_ps_core_t *core;
    cadre_shard_t *shard;
    cadre_shard_effects_t effects;
    cadre_checkpoint_load_t *loads[LOADS_MAX]; /* not carried out yet */
    size_t load_count;
    uint64_t now_ms;
} target_t;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- a checkpoint of made-up values --- */

static int
open_checkpoint(void *context, const char *path, uint32_t shard, cadre_shard_state_t *state)
{
    (void)context, (void)shard;
    *state = (cadre_shard_state_t){.window_base = 3, .applied = 5};
    return path[0] == 'w' || path[0] == 't' ? 0 : cadre_fail(CADRE_ENOTFOUND, "no checkpoint");
}

static int
find_variable(void *context, const char *name, cadre_stored_variable_t *out)
{
    const bool is_table = strcmp(name, FUZZ_WORDS[TABLE]) == 0;
    *out = (cadre_stored_variable_t){.dtype = name[0] == 'w' ? CADRE_F64 : CADRE_F32,
                                     .rank = 2,
                                     .shape = {is_table ? 0 : 2, 2},
                                     .table_parts = is_table ? 1 + fuzz_byte(context) % 2 : 0};
    return name[0] == 'a' ? cadre_fail(CADRE_ENOTFOUND, "no variable") : 0;
}

static int
read_range(void *context, const cadre_checkpoint_range_t *range, void *out,
           cadre_change_counts_t *counts)
{
    (void)context;
    memset(out, 0, (size_t)range->count * cadre_dtype_size(range->dtype));
    if (counts) {
        *counts = (cadre_change_counts_t){.version = 7, .steps = 5};
    }
    return range->count % 3 == 2 ? cadre_fail(CADRE_ENOTFOUND, "no values") : 0;
}

static int
prepare_range(void *context, const cadre_checkpoint_range_t *range, const cadre_give_up_t *give_up)
{
    (void)context, (void)give_up;
    return range->count % 5 == 4 ? cadre_fail(CADRE_ECORRUPT, "a damaged file") : 0;
}

static void
close_checkpoint(void *context)
{
    (void)context;
}

/* A table of a few keys, of which the caller ends the snapshot. */
static void
make_rows(cadre_table_snapshot_t *snapshot, cadre_table_record_t *record)
{
    static const uint64_t keys[KEYS] = {0, 1, 7, UINT64_MAX};
    static const float numbers[KEYS * DIM] = {1};
    const cadre_table_spec_t spec = cadre_table_spec(DIM);
    const cadre_table_update_t update = {.count = KEYS, .keys = keys, .numbers = numbers};
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(0);
    cadre_table_t *table = NULL;
    cadre_assert(cadre_table_open(&table, &spec, pool) == 0);
    cadre_table_push(table, &update);
    cadre_table_snapshot(table, 0, 1, snapshot);
    cadre_table_describe(table, snapshot, record);
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
}

static int
read_table(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           cadre_table_record_t *record)
{
    cadre_auto(cadre_table_snapshot_fini) cadre_table_snapshot_t snapshot;
    (void)variable, (void)part, (void)give_up;
    make_rows(&snapshot, record);
    if (fuzz_byte(context) % 4 == 3) { /* a damaged description */
        ((uint64_t *)record)[fuzz_byte(context) % (sizeof(*record) / sizeof(uint64_t))] =
            fuzz_number(context, UINT64_MAX);
    }
    return 0;
}

static int
read_pages(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor)
{
    cadre_auto(cadre_table_snapshot_fini) cadre_table_snapshot_t snapshot;
    cadre_table_record_t record;
    (void)variable, (void)part, (void)give_up;
    make_rows(&snapshot, &record);
    cadre_table_page_t page = {.bytes = cadre_chunk_data(snapshot.rows.chunks[0]),
                               .size_bytes = cadre_chunk_size_bytes(snapshot.rows.chunks[0])};
    const unsigned how = fuzz_byte(context) % 16;
    page.position = how == 15 ? (uint32_t)fuzz_number(context, UINT32_MAX) : 0;
    page.size_bytes -= how == 14 ? 8 : 0;
    const int status = visit(visitor, &page);
    return status != 0 || how != 13 ? status : visit(visitor, &page);
}

static int
read_sightings(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
               int (*visit)(void *visitor, const cadre_table_page_t *block), void *visitor)
{
    static const uint8_t counters[CADRE_SIGHTING_BLOCK_SIZE] = {1};
    const unsigned how = fuzz_byte(context) % 16;
    const cadre_table_page_t block = {
        .position = how == 15 ? (uint32_t)fuzz_number(context, UINT32_MAX) : how,
        .bytes = counters,
        .size_bytes = sizeof(counters) - (how == 14)};
    (void)variable, (void)part, (void)give_up;
    const int status = visit(visitor, &block);
    return status != 0 || how != 13 ? status : visit(visitor, &block);
}

static cadre_loader_t
loader_of(fuzz_t *fuzz)
{
    return (cadre_loader_t){.context = fuzz,
                            .open = open_checkpoint,
                            .find = find_variable,
                            .prepare = prepare_range,
                            .read = read_range,
                            .table = read_table,
                            .pages = read_pages,
                            .sightings = read_sightings,
                            .close = close_checkpoint};
}

/* --- the shell --- */

/* Carries out the oldest load, or lets it fail. */
static void
carry_out(target_t *self)
{
    static const cadre_lanes_t none = {NULL, NULL};
    if (self->load_count == 0) {
        return;
    }
    cadre_checkpoint_load_t *load = self->loads[0];
    self->load_count--;
    memmove(self->loads, self->loads + 1, self->load_count * sizeof(cadre_checkpoint_load_t *));
    if (load->number >= self->effects.loads_from) {
        const cadre_loader_t loader = loader_of(&self->fuzz);
        cadre_checkpoint_load_run(load, &loader, &none, NULL);
    }
    cadre_shard_loaded(self->shard, &load, &self->effects.outbox);
    fuzz_drain(&self->effects.outbox);
}

static void
take_loads(target_t *self)
{
    cadre_checkpoint_load_t *load = NULL;
    while ((load = cadre_shard_effects_take_load(&self->effects))) {
        if (self->load_count == LOADS_MAX) {
            carry_out(self);
        }
        self->loads[self->load_count++] = load;
    }
}

static void
give(target_t *self, cadre_plane_t plane, const cadre_task_t *from, cadre_message_t *message)
{
    cadre_shard_receive(self->shard, plane, from, message, &self->effects);
    cadre_shard_snapshot_t *snapshot = cadre_shard_effects_take_snapshot(&self->effects);
    if (snapshot) {
        cadre_ps_written_t written = {.epoch = snapshot->epoch,
                                      .checkpoint = snapshot->checkpoint,
                                      .status = fuzz_byte(&self->fuzz) % 4 ? 0 : CADRE_EIO};
        cadre_ps_core_written(self->core, &written, self->now_ms);
        cadre_shard_snapshot_destroy(&snapshot);
    }
    take_loads(self);
    cadre_ps_core_counted(self->core, cadre_shard_counters(self->shard),
                          cadre_shard_generation(self->shard), true);
    fuzz_drain(&self->effects.outbox);
}

static void
take_events(target_t *self)
{
    cadre_ps_event_t event;
    cadre_task_t coordinator = cadre_ps_core_coordinator(self->core);
    while (cadre_ps_core_event(self->core, &event)) {
        switch (event.kind) {
        case CADRE_PS_SESSION:
            cadre_shard_begin_session(self->shard, event.index, event.epoch,
                                      coordinator.incarnation, &self->effects);
            take_loads(self);
            break;
        case CADRE_PS_MESSAGE:
            give(self, CADRE_PLANE_CONTROL, &coordinator, &event.message);
            break;
        case CADRE_PS_MALFORMED:
            cadre_shard_malformed(self->shard);
            break;
        case CADRE_PS_LEFT:
        case CADRE_PS_REFUSED:
            cadre_ps_core_return(self->core, self->now_ms);
            break;
        case CADRE_PS_ABANDON:
        case CADRE_PS_REDIAL:
        case CADRE_PS_PROBE:
            break;
        }
    }
    fuzz_drain(cadre_ps_core_outbox(self->core));
}

static void
tell_control(target_t *self, cadre_message_t *message)
{
    cadre_message_t received;
    if (fuzz_wire(message, &received)) {
        cadre_ps_core_receive(self->core, &received, self->now_ms);
    }
    take_events(self);
}

/* --- what is said --- */

static cadre_message_t
of_coordinator(cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .request = 1, .incarnation = COORDINATOR, .epoch = EPOCH};
}

/* A table of few rows at the most, which it refuses or evicts. */
static void
begin_table(target_t *self)
{
    static const uint64_t shape[] = {DIM};
    static const double rate[] = {1};
    static const double numbers[2] = {0};
    const uint64_t policy = 1 + fuzz_byte(&self->fuzz) % 3;
    /* seldom, since a sketch has a megabyte */
    const uint64_t admit_after = fuzz_byte(&self->fuzz) % 16 == 15 ? 2 : 0;
    const uint64_t table[] = {CADRE_F32, 0, admit_after, KEYS + 2, policy, 0};
    cadre_message_t message = of_coordinator(CADRE_MESSAGE_CREATE);
    message.create = (cadre_create_message_t){.variable = TABLE,
                                              .name = FUZZ_WORDS[TABLE],
                                              .partitions = 1,
                                              .dtype = CADRE_F32,
                                              .shape = {shape, 1},
                                              .initializer = CADRE_INITIALIZER_ZEROS,
                                              .optimizer = CADRE_OPTIMIZER_SGD,
                                              .optimizer_parameters = {rate, 1},
                                              .generation = 1,
                                              .table = {table, CADRE_COUNT_OF(table)},
                                              .table_numbers = {numbers, 2}};
    tell_control(self, &message);
}

/* A member with four variables of 2 x 2, of different dtypes and optimizers, and a table. */
static void
begin(target_t *self)
{
    static const uint64_t shape[] = {2, 2};
    static const double sgd[] = {1};
    static const double adam[] = {0.1, 0.9, 0.99, 1e-7};
    static const double lambda[] = {0.5};
    static const cadre_f64s_t parameters[VARIABLES] = {{sgd, 1}, {adam, 4}, {sgd, 1}, {NULL, 0}};
    static const uint64_t optimizers[VARIABLES] = {CADRE_OPTIMIZER_SGD, CADRE_OPTIMIZER_ADAM,
                                                   CADRE_OPTIMIZER_SGD, CADRE_OPTIMIZER_ADD};
    cadre_ps_core_connected(self->core, self->now_ms);
    cadre_message_t message = of_coordinator(CADRE_MESSAGE_WELCOME);
    message.welcome =
        (cadre_welcome_message_t){.job = "j", .heartbeat_ms = 1000, .resend_ms = 500, .shards = 1};
    tell_control(self, &message);
    message = of_coordinator(CADRE_MESSAGE_RESTORE);
    message.restore = (cadre_restore_message_t){.path = "", .cut = 1, .generation = 1};
    tell_control(self, &message);
    for (uint64_t i = 0; i < VARIABLES; i++) {
        message = of_coordinator(CADRE_MESSAGE_CREATE);
        message.create = (cadre_create_message_t){.variable = i + 1,
                                                  .name = FUZZ_WORDS[i + 1],
                                                  .partitions = 1,
                                                  .dtype = i == 3 ? CADRE_I64 : CADRE_F32,
                                                  .wire = i == 2 ? CADRE_BF16 : 0,
                                                  .shape = {shape, 2},
                                                  .rows = 2,
                                                  .initializer = CADRE_INITIALIZER_ZEROS,
                                                  .optimizer = optimizers[i],
                                                  .optimizer_parameters = parameters[i],
                                                  .generation = 1,
                                                  .delay_compensation = {lambda, i == 0}};
        tell_control(self, &message);
    }
    begin_table(self);
}

/* Names rows of the first partitions instead of whole ones, half of the time: stretches, or ids in
 * the payload, few of which are out of range. */
static void
name_rows(target_t *self, const uint64_t *triples, size_t count, cadre_message_t *message,
          cadre_u64s_t *named)
{
    static uint64_t rows[16];
    static uint64_t ids[4];
    const unsigned how = fuzz_byte(&self->fuzz);
    *named = (cadre_u64s_t){rows, 0};
    if (how & 1) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        rows[4 * i] = triples[3 * i];
        rows[4 * i + 1] = triples[3 * i + 1];
        rows[4 * i + 2] = how & 2 ? CADRE_ROWS_LISTED : fuzz_byte(&self->fuzz) % 4;
        rows[4 * i + 3] = how & 2 ? 1 : fuzz_byte(&self->fuzz) % 3;
        ids[i] = fuzz_byte(&self->fuzz) % 3;
    }
    named->count = 4 * count - (how >> 2) % 32 / 31;
    while (message->chunk_count > 0) {
        cadre_chunk_unref(&message->chunks[--message->chunk_count]);
    }
    if (how & 2) {
        cadre_message_add_chunk(message, cadre_chunk_new_copy(ids, count * sizeof(*ids)));
    }
}

/* Says of the rows of a PULL that the asker holds them, half of the time; mostly of all of them. */
static void
hold_rows(target_t *self, size_t count, cadre_message_t *message)
{
    static uint64_t newest[4];
    uint16_t ages[4];
    const unsigned how = fuzz_byte(&self->fuzz);
    if (how & 1 || message->pull.rows.count == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        newest[i] = fuzz_byte(&self->fuzz) % 8;
        ages[i] = fuzz_byte(&self->fuzz) % 4;
    }
    message->pull.held = (cadre_u64s_t){newest, count - how / 8 % 16 / 15};
    cadre_message_add_chunk(message, cadre_chunk_new_copy(ages, count * sizeof(*ages) - how / 128));
}

/* Adds as many numbers for each record of an ASSIGN of rows as it has rows of two f32, mostly. */
static void
add_rows(target_t *self, cadre_message_t *message)
{
    static const float zeros[8] = {0};
    const cadre_u64s_t *rows = &message->assign.rows;
    for (size_t i = 0; i + 4 <= rows->count; i += 4) {
        size_t size_bytes = rows->items[i + 3] * 2 * sizeof(float);
        size_bytes += fuzz_byte(&self->fuzz) % 16 == 15 ? sizeof(float) : 0;
        cadre_message_add_chunk(message, cadre_chunk_new_copy(zeros, size_bytes));
    }
}

/* Makes an update of some keys of the table of a PUSH, half of the time: ascending, mostly. */
static void
push_keys(target_t *self, cadre_message_t *message)
{
    static uint64_t record[4];
    static const float zeros[KEYS * DIM];
    uint64_t keys[KEYS];
    const unsigned how = fuzz_byte(&self->fuzz);
    const size_t count = 1 + how / 2 % KEYS;
    if (how & 1) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t step = fuzz_byte(&self->fuzz) % 8;
        keys[i] = i == 0 ? step : keys[i - 1] + step;
    }
    while (message->chunk_count > 0) {
        cadre_chunk_unref(&message->chunks[--message->chunk_count]);
    }
    record[0] = TABLE;
    record[1] = how / 8 % 16 == 15;
    record[2] = how / 128;
    record[3] = count;
    message->push.partitions.count = 0;
    message->push.rows = (cadre_u64s_t){record, 4};
    cadre_message_add_chunk(message, cadre_chunk_new_copy(keys, count * sizeof(*keys)));
    cadre_message_add_chunk(message, cadre_chunk_new_copy(zeros, count * DIM * sizeof(*zeros)));
}

/* Most of what is drawn is refused at the fence: half of it is made to pass. */
static void
correct(target_t *self, cadre_message_t *message)
{
    static uint64_t triples[12];
    size_t count = 1 + fuzz_byte(&self->fuzz) % 4;
    uint64_t generation = cadre_shard_generation(self->shard);
    for (size_t i = 0; i < count; i++) {
        triples[3 * i] = 1 + fuzz_byte(&self->fuzz) % (TABLE + 1);
        triples[3 * i + 1] = fuzz_byte(&self->fuzz) % 8 == 7;
        triples[3 * i + 2] = fuzz_number(&self->fuzz, UINT64_MAX);
    }
    if (message->type == CADRE_MESSAGE_PULL) {
        message->pull.generation = generation;
        message->pull.partitions = (cadre_u64s_t){triples, 3 * count};
        message->pull.absence = triples[2] & 1;
        name_rows(self, triples, count, message, &message->pull.rows);
        hold_rows(self, count, message);
    } else if (message->type == CADRE_MESSAGE_PUSH) {
        message->push.generation = generation;
        message->push.partitions = (cadre_u64s_t){triples, 3 * count};
        push_keys(self, message);
    } else if (message->type == CADRE_MESSAGE_ASSIGN) {
        message->assign.generation = generation;
        message->assign.variable = triples[0];
        message->assign.partition = 0;
        name_rows(self, triples, count, message, &message->assign.rows);
        add_rows(self, message);
    } else if (message->type == CADRE_MESSAGE_CREATE) {
        message->create.generation = generation;
        message->create.shard = 0;
    } else if (message->type == CADRE_MESSAGE_SETTLE) {
        message->settle.generation = generation;
        message->settle.shard = 0;
    } else if (message->type == CADRE_MESSAGE_SNAPSHOT) {
        message->snapshot.generation = generation;
        message->snapshot.shard = 0;
    } else if (message->type == CADRE_MESSAGE_CLOSE_CUT) {
        message->close_cut.generation = generation;
        message->close_cut.shard = 0;
    } else if (message->type == CADRE_MESSAGE_RETIRE) {
        message->retire.generation = generation;
        message->retire.shard = 0;
    } else if (message->type == CADRE_MESSAGE_DROP) {
        message->drop.generation = generation;
        message->drop.shard = 0;
    } else if (message->type == CADRE_MESSAGE_END_STEP) {
        message->end_step.generation = generation;
        message->end_step.shard = 0;
    } else if (message->type == CADRE_MESSAGE_RESTORE) {
        message->restore.shard = 0;
    }
}

static void
say(target_t *self)
{
    static const cadre_task_t tasks[] = {{CADRE_ROLE_COORDINATOR, 0, COORDINATOR},
                                         {CADRE_ROLE_WORKER, 2, WORKER},
                                         {CADRE_ROLE_COORDINATOR, 777, 666},
                                         {CADRE_ROLE_PS, 0, PS}};
    fuzz_t *fuzz = &self->fuzz;
    unsigned how = fuzz_byte(fuzz);
    const cadre_task_t *from = &tasks[how % 4 < 2 ? how % 2 : fuzz_byte(fuzz) % 4];
    cadre_message_t message;
    cadre_message_t received;
    if (!fuzz_message(fuzz, from->role, &message)) {
        return;
    }
    if (how & 8) {
        correct(self, &message);
    }
    message.request = fuzz_number(fuzz, UINT64_MAX);
    message.incarnation = how & 16 ? from->incarnation : fuzz_number(fuzz, UINT64_MAX);
    message.epoch = how & 32 ? EPOCH : fuzz_number(fuzz, UINT64_MAX);
    if (message.chunk_count == 0 ||
        how >= 240) { /* what was made to pass keeps its payload, mostly */
        fuzz_chunks(fuzz, &message);
    }
    if (from->role == CADRE_ROLE_COORDINATOR &&
        cadre_message_plane(message.type) == CADRE_PLANE_CONTROL) {
        tell_control(self, &message);
    } else if (fuzz_wire(&message, &received)) {
        give(self, how & 64 ? CADRE_PLANE_DATA : CADRE_PLANE_CONTROL, from, &received);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t pauses_ms[] = {0, 1, 499, 1000, 5001, 600001};
    cadre_ps_options_t ps = {
        .session = {.task = {CADRE_ROLE_PS, CADRE_INDEX_ANY, PS}, .build = "1", .host = "h"},
        .address = "tcp://127.0.0.1:1"};
    cadre_shard_options_t options = {
        .incarnation = PS, .size_bytes_max = SIZE_MAX_BYTES, .step_bytes = STEP_BYTES};
    target_t *self = cadre_calloc(1, sizeof(*self));
    self->fuzz.at = data;
    self->fuzz.end = data + size;
    self->now_ms = 1000;
    self->core = cadre_ps_core_new(&ps);
    self->shard = cadre_shard_new(&options);
    begin(self);
    while (fuzz_more(&self->fuzz)) {
        unsigned step = fuzz_byte(&self->fuzz) % 16;
        if (step < 13) {
            say(self);
        } else if (step == 13) {
            carry_out(self);
        } else if (step == 14) {
            self->now_ms += pauses_ms[fuzz_byte(&self->fuzz) % CADRE_COUNT_OF(pauses_ms)];
            cadre_ps_core_tick(self->core, self->now_ms);
            take_events(self);
        } else {
            cadre_ps_core_connected(self->core, self->now_ms);
            take_events(self);
        }
    }
    for (size_t i = 0; i < self->load_count; i++) {
        cadre_checkpoint_load_destroy(&self->loads[i]);
    }
    cadre_shard_effects_fini(&self->effects);
    cadre_shard_destroy(&self->shard);
    cadre_ps_core_destroy(&self->core);
    free(self);
    return 0;
}
