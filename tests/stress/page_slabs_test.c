/*
 * page_slabs_test - one thread takes pages, fills them and hands them over; another looks at them
 * and drops them, which frees their places for the first: no page may be seen torn or given twice,
 * and ThreadSanitizer must see no race. Pages are handed over in batches of many slabs, and behind
 * each the taker gives memory back. It ends before the last pages are dropped.
 */
#include "ps/core/table/page_slabs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE_SIZE = 200 << 10, PER_SLAB = CADRE_HUGE_SIZE / PAGE_SIZE, LINE_SIZE = 64 };
enum { BATCH = 32 * PER_SLAB, ROUNDS = 13 * BATCH, QUEUE_SIZE = 16 };
enum { SLABS_MAX = BATCH / PER_SLAB + QUEUE_SIZE };

/* A ring of pages that were handed over; `put` and `taken` only grow. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    cadre_chunk_t *items[QUEUE_SIZE];
    size_t put;
    size_t taken;
} queue_t;

static void
expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        abort();
    }
}

static void
queue_put(queue_t *self, cadre_chunk_t *chunk)
{
    pthread_mutex_lock(&self->lock);
    while (self->put - self->taken == QUEUE_SIZE) {
        pthread_cond_wait(&self->changed, &self->lock);
    }
    self->items[self->put++ % QUEUE_SIZE] = chunk;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static cadre_chunk_t *
queue_take(queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    while (self->put == self->taken) {
        pthread_cond_wait(&self->changed, &self->lock);
    }
    cadre_chunk_t *chunk = self->items[self->taken++ % QUEUE_SIZE];
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    return chunk;
}

static void *
drop_pages(void *argument)
{
    queue_t *queue = argument;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        cadre_chunk_t *chunk = queue_take(queue);
        const uint64_t *words = cadre_chunk_data(chunk);
        for (size_t at = 0; at < PAGE_SIZE; at += LINE_SIZE) {
            expect(words[at / sizeof(*words)] == round, "a page is as it was handed over");
        }
        cadre_chunk_unref(&chunk);
    }
    return NULL;
}

/* Hands a batch over, and gives the memory of slabs back that it leaves. A few pages are not yet
 * dropped then. */
static void
hand_over(cadre_page_slabs_t *slabs, queue_t *queue, cadre_chunk_t **batch)
{
    for (size_t i = 0; i < BATCH; i++) {
        queue_put(queue, batch[i]);
    }
    for (size_t i = 0; i < cadre_page_slabs_count(slabs); i++) {
        cadre_page_slabs_trim(slabs, 8, 8);
    }
    expect(cadre_page_slabs_emptied(slabs) > 0, "memory is given back");
}

int
main(void)
{
    queue_t queue = {.put = 0};
    pthread_t thread;
    pthread_mutex_init(&queue.lock, NULL);
    pthread_cond_init(&queue.changed, NULL);
    expect(pthread_create(&thread, NULL, drop_pages, &queue) == 0, "a thread starts");

    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *batch[BATCH];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        cadre_chunk_t *chunk = cadre_page_slabs_take(slabs, 0);
        uint64_t *words = cadre_chunk_data(chunk);
        for (size_t at = 0; at < PAGE_SIZE; at += LINE_SIZE) {
            words[at / sizeof(*words)] = round;
        }
        batch[round % BATCH] = chunk;
        if (round % BATCH == BATCH - 1) {
            hand_over(slabs, &queue, batch);
        }
    }
    const size_t count = cadre_page_slabs_count(slabs);
    cadre_page_slabs_destroy(&slabs);

    pthread_join(thread, NULL);
    pthread_cond_destroy(&queue.changed);
    pthread_mutex_destroy(&queue.lock);
    printf("%d pages of %d bytes in %zu slabs\n", ROUNDS, PAGE_SIZE, count);
    expect(count <= SLABS_MAX, "places are used again");
    return 0;
}
