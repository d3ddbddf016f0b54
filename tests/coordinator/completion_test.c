/* The lists and the descriptor of a completion queue. */
#include "coordinator/completion.h"

#include <criterion/criterion.h>
#include <poll.h>

TestSuite(completion, .timeout = 240);

typedef struct {
    cadre_gate_t *gate;
    cadre_completion_t *completion;
    cadre_completion_entry_t entries[3];
} stage_t;

/* Tells futures apart; nothing looks into them. */
static cadre_future_t *
future(stage_t *self, size_t i)
{
    return (cadre_future_t *)(void *)&self->entries[i];
}

static void
stage_open(stage_t *self)
{
    *self = (stage_t){.gate = NULL};
    cr_assert_eq(cadre_gate_open(&self->gate), 0);
    self->completion = cadre_completion_new(self->gate, NULL);
}

static void
stage_close(stage_t *self)
{
    cadre_gate_t *of_queue = self->gate;
    cadre_completion_free(self->completion);
    cadre_gate_unref(&of_queue);
    cadre_gate_unref(&self->gate);
}

static bool
is_readable(const cadre_completion_t *completion)
{
    struct pollfd item = {.fd = completion->fd, .events = POLLIN};
    return poll(&item, 1, 0) == 1;
}

Test(completion, gives_futures_in_the_order_in_which_they_finish)
{
    stage_t self;
    stage_open(&self);
    for (size_t i = 0; i < 3; i++) {
        cadre_completion_enter(self.completion, &self.entries[i], future(&self, i), i == 1);
    }
    cadre_completion_finish(&self.entries[2]);
    cadre_completion_finish(&self.entries[2]);
    cadre_completion_finish(&self.entries[0]);
    cr_expect_eq(cadre_completion_pop(self.completion), future(&self, 1));
    cr_expect_eq(cadre_completion_pop(self.completion), future(&self, 2));
    cr_expect_eq(cadre_completion_pop(self.completion), future(&self, 0));
    cr_expect_null(cadre_completion_pop(self.completion));
    stage_close(&self);
}

Test(completion, its_descriptor_is_readable_while_something_has_finished)
{
    stage_t self;
    stage_open(&self);
    for (size_t i = 0; i < 3; i++) {
        cadre_completion_enter(self.completion, &self.entries[i], future(&self, i), false);
    }
    cadre_completion_finish(&self.entries[0]);
    cr_assert_eq(cadre_completion_ensure_fd(self.completion), 0);
    cr_expect(is_readable(self.completion), "it was opened after the first had finished");
    cadre_completion_finish(&self.entries[1]);
    cadre_completion_pop(self.completion);
    cr_expect(is_readable(self.completion));
    cadre_completion_leave(&self.entries[1]);
    cr_expect_not(is_readable(self.completion), "the last that had finished was destroyed");
    cadre_completion_finish(&self.entries[2]);
    cr_expect(is_readable(self.completion));
    cadre_completion_pop(self.completion);
    cr_expect_not(is_readable(self.completion));
    stage_close(&self);
}

Test(completion, one_that_is_freed_leaves_its_futures)
{
    stage_t self;
    stage_open(&self);
    cadre_completion_enter(self.completion, &self.entries[0], future(&self, 0), false);
    cadre_completion_enter(self.completion, &self.entries[1], future(&self, 1), true);
    stage_close(&self);
    cr_expect_null(self.entries[0].completion);
    cr_expect_null(self.entries[1].completion);
    cadre_completion_finish(&self.entries[0]);
    cadre_completion_leave(&self.entries[1]);
}
