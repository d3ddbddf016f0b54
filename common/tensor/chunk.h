/*
 * chunk - a reference-counted, 64-byte aligned buffer: the unit of values in memory and of payload
 * on the wire.
 *
 * Owner:   whoever holds a reference.
 * Thread:  references may be taken and dropped on any thread (the count is atomic, because ZeroMQ's
 * I/O thread drops the reference of a frame it has sent). The bytes may be written only by a holder
 * who is alone: check with cadre_chunk_alone. That is race-free because a count of one, read by its
 * only holder, cannot grow behind its back: nobody else has a reference to copy.
 *
 * Copy on write follows from that rule: whoever wants to change a shared chunk writes a new one
 * (README.md, rule 1).
 */
#ifndef CADRE_COMMON_TENSOR_CHUNK_H
#define CADRE_COMMON_TENSOR_CHUNK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cadre_chunk cadre_chunk_t;

/* Returns a chunk of `size_bytes` (not zeroed) with one reference, held by the caller. */
cadre_chunk_t *cadre_chunk_new(size_t size_bytes);

/* Returns a chunk with a copy of `size_bytes` from `bytes`. */
cadre_chunk_t *cadre_chunk_new_copy(const void *bytes, size_t size_bytes);

/* Returns a chunk over memory that somebody else owns; `release(owner)` is called on the thread
 * that drops the last reference. The bytes may have any alignment. */
cadre_chunk_t *cadre_chunk_new_foreign(void *bytes, size_t size_bytes, void (*release)(void *owner),
                                       void *owner);

/* Adds a reference; returns `self`. */
cadre_chunk_t *cadre_chunk_ref(cadre_chunk_t *self);

/* Drops the caller's reference and nulls the pointer; *self_p may be NULL. When the last reference
 * is dropped the bytes are freed. */
void cadre_chunk_unref(cadre_chunk_t **self_p);

/* True when the caller holds the only reference, and so may write. */
bool cadre_chunk_alone(const cadre_chunk_t *self);

void *cadre_chunk_data(const cadre_chunk_t *self);
size_t cadre_chunk_size_bytes(const cadre_chunk_t *self);

#endif
