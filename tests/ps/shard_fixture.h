/*
 * shard_fixture - a shard with somebody to talk to: questions go in, decoded answers come out.
 */
#ifndef CADRE_TESTS_PS_SHARD_FIXTURE_H
#define CADRE_TESTS_PS_SHARD_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "ps/core/shard.h"

enum {
    PS = 7, /* incarnations */
    COORDINATOR = 8,
    WORKER = 9,
    EPOCH = 3,
    GENERATION = 5,
};

static const cadre_task_t THE_COORDINATOR = {CADRE_ROLE_COORDINATOR, 0, COORDINATOR};
static const cadre_task_t THE_WORKER = {CADRE_ROLE_WORKER, 2, WORKER};

typedef struct {
    cadre_shard_t *shard;
    cadre_loader_t loader; /* what loads are carried out with, at once */
    bool late;             /* they are not: carry_out_loads does it */
    cadre_shard_effects_t effects;
    uint64_t request;
    uint64_t incarnation; /* of the ps; 0: PS */
} fixture_t;

/* Carries out what the shard wants of checkpoints. */
static inline void
carry_out_loads(fixture_t *self)
{
    static const cadre_lanes_t none = {NULL, NULL};
    cadre_checkpoint_load_t *load = NULL;
    while ((load = cadre_shard_effects_take_load(&self->effects))) {
        if (load->number >= self->effects.loads_from) {
            cadre_checkpoint_load_run(load, &self->loader, &none, NULL);
        }
        cadre_shard_loaded(self->shard, &load, &self->effects.outbox);
    }
}

static inline cadre_message_t
question(cadre_message_type_t type, const cadre_task_t *from)
{
    return (cadre_message_t){.type = type, .incarnation = from->incarnation, .epoch = EPOCH};
}

/* Puts `message` in and takes the one answer out, into `answer`. */
static inline void
ask(fixture_t *self, const cadre_task_t *from, cadre_message_t *message, cadre_message_t *answer)
{
    cadre_plane_t plane = cadre_message_plane(message->type);
    message->request = ++self->request;
    cadre_shard_receive(self->shard, plane, from, message, &self->effects);
    if (!self->late) {
        carry_out_loads(self);
    }
    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(&self->effects.outbox, &entry), "a question is answered");
    cr_assert_eq(cadre_outbox_count(&self->effects.outbox), 0, "once");
    cr_assert_eq(entry.plane, plane, "on the plane it came on");
    cr_assert(cadre_task_equal(&entry.destination, from));
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), entry.chunks,
                                      entry.chunk_count, answer),
                 0, "%s", cadre_error_text());
    cr_assert_eq(answer->request, self->request, "under its request id");
    cr_assert_eq(answer->incarnation, self->incarnation ? self->incarnation : PS);
    cadre_outbox_entry_fini(&entry);
}

/* The same for a question that REPLY answers: its status. */
static inline int
reply_to(fixture_t *self, const cadre_task_t *from, cadre_message_t *message)
{
    cadre_message_t answer;
    ask(self, from, message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_REPLY);
    cr_assert_eq(answer.reply.counters.count, CADRE_PS_COUNTER_COUNT);
    cr_assert_arr_eq(answer.reply.counters.items, cadre_shard_counters(self->shard),
                     CADRE_PS_COUNTER_COUNT * sizeof(uint64_t));
    int status = -(int)answer.reply.status;
    cadre_message_fini(&answer);
    return status;
}

