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

/* Exit status of a process that gets no memory. It exits instead of aborting: that is no bug, and a
 * core file would show nothing. */
enum { CADRE_EXIT_OUT_OF_MEMORY = 71 };

/* Returns zeroed memory for `count` elements of `size_bytes`, which the caller frees with free().
 * Ends the process when there is none or the product overflows. A zero count gives a pointer that
 * can be freed. */
void *cadre_calloc(size_t count, size_t size_bytes);

/* Grows or shrinks `memory` (may be NULL) to `count` elements of `size_bytes`; new bytes are not
 * zeroed. */
void *cadre_realloc(void *memory, size_t count, size_t size_bytes);

/* Makes room for one more element in an array of which `count` of `*capacity` elements are in use,
 * and returns it. A full array is replaced by a copy twice as large (16 elements at first; new ones
 * are not zeroed), and `*capacity` raised. Used as `self->items = cadre_grow(self->items, ...)`. */
void *cadre_grow(void *items, size_t count, size_t *capacity, size_t item_size_bytes);

/* Returns memory aligned to 64 bytes, not zeroed, to be freed with free(). */
void *cadre_aligned_alloc(size_t size_bytes);

/* Returns CADRE_HUGE_SIZE bytes at a multiple of as many, zeroed, for which the system is asked for
 * a huge page: of memory that is used in no order the CPU then finds each byte without its page
 * tables. It may have none, or be told to give none (/sys/kernel/mm/transparent_hugepage/enabled);
 * the memory is as good then. Neighbours are one mapping where the system joins them, since a
 * process may have some 65,000. Freed with cadre_huge_free, on any thread. */
enum { CADRE_HUGE_SIZE = 2 << 20 };
void *cadre_huge_alloc(void);
void cadre_huge_free(void *memory);

/* Gives such memory back to the system until it is used again; its bytes are arbitrary then. Its
 * place stays, since a gap would part its neighbours. */
void cadre_huge_discard(void *memory);

char *cadre_strdup(const char *text);
char *cadre_strndup(const char *text, size_t length);

/* Returns a new string from a format, to be freed with free(). */
char *cadre_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes malloc keep what is freed instead of giving it back to the system: for programs through
 * which payload flows in buffers of up to CADRE_CHUNK_SIZE_MAX, whose pages would otherwise be
 * mapped, zeroed and unmapped again for every frame (measured: pulls of 64 MB ran at 0.9 GB/s
 * without this, at 3.3 with it). Called first in main; a library must not do this to its
 * program. */
void cadre_memory_keep_freed(void);

/* free() in the shape of a destructor: frees *memory_p, a pointer of any type, and nulls it. */
void cadre_free(void *memory_p);

/* Has `destructor` called with a pointer to the local variable when its scope ends:
 * `cadre_auto(zmsg_destroy) zmsg_t *message = NULL;`. */
#define cadre_auto(destructor) __attribute__((cleanup(destructor)))

#define CADRE_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
