/*
 * queue - values of one size, first in, first out: what a core has for its shell to do.
 *
 * Owner:   whoever holds it.
 * Thread:  its owner's.
 *
 * It grows without a limit of its own: a core puts in a few values for each call, and its shell
 * empties it after every one. Values are copied as bytes; what they own is their owner's business.
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

/* Frees the ring and zeroes the struct; what is still in it is to be taken out before. */
void cadre_queue_fini(cadre_queue_t *self);

/* Appends a copy of the value at `item`. */
void cadre_queue_push(cadre_queue_t *self, const void *item);

/* Moves the oldest value to `item`; false, and `item` untouched, when there is none. */
bool cadre_queue_pop(cadre_queue_t *self, void *item);

#endif
