/*
 * memory - allocation that does not fail, and locals that clean up after themselves.
 *
 * Host out-of-memory ends the process, with a text and CADRE_EXIT_OUT_OF_MEMORY: it is restarted
 * and recovered like any other lost task, which is tested, while a thousand branches for a failed
 * malloc would not be.
 */
#ifndef CADRE_COMMON_BASE_MEMORY_H
#define CADRE_COMMON_BASE_MEMORY_H

#include <stddef.h>

/* What a process ends with that gets no memory: it is no bug, and there is nothing to be seen in a
 * core file. */
enum { CADRE_EXIT_OUT_OF_MEMORY = 71 };

/* Zeroed memory for `count` elements of `size_bytes`; ends the process when there is none or the
 * product overflows. The caller frees it with free(). A zero count gives a pointer that can be
 * freed. */
void *cadre_calloc(size_t count, size_t size_bytes);

/* Grows or shrinks `memory` (may be NULL) to `count` elements of `size_bytes`; new bytes are not
 * zeroed. */
void *cadre_realloc(void *memory, size_t count, size_t size_bytes);

/* Makes room for one more: returns `items`, which has `count` of `*capacity` elements in use, or
 * where it is full a larger copy of it (twice as large, 16 at first; the new elements are not
 * zeroed) and raises `*capacity`. Used as `self->items = cadre_grow(self->items, ...)`. */
void *cadre_grow(void *items, size_t count, size_t *capacity, size_t item_size_bytes);

/* Memory aligned to 64 bytes, not zeroed, freed with free(). */
void *cadre_aligned_alloc(size_t size_bytes);

char *cadre_strdup(const char *text);
char *cadre_strndup(const char *text, size_t length);

/* A new string from a format, freed with free(). */
char *cadre_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes malloc keep what is freed instead of giving it back to the system: for programs through
 * which payload flows in buffers of up to CADRE_CHUNK_SIZE_MAX, whose pages would otherwise be
 * mapped, zeroed and unmapped again for every frame (measured: pulls of 64 MB 0.9 GB/s without,
 * 3.3 with). To be called first in main; a library does not do this to its program. */
void cadre_memory_keep_freed(void);

/* free() in the shape of a destructor: frees *memory_p, a pointer of any type, and nulls it. */
void cadre_free(void *memory_p);

/* A local that is destroyed when its scope ends: `cadre_auto(zmsg_destroy) zmsg_t *message =
 * NULL;`. The destructor takes a pointer to the variable. */
#define cadre_auto(destructor) __attribute__((cleanup(destructor)))

#define CADRE_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
