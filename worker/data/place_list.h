/*
 * place_list - where the blocks of large files begin, in little memory.
 *
 * Owner:   the stream.
 * Thread:  one at a time.
 *
 * A block of a text is some hundred words, so of whole places the index would be a fifteenth of the
 * text. Places follow each other: each is kept as its distance from the one before, in as few bytes
 * as that needs, some 8. Every CADRE_PLACE_GROUP-th is kept as its distance from nothing, so that a
 * place is found by going through its group alone.
 */
#ifndef CADRE_WORKER_DATA_PLACE_LIST_H
#define CADRE_WORKER_DATA_PLACE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "worker/data/reader.h"

enum { CADRE_PLACE_GROUP = 64 };

/* Zeroed memory is an empty list. */
typedef struct {
    uint8_t *bytes; /* [size] */
    size_t size;
    size_t capacity;
    uint64_t *groups; /* [count / CADRE_PLACE_GROUP, rounded up] where in `bytes` each begins */
    size_t groups_capacity;
    size_t count;
    cadre_reader_place_t last;
} cadre_place_list_t;

/* Frees the places; harmless on an empty list. */
void cadre_place_list_fini(cadre_place_list_t *self);

/* Adds a place behind the others. */
void cadre_place_list_add(cadre_place_list_t *self, const cadre_reader_place_t *place);

/* Returns place `index`, which must exist. */
cadre_reader_place_t cadre_place_list_at(const cadre_place_list_t *self, size_t index);

/* Returns the memory that the list takes, in bytes. */
uint64_t cadre_place_list_size_bytes(const cadre_place_list_t *self);

#endif
