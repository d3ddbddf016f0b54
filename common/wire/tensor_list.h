/*
 * tensor_list - tensors as messages carry them: a u64 list (dtype, rank, dims...) for all, and
 * their bytes in payload chunks.
 *
 * Owner:   whoever encoded it; ended with cadre_tensor_list_fini.
 * Thread:  any one; its chunks may be shared with messages in flight on other threads.
 *
 * Every tensor begins a new chunk and fills each of its chunks to CADRE_CHUNK_SIZE_MAX but the
 * last; a tensor without elements has none. So the cut follows from the shapes and is never told.
 */
#ifndef CADRE_COMMON_WIRE_TENSOR_LIST_H
#define CADRE_COMMON_WIRE_TENSOR_LIST_H

#include "common/wire/message.h"

typedef struct {
    uint64_t *items;
    size_t count; /* of items */
    cadre_chunk_t **chunks;
    size_t chunk_count;
    size_t size_bytes; /* of all chunks */
} cadre_tensor_list_t;

/* Copies `count` tensors, which may come from a user, into a list. Fails with CADRE_EINVALID for a
 * bad dtype, rank or dimension, CADRE_ETOOLARGE when their bytes are more than `size_bytes_max` or
 * take more chunks than a message holds; the text names the tensor by position. */
int cadre_tensor_list_encode(const cadre_tensor_t *tensors, size_t count, size_t size_bytes_max,
                             cadre_tensor_list_t *out);

void cadre_tensor_list_fini(cadre_tensor_list_t *self);

/* Makes a list of the tensors that a message describes in `items`, with references to the chunks
 * given. Checks neither. */
void cadre_tensor_list_share(cadre_tensor_list_t *self, cadre_u64s_t items,
                             cadre_chunk_t *const *chunks, size_t chunk_count);

/* Makes a list of the tensor at `position` alone, with references to its chunks. `self` may come
 * from a message: fails with CADRE_EMALFORMED unless items and chunks agree up to that position,
 * and for a position beyond the last tensor. */
int cadre_tensor_list_part(const cadre_tensor_list_t *self, size_t position,
                           cadre_tensor_list_t *out);

/* Returns the items as a field for a message, borrowed from the list. */
cadre_u64s_t cadre_tensor_list_items(const cadre_tensor_list_t *self);

/* Adds a reference to each of the list's chunks to the payload of `message`. */
void cadre_tensor_list_add_chunks(const cadre_tensor_list_t *self, cadre_message_t *message);

/* Builds the tensors that `items` describes from the whole payload of `message`. Trusts neither:
 * CADRE_EMALFORMED unless items and chunks agree to the last byte, CADRE_ETOOLARGE over
 * `size_bytes_max`; nothing is allocated for bytes that are not there. `*tensors` is an array of
 * `*count` tensors with their own memory, NULL for none, ended with cadre_tensors_fini. */
int cadre_tensor_list_decode(cadre_u64s_t items, const cadre_message_t *message,
                             size_t size_bytes_max, cadre_tensor_t **tensors, size_t *count);

/* Ends `count` tensors, frees their array and nulls it. */
void cadre_tensors_fini(cadre_tensor_t **tensors_p, size_t count);

#endif
