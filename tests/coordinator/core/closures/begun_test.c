#include "coordinator/core/closures/begun.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(begun, .timeout = 240);

static cadre_closure_t *
add(cadre_begun_t *self, uint32_t steps)
{
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->steps = steps;
    cadre_begun_add(self, closure);
    return closure;
}

Test(begun, gives_a_closure_as_many_ids_as_it_has_steps)
{
    cadre_begun_t self;
    cadre_begun_init(&self);
    cadre_closure_t *first = add(&self, 3);
    cadre_closure_t *second = add(&self, 1);
    cr_assert_eq(first->id, 1);
    cr_assert_eq(second->id, 4);
    cr_assert_eq(self.next_id, 5);
    cr_assert_eq(cadre_begun_find(&self, 4), second);
    cadre_begun_fini(&self);
    cadre_closure_destroy(&first);
    cadre_closure_destroy(&second);
}

Test(begun, knows_the_lowest_id_that_has_not_ended)
{
    cadre_begun_t self;
    cadre_begun_init(&self);
    cr_assert_null(cadre_begun_oldest(&self));
    cr_assert_eq(cadre_begun_lowest(&self), 1);
    cadre_closure_t *first = add(&self, 1);
    cadre_closure_t *second = add(&self, 1);
    cr_assert_eq(cadre_begun_oldest(&self), first);
    cadre_begun_end(&self, first);
    cr_assert_eq(cadre_begun_lowest(&self), 2);
    cr_assert_null(cadre_begun_find(&self, 1));
    cadre_begun_end(&self, second);
    cr_assert_eq(cadre_begun_lowest(&self), 3, "the next one");
    cadre_begun_fini(&self);
    cadre_closure_destroy(&first);
    cadre_closure_destroy(&second);
}

Test(begun, goes_on_where_a_checkpoint_was_cut)
{
    cadre_begun_t self;
    cadre_begun_init(&self);
    cadre_begun_resume(&self, 100, 40);
    cadre_closure_t *closure = add(&self, 1);
    cr_assert_eq(closure->id, 100);
    cr_assert_eq(self.total, 41);
    cadre_begun_fini(&self);
    cadre_closure_destroy(&closure);
}

Test(begun, numbers_closures_as_they_are_handed_out_and_not_as_they_got_their_ids)
{
    cadre_begun_t self;
    cadre_begun_init(&self);
    cadre_closure_t *first = add(&self, 3);
    cadre_closure_t *second = add(&self, 1);
    cr_assert_eq(cadre_begun_next_number(&self), 1);
    cadre_begun_hand_out(&self, second);
    cadre_closure_hand_to(second, 1);
    cr_assert_eq(second->number, 1);
    cr_assert_eq(cadre_begun_next_number(&self), 2);
    cr_assert(cadre_begun_has_untried(&self, 2));
    cr_assert_not(cadre_begun_has_untried(&self, 1), "no id is below 1");
    cadre_begun_hand_out(&self, first);
    cadre_closure_hand_to(first, 1);
    cr_assert_eq(first->number, 2);
    cr_assert_not(cadre_begun_has_untried(&self, self.next_id));
    cadre_begun_fini(&self);
    cadre_closure_destroy(&first);
    cadre_closure_destroy(&second);
}

Test(begun, tells_the_ids_of_closures_of_clients_from_the_others)
{
    cadre_begun_t self;
    cadre_begun_init(&self);
    cadre_closure_t *own = add(&self, 3);
    cr_assert_eq(self.of_clients, 0);
    cadre_closure_t *of_client = cadre_closure_new(1);
    of_client->steps = 2;
    of_client->group = cadre_closure_group_new_unpaced();
    cadre_begun_add(&self, of_client);
    cadre_closure_t *grouped = cadre_closure_new(1);
    grouped->group = cadre_closure_group_new(true);
    cadre_begun_add(&self, grouped);
    cr_assert_eq(self.next_id, 7);
    cr_assert_eq(self.of_clients, 2);
    cadre_begun_fini(&self);
    cadre_closure_destroy(&own);
    cadre_closure_destroy(&of_client);
    cadre_closure_destroy(&grouped);
}

Test(begun, counts_closures_of_the_program_that_had_an_id_and_failed)
{
    static const int ends[] = {0, CADRE_EFUNCTION, CADRE_ECANCELLED};
    cadre_begun_t self;
    cadre_begun_init(&self);
    for (size_t i = 0; i < CADRE_COUNT_OF(ends); i++) {
        cadre_closure_t *closure = add(&self, 1);
        closure->end_status = ends[i];
        cadre_begun_end(&self, closure);
        cadre_closure_destroy(&closure);
    }
    cr_assert_eq(self.failed, 2);
    cadre_closure_t *of_client = cadre_closure_new(1);
    of_client->group = cadre_closure_group_new_unpaced();
    of_client->end_status = CADRE_EFUNCTION;
    cadre_begun_add(&self, of_client);
    cadre_begun_end(&self, of_client);
    cr_assert_eq(self.failed, 2);
    cadre_closure_destroy(&of_client);
    cadre_begun_fini(&self);
}
