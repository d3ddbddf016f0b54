#include "worker/reader_link.h"

#include <criterion/criterion.h>

#include "common/net/actor.h"
#include "common/system/poll.h"

TestSuite(reader_link, .timeout = 240);

enum {
    DATASET = 3,
    ROWS = 2000,
    FEATURES = 16,
    FEW = 32,
    STOP_MS = 60000,
};

/* A reader whose one dataset is open, and the link to it. */
typedef struct {
    cadre_context_t *context;
    cadre_reader_actor_t *reader;
    cadre_reader_link_t link;
} stage_t;

static void *
take_answer(stage_t *self, uint32_t kind)
{
    void *socket = cadre_reader_actor_socket(self->reader);
    cadre_pipe_message_t message = {.pointer = NULL};
    while (cadre_pipe_receive(socket, &message) == CADRE_EAGAIN) {
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, -1);
    }
    cr_assert_eq(message.kind, kind);
    return message.pointer;
}

/* Has the dataset opened, whose row n has the label n; returns the answer's status. */
static uint64_t
open_dataset(stage_t *self)
{
    static float x[ROWS * FEATURES];
    static int32_t y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        y[i] = i;
    }
    cadre_dataset_entry_t entry = {.id = DATASET};
    cr_assert_eq(cadre_row_chunks_copy(x, y, ROWS, FEATURES, CADRE_I32, &entry.rows), 0);
    cadre_reader_link_open(&self->link, &entry);
    cadre_open_request_t *request =
        cadre_reader_link_opened(&self->link, take_answer(self, CADRE_READER_OPEN));
    cr_assert_not_null(request);
    const uint64_t status = request->ready.status;
    cadre_open_request_destroy(&request);
    return status;
}

static stage_t *
open_stage(void)
{
    stage_t *self = calloc(1, sizeof(*self));
    cr_assert_eq(cadre_context_open(&self->context), 0);
    cr_assert_eq(cadre_reader_actor_open(self->context, NULL, false, &self->reader), 0);
    cadre_reader_link_init(&self->link, cadre_reader_actor_socket(self->reader));
    cr_assert_eq(open_dataset(self), 0);
    return self;
}

static void
close_stage(stage_t *self)
{
    cadre_reader_link_fini(&self->link);
    cr_assert_eq(cadre_reader_actor_close(&self->reader, STOP_MS), 0);
    cadre_context_close(&self->context);
    free(self);
}

/* Has a closure's batch read: `count` rows from `first` on. */
static const cadre_load_t *
load(stage_t *self, uint64_t closure, uint64_t first, uint64_t count)
{
    const cadre_batch_rows_t rows = {.dataset = DATASET, .first = first, .count = count};
    cadre_run_t run = {.slot = 0};
    run.call.message.closure.id = closure;
    run.call.message.closure.batches = cadre_batch_rows_list(&rows, 1);
    return cadre_reader_link_load(&self->link, &run);
}

/* Takes back a load of the reader, which must be that closure's. */
static const cadre_load_t *
take_load(stage_t *self, uint64_t closure)
{
    const cadre_load_t *load =
        cadre_reader_link_loaded(&self->link, take_answer(self, CADRE_READER_LOAD));
    cr_assert_not_null(load);
    cr_expect_eq(load->closure, closure);
    return load;
}

static void
expect_rows(const cadre_load_t *load, int first, int count)
{
    cr_assert_not_null(load);
    cr_assert_eq(load->status, 0, "%s", load->text);
    cr_assert_eq(load->batches[0].y.shape[0], count);
    cr_expect_eq(((const int32_t *)load->batches[0].y.data)[0], first);
}

Test(reader_link, copies_a_few_rows_that_are_in_memory_itself)
{
    stage_t *stage = open_stage();
    expect_rows(load(stage, 1, 64, FEW), 64, FEW);
    cr_expect(cadre_reader_link_is_idle(&stage->link));
    cr_expect_not_null(cadre_reader_link_find(&stage->link, 1));
    cadre_reader_link_forget(&stage->link, 1);

    cr_expect_null(load(stage, 2, ROWS, FEW), "what fails is the reader's, which says why");
    cr_expect_lt(take_load(stage, 2)->status, 0);
    close_stage(stage);
}

Test(reader_link, leaves_what_comes_behind_a_large_batch_to_the_reader)
{
    stage_t *stage = open_stage();
    cr_expect_null(load(stage, 1, 0, ROWS));
    cr_expect_null(load(stage, 2, 5, FEW), "it would overtake the batch before it");
    expect_rows(take_load(stage, 1), 0, ROWS);
    expect_rows(take_load(stage, 2), 5, FEW);
    expect_rows(load(stage, 3, 7, FEW), 7, FEW);
    close_stage(stage);
}

Test(reader_link, reads_no_dataset_that_the_reader_closes)
{
    stage_t *stage = open_stage();
    cadre_reader_link_reset(&stage->link);
    cr_expect_null(load(stage, 1, 0, FEW), "it is of the session before");
    cr_expect_lt(take_load(stage, 1)->status, 0);

    cr_assert_eq(open_dataset(stage), 0);
    expect_rows(load(stage, 2, 0, FEW), 0, FEW);
    cr_assert_eq(open_dataset(stage), 0);
    expect_rows(load(stage, 3, 1, FEW), 1, FEW);
    close_stage(stage);
}
