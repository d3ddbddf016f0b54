/*
 * chunk_test - one writer publishes values, readers on other threads look at them: no reader may
 * see a value change or be torn, and ThreadSanitizer must see no race.
 *
 * It plays a shard's life: the writer writes in place while it is alone and publishes a fresh chunk
 * while it is not. The queues between the threads are the only lock.
 */
#include "common/tensor/chunk.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 3, ROUNDS = 20000, WORDS = 64, QUEUE_SIZE = 8 };

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    cadre_chunk_t *items[QUEUE_SIZE];
    size_t count;
    bool closed;
    size_t seen;
} queue_t;

static void
expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        abort();
    }
}

/* Hands one reference over; drops it when the reader is behind, as a shard must not wait for it. */
static void
queue_put(queue_t *self, cadre_chunk_t **chunk_p)
{
    pthread_mutex_lock(&self->lock);
    if (self->count < QUEUE_SIZE) {
        self->items[self->count++] = *chunk_p;
        *chunk_p = NULL;
        pthread_cond_signal(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    cadre_chunk_unref(chunk_p);
}

/* The oldest chunk, or NULL once the queue is closed and empty. */
static cadre_chunk_t *
queue_take(queue_t *self)
{
    cadre_chunk_t *chunk = NULL;
    pthread_mutex_lock(&self->lock);
    while (self->count == 0 && !self->closed) {
        pthread_cond_wait(&self->changed, &self->lock);
    }
    if (self->count > 0) {
        chunk = self->items[0];
        self->count--;
        memmove(self->items, self->items + 1, self->count * sizeof(self->items[0]));
    }
    pthread_mutex_unlock(&self->lock);
    return chunk;
}

static void
queue_close(queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->closed = true;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static void *
reader_run(void *argument)
{
    queue_t *queue = argument;
    uint64_t last = 0;
    cadre_chunk_t *chunk;
    while ((chunk = queue_take(queue)) != NULL) {
        const uint64_t *words = cadre_chunk_data(chunk);
        uint64_t first = words[0];
        for (int i = 1; i < WORDS; i++) {
            expect(words[i] == first, "a reader sees one value in all words");
        }
        expect(first >= last, "values only get newer");
        last = first;
        queue->seen++;
        cadre_chunk_unref(&chunk);
    }
    return NULL;
}

/* Publishes value `round`: in place while nobody else holds the chunk. Returns whether it was. */
static bool
publish(cadre_chunk_t **current_p, uint64_t round)
{
    bool alone = cadre_chunk_alone(*current_p);
    if (!alone) {
        cadre_chunk_unref(current_p);
        *current_p = cadre_chunk_new(WORDS * sizeof(uint64_t));
    }
    uint64_t *words = cadre_chunk_data(*current_p);
    for (int i = 0; i < WORDS; i++) {
        words[i] = round;
    }
    return alone;
}

int
main(void)
{
    queue_t queues[READERS] = {0};
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        expect(pthread_create(&threads[i], NULL, reader_run, &queues[i]) == 0, "a thread starts");
    }

    cadre_chunk_t *current = cadre_chunk_new(WORDS * sizeof(uint64_t));
    size_t in_place = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        in_place += publish(&current, round);
        /* Every other round nobody pulls, so that both ways of writing are taken. */
        if (round % 2 == 0) {
            cadre_chunk_t *reference = cadre_chunk_ref(current);
            queue_put(&queues[round / 2 % READERS], &reference);
        }
    }

    size_t seen = 0;
    for (int i = 0; i < READERS; i++) {
        queue_close(&queues[i]);
        pthread_join(threads[i], NULL);
        pthread_cond_destroy(&queues[i].changed);
        pthread_mutex_destroy(&queues[i].lock);
        seen += queues[i].seen;
    }
    expect(cadre_chunk_alone(current), "every reference of a reader is gone");
    cadre_chunk_unref(&current);
    printf("%d rounds, %zu written in place, %zu seen by readers\n", ROUNDS, in_place, seen);
    expect(in_place > 0 && in_place < ROUNDS && seen > 0, "both ways of writing were taken");
    return 0;
}