static inline int
restore(fixture_t *self, const char *path, uint64_t cut, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_RESTORE, &THE_COORDINATOR);
    message.restore = (cadre_restore_message_t){.path = path, .cut = cut, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* SNAPSHOT; the status of SNAPSHOT_TAKEN. */
static inline int
open_cut(fixture_t *self, uint64_t checkpoint, uint64_t cut, uint64_t generation)
{
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_SNAPSHOT, &THE_COORDINATOR);
    message.snapshot =
        (cadre_snapshot_message_t){.checkpoint = checkpoint, .cut = cut, .generation = generation};
    ask(self, &THE_COORDINATOR, &message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    cr_assert_eq(answer.snapshot_taken.checkpoint, checkpoint);
    int status = -(int)answer.snapshot_taken.status;
    cadre_message_fini(&answer);
    return status;
}

/* CLOSE_CUT, to be written to `directory`. */
static inline int
close_cut(fixture_t *self, uint64_t checkpoint, uint64_t cut, const char *directory,
          uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_CLOSE_CUT, &THE_COORDINATOR);
    message.close_cut = (cadre_close_cut_message_t){
        .checkpoint = checkpoint, .cut = cut, .directory = directory, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* CREATE of one partition, f32, of `rows` rows of `columns`, beginning at 1, under sgd with
 * learning rate 1. */
static inline cadre_create_message_t
create_message(uint64_t variable, uint64_t rows, uint64_t columns, uint64_t *shape)
{
    static const double one[] = {1};
    shape[0] = rows;
    shape[1] = columns;
    return (cadre_create_message_t){.variable = variable,
                                    .name = variable == 1 ? "weights" : "other",
                                    .partitions = 1,
                                    .dtype = CADRE_F32,
                                    .shape = {shape, 2},
                                    .rows = rows,
                                    .initializer = CADRE_INITIALIZER_CONSTANT,
                                    .initializer_parameters = {one, 1},
                                    .optimizer = CADRE_OPTIMIZER_SGD,
                                    .optimizer_parameters = {one, 1},
                                    .generation = GENERATION};
}

static inline int
create(fixture_t *self, const cadre_create_message_t *create)
{
    cadre_message_t message = question(CADRE_MESSAGE_CREATE, &THE_COORDINATOR);
    message.create = *create;
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* A shard in a session, restored to initial values, with variable 1 of 300,000 elements (two
 * chunks: 262,144 and 37,856) and variable 2 of 4. */
enum { ROWS = 300, COLUMNS = 1000, CHUNK_ROWS = 262 };

static inline fixture_t
open_shard(const cadre_loader_t *loader)
{
    fixture_t self = {.request = 100};
    cadre_shard_options_t options = {.incarnation = PS, .size_bytes_max = 64 << 20};
    if (loader) {
        self.loader = *loader;
    }
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    return self;
}

static inline void
fill_shard(fixture_t *self)
{
    uint64_t shape[2];
    cr_assert_eq(restore(self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, ROWS, COLUMNS, shape);
    cr_assert_eq(create(self, &message), 0);
    message = create_message(2, 2, 2, shape);
    cr_assert_eq(create(self, &message), 0);
}

static inline fixture_t
open_filled_shard(void)
{
    fixture_t self = open_shard(NULL);
    fill_shard(&self);
    return self;
}

static inline void
close_shard(fixture_t *self)
{
    cr_assert_eq(cadre_outbox_count(&self->effects.outbox), 0);
    cadre_shard_effects_fini(&self->effects);
    cadre_shard_destroy(&self->shard);
    if (self->loader.close) {
        self->loader.close(self->loader.context);
    }
}

static inline cadre_chunk_t *
new_floats(size_t count, float value)
{
    cadre_chunk_t *chunk = cadre_chunk_new(count * sizeof(float));
    float *numbers = cadre_chunk_data(chunk);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = value;
    }
    return chunk;
}

/* The gradient of variable 1, all `value`. */
static inline void
add_big_gradient(cadre_message_t *message, float value)
{
    cadre_message_add_chunk(message, new_floats(CHUNK_ROWS * COLUMNS, value));
    cadre_message_add_chunk(message, new_floats((ROWS - CHUNK_ROWS) * COLUMNS, value));
}

/* A PUSH of both variables; `triples` has room for 6. */
static inline cadre_message_t
push_message(uint64_t update, uint64_t version, float value, uint64_t *triples)
{
    uint64_t both[] = {1, 0, version, 2, 0, version};
    memcpy(triples, both, sizeof(both));
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){
        .update = update, .attempt = 1, .generation = GENERATION, .partitions = {triples, 6}};
    add_big_gradient(&message, value);
    cadre_message_add_chunk(&message, new_floats(4, value));
    return message;
}

/* Sends a PUSH; its status. */
static inline int
push(fixture_t *self, cadre_message_t *message)
{
    cadre_message_t answer;
    uint64_t update = message->push.update;
    ask(self, &THE_WORKER, message, &answer);
    cr_assert_eq(answer.type, CADRE_MESSAGE_APPLIED);
    cr_assert_eq(answer.applied.update, update);
    int status = -(int)answer.applied.status;
    cr_assert((status == 0 || status == CADRE_EDUPLICATE) == (answer.applied.text[0] == '\0'));
    cadre_message_fini(&answer);
    return status;
}

static inline int
push_both(fixture_t *self, uint64_t update, uint64_t version, float value)
{
    uint64_t triples[6];
    cadre_message_t message = push_message(update, version, value, triples);
    return push(self, &message);
}

/* PULL of variable 1; the caller ends `answer`. */
static inline void
pull(fixture_t *self, uint64_t variable, uint64_t held, cadre_message_t *answer)
{
    uint64_t triples[] = {variable, 0, held};
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .partitions = {triples, 3}};
    ask(self, &THE_WORKER, &message, answer);
    cr_assert_eq(answer->type, CADRE_MESSAGE_VALUES);
}

/* True when every float of the chunks is `value`. */
static inline bool
all_are(cadre_chunk_t *const *chunks, size_t count, float value)
{
    for (size_t k = 0; k < count; k++) {
        const float *numbers = cadre_chunk_data(chunks[k]);
        for (size_t i = 0; i < cadre_chunk_size_bytes(chunks[k]) / sizeof(float); i++) {
            if (numbers[i] != value) {
                return false;
            }
        }
    }
    return count > 0;
}

/* What variable 1 is made of, all over. */
static inline bool
values_are(fixture_t *self, uint64_t variable, float value)
{
    cadre_message_t answer;
    pull(self, variable, 0, &answer);
    cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
    bool same = all_are(answer.chunks, answer.chunk_count, value);
    cadre_message_fini(&answer);
    return same;
}

static inline uint64_t
counter(const fixture_t *self, int which)
{
    return cadre_shard_counters(self->shard)[which];
}

#define COUNTER(self, name) counter(self, CADRE_PS_COUNTER_##name)

#endif
