#include "coordinator/core/shards/repairs.h"

#include <criterion/criterion.h>

#include "common/base/status.h"

TestSuite(repairs, .timeout = 240);

enum { SHARDS = 2 };

typedef struct {
    cadre_catalogue_t catalogue;
    cadre_drops_t drops;
    cadre_replay_t replay;
    cadre_effects_t effects;
    cadre_repairs_t repairs;
} fixture_t;

static void
begin(fixture_t *self, uint32_t shard, uint64_t generation)
{
    static char path[] = "/checkpoints/7";
    const cadre_restore_point_t point = {.path = path, .id = 7, .cut = 100};
    const cadre_repair_order_t order = {.point = &point, .generation = generation, .base = 120};
    cadre_repairs_begin(&self->repairs, shard, &order);
}

static void
init(fixture_t *self)
{
    *self = (fixture_t){.drops = {.retired = 0}};
    cadre_effects_init(&self->effects, 77, 5, 1000);
    cadre_catalogue_init(&self->catalogue, SHARDS, false, 42);
    cadre_replay_init(&self->replay, true, false);
    cadre_repairs_init(&self->repairs,
                       &(cadre_repairs_links_t){.catalogue = &self->catalogue,
                                                .drops = &self->drops,
                                                .replay = &self->replay,
                                                .effects = &self->effects},
                       SHARDS);
    begin(self, 1, 3);
}

static void
fini(fixture_t *self)
{
    cadre_repairs_fini(&self->repairs);
    cadre_replay_fini(&self->replay);
    cadre_catalogue_fini(&self->catalogue);
    cadre_effects_fini(&self->effects);
}

/* Answers the request `number` of shard 1; returns whether it was one of the repairs. */
static bool
answer(fixture_t *self, uint64_t number, int status, cadre_refusal_t *refusal)
{
    cadre_message_t reply = {.type = CADRE_MESSAGE_REPLY, .request = number};
    reply.reply = (cadre_reply_message_t){.status = (uint64_t)-status, .text = "a flipped bit"};
    return cadre_repairs_on_answer(&self->repairs, 1, &reply, refusal);
}

Test(repairs, end_when_everything_was_answered)
{
    fixture_t self;
    cadre_refusal_t refusal;
    init(&self);
    cr_assert_eq(self.repairs.pending[1], 1);
    cr_assert_eq(self.repairs.pending[0], 0);
    cr_assert(answer(&self, self.repairs.requests.last, 0, &refusal));
    cr_assert_eq(refusal.status, 0);
    cr_assert_eq(self.repairs.pending[1], 0);
    cr_assert_not(answer(&self, 12345, 0, &refusal), "somebody else asked");
    fini(&self);
}

Test(repairs, tell_of_a_refusal_and_do_not_end)
{
    fixture_t self;
    cadre_refusal_t refusal;
    init(&self);
    cr_assert(answer(&self, self.repairs.requests.last, CADRE_ECORRUPT, &refusal));
    cr_assert_eq(refusal.status, CADRE_ECORRUPT);
    cr_assert_str_eq(refusal.text, "a flipped bit");
    cr_assert_eq(self.repairs.pending[1], 1);
    cr_assert_not(answer(&self, self.repairs.requests.last, 0, &refusal), "once");
    cr_assert_eq(refusal.status, 0);
    fini(&self);
}

Test(repairs, that_were_given_up_take_no_answer)
{
    fixture_t self;
    cadre_refusal_t refusal;
    init(&self);
    cadre_repairs_give_up(&self.repairs, 1);
    cr_assert(answer(&self, self.repairs.requests.last, CADRE_ECORRUPT, &refusal));
    cr_assert_eq(refusal.status, 0);
    cr_assert_eq(self.repairs.pending[1], 0);
    fini(&self);
}

Test(repairs, that_begin_anew_forget_what_was_asked_before)
{
    fixture_t self;
    cadre_refusal_t refusal;
    init(&self);
    uint64_t before = self.repairs.requests.last;
    begin(&self, 1, 4);
    cr_assert_not(answer(&self, before, 0, &refusal));
    cr_assert_eq(self.repairs.pending[1], 1);
    fini(&self);
}
