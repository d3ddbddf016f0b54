#include "worker/open_works.h"

#include <criterion/criterion.h>

TestSuite(open_works, .timeout = 240);

enum { PLACES = 3 };

Test(open_works, go_into_the_queue_at_the_end_of_a_turn_in_their_order)
{
    cadre_run_t runs[PLACES] = {{.slot = 2}, {.slot = 0}, {.slot = 1}};
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cadre_open_works_t works;
    cadre_open_works_init(&works, PLACES);
    for (size_t i = 0; i < PLACES; i++) {
        cr_expect_null(cadre_open_works_at(&works, runs[i].slot));
        cadre_work_t *work = cadre_open_works_start(&works, &runs[i]);
        cr_expect_eq(cadre_open_works_at(&works, runs[i].slot), work);
    }
    cr_expect_eq(works.count, PLACES);
    cr_expect_null(cadre_work_queue_clear(queue), "the turn has not ended");
    cadre_open_works_put(&works, queue);
    cadre_open_works_put(&works, queue); /* nothing was started since */
    for (size_t i = 0; i < PLACES; i++) {
        cadre_work_t *work = cadre_work_queue_take(queue, NULL);
        cr_assert_eq(work->run, &runs[i]);
        cadre_open_works_end(&works, work);
        cr_expect_null(cadre_open_works_at(&works, runs[i].slot));
        cadre_work_destroy(&work);
    }
    cr_expect_eq(works.count, 0);
    cadre_open_works_fini(&works);
    cadre_work_queue_destroy(&queue);
}

Test(open_works, of_the_next_turn_are_a_list_of_their_own)
{
    cadre_run_t runs[2] = {{.slot = 0}, {.slot = 1}};
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cadre_open_works_t works;
    cadre_open_works_init(&works, PLACES);
    for (size_t i = 0; i < 2; i++) {
        (void)cadre_open_works_start(&works, &runs[i]);
        cadre_open_works_put(&works, queue);
        cadre_work_t *work = cadre_work_queue_clear(queue);
        cr_assert_not_null(work);
        cr_expect_eq(work->run, &runs[i]);
        cr_expect_null(work->next);
        cr_expect_eq(works.count, 1, "also while it is on a slot");
        cadre_open_works_end(&works, work);
        cadre_work_destroy(&work);
    }
    cadre_open_works_fini(&works);
    cadre_work_queue_destroy(&queue);
}
