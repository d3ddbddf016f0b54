#include "common/net/shortcut.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(shortcut, .timeout = 60);

static const cadre_task_t worker = {CADRE_ROLE_WORKER, 3, 7};
static const cadre_task_t ps = {CADRE_ROLE_PS, 0, 9};

/* An empty entry for this ps. */
static cadre_outbox_entry_t
entry_to(const cadre_task_t *to)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_PROBE, .incarnation = worker.incarnation};
    cadre_outbox_entry_t entry = {.chunk_count = 0};
    cadre_outbox_entry_init(&entry, to, &message);
    return entry;
}

/* Counts its calls, and sends each entry back. */
static void
echo(void *context, const cadre_task_t *from, cadre_outbox_entry_t *entry, cadre_outbox_t *answers)
{
    int *calls = context;
    cr_expect(cadre_task_equal(from, &worker));
    (*calls)++;
    cadre_outbox_push(answers, entry);
}

Test(shortcut, carries_to_the_ps_that_is_open_and_to_no_other)
{
    int calls = 0;
    cadre_outbox_t answers = {.count = 0};
    cadre_outbox_entry_t entry = entry_to(&ps);
    cadre_shortcut_t *shortcut = cadre_shortcut_new();
    cadre_shortcut_lock(shortcut);
    cr_expect_not(cadre_shortcut_carry(shortcut, &worker, &entry, &answers));

    cadre_shortcut_open(shortcut, ps.incarnation + 1, echo, &calls);
    cr_expect_not(cadre_shortcut_carry(shortcut, &worker, &entry, &answers));
    cr_expect_eq(calls, 0);
    cr_expect_not_null(entry.header, "what is not carried stays the caller's");

    cadre_shortcut_open(shortcut, ps.incarnation, echo, &calls);
    cr_expect(cadre_shortcut_carry(shortcut, &worker, &entry, &answers));
    cr_expect_eq(calls, 1);
    cr_expect_null(entry.header);
    cr_expect_eq(cadre_outbox_count(&answers), 1);

    cadre_outbox_entry_t late = entry_to(&ps);
    cadre_shortcut_open(shortcut, 0, NULL, NULL);
    cr_expect_not(cadre_shortcut_carry(shortcut, &worker, &late, &answers));
    cadre_outbox_entry_fini(&late);
    cadre_outbox_fini(&answers);
    cadre_shortcut_unlock(shortcut);
    cadre_shortcut_destroy(&shortcut);
    cr_expect_null(shortcut);
}

Test(shortcut, is_nothing_where_nobody_is_hosted)
{
    cadre_outbox_t answers = {.count = 0};
    cadre_outbox_entry_t entry = entry_to(&ps);
    cadre_shortcut_t *none = NULL;
    cadre_shortcut_lock(none);
    cr_expect_not(cadre_shortcut_carry(none, &worker, &entry, &answers));
    cadre_shortcut_unlock(none);
    cadre_shortcut_destroy(&none);
    cadre_outbox_entry_fini(&entry);
}

typedef struct {
    cadre_shortcut_t *shortcut;
    bool is_answered; /* under the lock */
} question_t;

static void *
answer(void *argument)
{
    question_t *self = argument;
    cadre_shortcut_lock(self->shortcut); /* the asker waits, or this would not get the lock */
    self->is_answered = true;
    cadre_shortcut_answered(self->shortcut);
    cadre_shortcut_unlock(self->shortcut);
    return NULL;
}

Test(shortcut, lets_others_in_while_it_waits_for_an_answer)
{
    pthread_t thread;
    question_t question = {.shortcut = cadre_shortcut_new()};
    cadre_shortcut_lock(question.shortcut);
    cr_assert_eq(pthread_create(&thread, NULL, answer, &question), 0);
    while (!question.is_answered) {
        cadre_shortcut_wait(question.shortcut);
    }
    cadre_shortcut_unlock(question.shortcut);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cadre_shortcut_destroy(&question.shortcut);
}

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct {
    cadre_shortcut_t *shortcut;
    int count; /* under the lock */
} counter_t;

static void *
count(void *argument)
{
    counter_t *self = argument;
    for (int i = 0; i < ROUNDS; i++) {
        cadre_shortcut_lock(self->shortcut);
        volatile int before = self->count; /* another thread would come in between */
        self->count = before + 1;
        cadre_shortcut_unlock(self->shortcut);
    }
    return NULL;
}

Test(shortcut, lets_in_one_thread_at_a_time)
{
    pthread_t threads[THREADS];
    counter_t counter = {.shortcut = cadre_shortcut_new()};
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, count, &counter), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_expect_eq(counter.count, THREADS * ROUNDS);
    cadre_shortcut_destroy(&counter.shortcut);
}
