#include "coordinator/core/catalogue/definitions.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/codec.h"

TestSuite(definitions, .timeout = 240);

static const cadre_message_t envelope = {.incarnation = 7, .epoch = 8};
static const cadre_task_t first_worker = {CADRE_ROLE_WORKER, 0, 100};
static const cadre_task_t second_worker = {CADRE_ROLE_WORKER, 1, 101};

static void
add(cadre_definitions_t *self, uint64_t id)
{
    char name[64];
    snprintf(name, sizeof(name), "model.encoder.layer_%d.attention.query.kernel", (int)id);
    static const uint64_t shape[] = {4};
    static const uint64_t shards[] = {0};
    cadre_message_t message = envelope;
    message.type = CADRE_MESSAGE_VARIABLE;
    message.variable = (cadre_variable_message_t){.id = id,
                                                  .name = name,
                                                  .dtype = CADRE_F32,
                                                  .shape = {shape, 1},
                                                  .partitions = 1,
                                                  .shards = {shards, 1}};
    cadre_definitions_add(self, &message);
}

/* Takes the message's records as a worker would, which has `has` of them; how many it has then.
 * Their ids are their numbers here. */
static uint64_t
take(const cadre_message_t *message, uint64_t has)
{
    const char *bytes = cadre_chunk_data(message->chunks[0]);
    uint64_t number = message->definitions.first;
    cr_expect_leq(number, has, "no gap");
    for (size_t at = 0; at < cadre_chunk_size_bytes(message->chunks[0]);) {
        cadre_message_t variable;
        uint32_t size_bytes;
        memcpy(&size_bytes, bytes + at, sizeof(size_bytes));
        at += sizeof(size_bytes);
        cr_assert_eq(cadre_message_decode(bytes + at, size_bytes, NULL, 0, &variable), 0);
        cr_expect_eq(variable.variable.id, ++number);
        cadre_message_fini(&variable);
        at += size_bytes;
    }
    cr_expect_eq(number, message->definitions.first + message->definitions.count);
    return number > has ? number : has;
}

/* Gives what is in the outbox to a worker that has `*has`; the messages. */
static size_t
deliver(cadre_outbox_t *outbox, uint64_t *has)
{
    cadre_outbox_entry_t entry;
    size_t count = 0;
    for (; cadre_outbox_pop(outbox, &entry); count++) {
        cadre_message_t message = {.storage = NULL};
        cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                          cadre_chunk_size_bytes(entry.header), entry.chunks,
                                          entry.chunk_count, &message),
                     0);
        entry.chunk_count = 0;
        cadre_outbox_entry_fini(&entry);
        *has = take(&message, *has);
        cadre_message_fini(&message);
    }
    return count;
}

Test(definitions, a_worker_gets_all_of_them_in_few_messages)
{
    cadre_definitions_t self = {0};
    uint64_t has = 0;
    cadre_outbox_t outbox = {.entries = NULL};
    for (uint64_t id = 1; id <= 10000; id++) {
        add(&self, id);
    }
    cadre_definitions_send(&self, &envelope, &first_worker, 0, &outbox);
    size_t messages = deliver(&outbox, &has);
    cr_expect_eq(has, 10000);
    cr_expect_lt(messages, 10, "%zu messages", messages);
    cadre_definitions_fini(&self);
    cadre_outbox_fini(&outbox);
}

Test(definitions, from_any_place_on_a_worker_gets_the_rest)
{
    cadre_definitions_t self = {0};
    uint64_t has = 0;
    cadre_outbox_t outbox = {.entries = NULL};
    uint64_t id = 0;
    for (uint64_t step = 1; id < 9000; step = step * 3 % 1009) {
        for (uint64_t end = id + step; id < end;) {
            add(&self, ++id);
        }
        cadre_definitions_send(&self, &envelope, &first_worker, has, &outbox);
        cr_expect_leq(cadre_outbox_count(&outbox), 2);
        deliver(&outbox, &has);
        cr_assert_eq(has, id);
    }
    cr_expect_eq(cadre_definitions_send(&self, &envelope, &first_worker, id, &outbox), 0);
    cadre_definitions_fini(&self);
    cadre_outbox_fini(&outbox);
}

Test(definitions, all_workers_are_sent_the_same_bytes)
{
    cadre_definitions_t self = {0};
    cadre_outbox_t outbox = {.entries = NULL};
    for (uint64_t id = 1; id <= 5000; id++) {
        add(&self, id);
    }
    size_t count = cadre_definitions_send(&self, &envelope, &first_worker, 0, &outbox);
    cr_assert_eq(cadre_definitions_send(&self, &envelope, &second_worker, 0, &outbox), count);
    cadre_outbox_entry_t first[16];
    cr_assert_leq(count, 16);
    for (size_t i = 0; i < count; i++) {
        cadre_outbox_pop(&outbox, &first[i]);
        cr_expect_eq(first[i].destination.index, 0);
    }
    for (size_t i = 0; i < count; i++) {
        cadre_outbox_entry_t entry;
        cadre_outbox_pop(&outbox, &entry);
        cr_expect_eq(entry.destination.index, 1);
        cr_expect_eq(entry.chunks[0], first[i].chunks[0], "one chunk for both");
        cadre_outbox_entry_fini(&entry);
        cadre_outbox_entry_fini(&first[i]);
    }
    cadre_outbox_fini(&outbox);
    cadre_definitions_fini(&self);
}

Test(definitions, who_comes_later_gets_what_was_added_meanwhile)
{
    cadre_definitions_t self = {0};
    uint64_t has = 0;
    uint64_t later_has = 0;
    cadre_outbox_t outbox = {.entries = NULL};
    add(&self, 1);
    cadre_definitions_send(&self, &envelope, &first_worker, 0, &outbox);
    deliver(&outbox, &has);
    cr_assert_eq(has, 1);
    add(&self, 2);
    cadre_definitions_send(&self, &envelope, &second_worker, 0, &outbox);
    deliver(&outbox, &later_has);
    cr_expect_eq(later_has, 2);
    cadre_definitions_fini(&self);
    cadre_outbox_fini(&outbox);
}
