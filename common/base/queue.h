/*
 * queue - a first-in first-out queue of values of one size, such as the events of a core for its
 * shell.
 *
 * Owner:   whoever holds it.
 * Thread:  its owner's.
 *
 * The queue grows without a limit of its own: a core puts in a few values for each call, and its
 * shell empties the queue after every call. Values are copied as bytes; memory that they point to
 * is not freed by the queue.
 */
#ifndef CADRE_COMMON_BASE_QUEUE_H
#define CADRE_COMMON_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

/* A ring. */
typedef struct {
    unsigned char *items;
    size_t item_size; /* bytes of one value */
    size_t capacity;  /* 0 or a power of two */
    size_t first;
    size_t count;
} cadre_queue_t;

void cadre_queue_init(cadre_queue_t *self, size_t item_size);

/* Frees the queue's memory and zeroes the struct. Take out values that own memory before. */
void cadre_queue_fini(cadre_queue_t *self);

/* Appends a copy of the value at `item`. */
void cadre_queue_push(cadre_queue_t *self, const void *item);

/* Moves the oldest value to `item`; false, and `item` untouched, when there is none. */
bool cadre_queue_pop(cadre_queue_t *self, void *item);

#endif
