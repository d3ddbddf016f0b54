/* How a worker gets the rows of a dataset from memory: piece by piece, each asked for. */
#include "tests/worker/core_fixture.h"
#include "worker/core/worker_wants.h"

TestSuite(worker_datasets, .timeout = 240);

enum { PIECES = 3, ID = 9 };

/* DATASET: without rows (`piece` 0), or with a piece whose one chunk is its number. */
static void
tell(fixture_t *self, uint64_t piece)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET};
    message.dataset = (cadre_dataset_message_t){.id = ID,
                                                .name = "data",
                                                .features = 1,
                                                .label = CADRE_F32,
                                                .pieces = PIECES,
                                                .piece = piece};
    if (piece > 0) {
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(&piece, sizeof(piece)));
    }
    fixture_tell(self, message);
}

/* The pieces that the worker has asked for since the last call: one at most. 0: none. */
static uint64_t
wanted(fixture_t *self)
{
    cadre_message_t message;
    uint64_t piece = 0;
    if (take_message(self, CADRE_MESSAGE_WANT, -1, &message)) {
        cr_assert_eq(message.want.kind, CADRE_WANT_ROWS);
        cr_assert_eq(message.want.id, ID);
        piece = message.want.piece;
        cadre_message_fini(&message);
        cr_assert_not(take_message(self, CADRE_MESSAGE_WANT, -1, &message), "one at a time");
    }
    return piece;
}

Test(worker_datasets, asks_for_the_rows_piece_by_piece_and_opens_them_once)
{
    fixture_t self;
    cadre_worker_event_t event;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    tell(&self, 0);
    for (uint64_t piece = 1; piece <= PIECES; piece++) {
        cr_expect_eq(wanted(&self), piece);
        cr_expect_not(happened(&self, CADRE_WORKER_OPEN_DATASET));
        tell(&self, piece);
    }
    cr_expect_eq(wanted(&self), 0);
    cr_assert(take_event(&self, CADRE_WORKER_OPEN_DATASET, &event));
    cr_expect_eq(event.index, ID);

    cadre_dataset_entry_t *entry =
        cadre_directory_dataset(cadre_worker_core_directory(self.core), ID);
    cadre_row_chunks_t rows = cadre_dataset_entry_take_rows(entry);
    cr_assert_eq(rows.count, PIECES);
    for (uint64_t i = 0; i < PIECES; i++) {
        uint64_t number = 0;
        memcpy(&number, cadre_chunk_data(rows.chunks[i]), sizeof(number));
        cr_expect_eq(number, i + 1);
    }
    cadre_row_chunks_fini(&rows);

    tell(&self, PIECES); /* what comes twice, or late, opens nothing again */
    tell(&self, 0);
    cr_expect_eq(wanted(&self), 0);
    cr_expect_not(happened(&self, CADRE_WORKER_OPEN_DATASET));
    fixture_fini(&self);
}

Test(worker_datasets, asks_again_for_a_piece_that_was_lost_but_not_in_a_burst)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    tell(&self, 0);
    cr_expect_eq(wanted(&self), 1);
    tell(&self, 0); /* the coordinator asks each second, and may have waited in the connection */
    cr_expect_eq(wanted(&self), 0);
    self.now_ms += CADRE_WANT_RETRY_MS;
    tell(&self, 0);
    cr_expect_eq(wanted(&self), 1);
    tell(&self, 1);
    cr_expect_eq(wanted(&self), 2, "at once: a piece came");
    tell(&self, 1); /* the one that was asked for twice */
    cr_expect_eq(wanted(&self), 0);
    tell(&self, 3); /* not the next */
    tell(&self, 2);
    cr_expect_eq(wanted(&self), 3);
    cr_expect_not(happened(&self, CADRE_WORKER_OPEN_DATASET));
    fixture_fini(&self);
}
