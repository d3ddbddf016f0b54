#include "common/wire/outbox.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/wire/codec.h"

TestSuite(outbox, .timeout = 240);

static const cadre_task_t worker = {CADRE_ROLE_WORKER, 3, 77};

static void
send_settle(cadre_outbox_t *outbox, uint64_t base)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SETTLE, .settle = {.base = base}};
    cadre_outbox_send(outbox, &worker, &message);
}

static uint64_t
base_of(const cadre_outbox_entry_t *entry)
{
    cadre_message_t message = {.storage = NULL};
    int status =
        cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             entry->chunks, entry->chunk_count, &message);
    cr_assert_eq(status, 0);
    cr_assert_eq(message.type, CADRE_MESSAGE_SETTLE);
    uint64_t base = message.settle.base;
    cadre_message_fini(&message);
    return base;
}

static uint64_t
pop_base(cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(outbox, &entry));
    uint64_t base = base_of(&entry);
    cadre_outbox_entry_fini(&entry);
    return base;
}

Test(outbox, gives_messages_back_in_order)
{
    cadre_auto(cadre_outbox_fini) cadre_outbox_t outbox = {.count = 0};
    cadre_outbox_entry_t none = {.type = CADRE_MESSAGE_STOP};
    cr_assert_not(cadre_outbox_pop(&outbox, &none));
    cr_assert_eq(none.type, CADRE_MESSAGE_STOP);
    uint64_t in = 0;
    uint64_t out = 0;
    for (int round = 0; round < 50; round++) { /* the ring wraps and grows on the way */
        for (int i = 0; i < 7; i++) {
            send_settle(&outbox, in++);
        }
        for (int i = 0; i < 5; i++) {
            cr_assert_eq(pop_base(&outbox), out++);
        }
        cr_assert_eq(cadre_outbox_count(&outbox), in - out);
    }
    while (out < in) {
        cr_assert_eq(pop_base(&outbox), out++);
    }
    cr_assert_not(cadre_outbox_pop(&outbox, &none));
    send_settle(&outbox, 1); /* dropped by fini */
}

Test(outbox, takes_an_entry_back_in_front)
{
    cadre_auto(cadre_outbox_fini) cadre_outbox_t outbox = {.count = 0};
    for (uint64_t i = 0; i < 16; i++) {
        send_settle(&outbox, i);
    }
    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(&outbox, &entry));
    send_settle(&outbox, 16); /* the ring is full again */
    cadre_outbox_push_front(&outbox, &entry);
    cr_assert_null(entry.header);
    cr_assert_eq(cadre_outbox_count(&outbox), 17);
    for (uint64_t i = 0; i < 17; i++) {
        cr_assert_eq(pop_base(&outbox), i);
    }
}

Test(outbox, takes_an_entry_back_when_empty_and_unused)
{
    cadre_auto(cadre_outbox_fini) cadre_outbox_t outbox = {.count = 0};
    cadre_auto(cadre_outbox_fini) cadre_outbox_t other = {.count = 0};
    send_settle(&outbox, 5);
    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(&outbox, &entry));
    cadre_outbox_push_front(&other, &entry);
    cr_assert_eq(pop_base(&other), 5);
}

Test(outbox, encodes_at_once_and_moves_the_chunks)
{
    cadre_auto(cadre_outbox_fini) cadre_outbox_t outbox = {.count = 0};
    char *name = cadre_strdup("weights");
    cadre_chunk_t *chunk = cadre_chunk_new_copy("abc", 3);
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET, .dataset = {.id = 9, .name = name}};
    cadre_message_add_chunk(&message, cadre_chunk_ref(chunk));
    cadre_outbox_send(&outbox, &worker, &message);
    cr_assert_null(message.chunks);
    cr_assert_eq(message.chunk_count, 0);
    memset(name, 'x', strlen(name));
    free(name);

    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(&outbox, &entry));
    cr_assert(cadre_task_equal(&entry.destination, &worker));
    cr_assert_eq(entry.plane, CADRE_PLANE_CONTROL);
    cr_assert_eq(entry.type, CADRE_MESSAGE_DATASET);
    cr_assert_eq(entry.chunk_count, 1);
    cr_assert_eq(entry.chunks[0], chunk);
    cadre_message_t back;
    int status = cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), entry.chunks, 1, &back);
    cr_assert_eq(status, 0);
    cr_assert_str_eq(back.dataset.name, "weights");
    cr_assert_eq(back.chunks[0], chunk);
    cadre_message_fini(&back);
    cadre_outbox_entry_fini(&entry);
    cr_assert(cadre_chunk_alone(chunk));
    cadre_chunk_unref(&chunk);
}

Test(outbox, drops_its_references_at_the_end)
{
    cadre_outbox_t outbox = {.count = 0};
    cadre_chunk_t *chunk = cadre_chunk_new(8);
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    cadre_message_add_chunk(&message, cadre_chunk_ref(chunk));
    cadre_outbox_send(&outbox, &worker, &message);
    cr_assert_not(cadre_chunk_alone(chunk));
    cadre_outbox_fini(&outbox);
    cr_assert(cadre_chunk_alone(chunk));
    cadre_chunk_unref(&chunk);
    cadre_outbox_fini(&outbox); /* harmless again */
}

Test(outbox, sends_values_on_the_data_plane_and_replies_where_told)
{
    cadre_auto(cadre_outbox_fini) cadre_outbox_t outbox = {.count = 0};
    cadre_message_t pull = {.type = CADRE_MESSAGE_PULL};
    cadre_outbox_send(&outbox, &worker, &pull);
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY};
    cadre_outbox_send(&outbox, &worker, &reply);
    cadre_outbox_send_on(&outbox, CADRE_PLANE_DATA, &worker, &reply);
    static const cadre_plane_t planes[] = {CADRE_PLANE_DATA, CADRE_PLANE_CONTROL, CADRE_PLANE_DATA};
    for (size_t i = 0; i < CADRE_COUNT_OF(planes); i++) {
        cadre_outbox_entry_t entry;
        cr_assert(cadre_outbox_pop(&outbox, &entry));
        cr_assert_eq(entry.plane, planes[i]);
        cadre_outbox_entry_fini(&entry);
    }
}
