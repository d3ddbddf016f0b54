#include "common/base/queue.h"

#include <criterion/criterion.h>
#include <stdint.h>

TestSuite(queue, .timeout = 240);

typedef struct {
    uint64_t number;
    char letter;
} item_t;

Test(queue, gives_nothing_when_it_is_empty)
{
    cadre_queue_t queue;
    item_t item = {7, 'x'};
    cadre_queue_init(&queue, sizeof(item));
    cr_assert_not(cadre_queue_pop(&queue, &item));
    cr_assert_eq(item.number, 7);
    cadre_queue_fini(&queue);
}

Test(queue, gives_what_came_first_whatever_was_taken_before_it_grew)
{
    enum { COUNT = 1000 };
    cadre_queue_t queue;
    cadre_queue_init(&queue, sizeof(item_t));
    uint64_t pushed = 0;
    uint64_t popped = 0;
    item_t item;
    while (popped < COUNT) {
        for (int i = 0; i < 3; i++) {
            cadre_queue_push(&queue, &(item_t){pushed, (char)pushed});
            pushed++;
        }
        for (int i = 0; i < 2; i++) {
            cr_assert(cadre_queue_pop(&queue, &item));
            cr_assert_eq(item.number, popped);
            cr_assert_eq(item.letter, (char)popped);
            popped++;
        }
    }
    while (cadre_queue_pop(&queue, &item)) {
        cr_assert_eq(item.number, popped);
        popped++;
    }
    cr_assert_eq(popped, pushed);
    cadre_queue_fini(&queue);
}
