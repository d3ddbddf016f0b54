#include "common/base/memory.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Noreturn void
out_of_memory(size_t count, size_t size_bytes)
{
    fprintf(stderr, "cadre: out of memory: %zu x %zu bytes\n", count, size_bytes);
    _exit(CADRE_EXIT_OUT_OF_MEMORY);
}

/* Returns zeroed memory, or ends the process. Asks for at least one byte, because calloc may answer
 * 0 bytes with NULL. */
void *
cadre_calloc(size_t count, size_t size_bytes)
{
    void *memory = calloc(count ? count : 1, size_bytes ? size_bytes : 1);
    if (!memory) {
        out_of_memory(count, size_bytes);
    }
    return memory;
}

/* Resizes a block, or ends the process; at least one byte, so that the result is never NULL. */
void *
cadre_realloc(void *memory, size_t count, size_t size_bytes)
{
    void *grown = reallocarray(memory, count ? count : 1, size_bytes ? size_bytes : 1);
    if (!grown) {
        out_of_memory(count, size_bytes);
    }
    return grown;
}

/* Makes room for one more element in an array, by doubling when it is full. */
void *
cadre_grow(void *items, size_t count, size_t *capacity, size_t item_size_bytes)
{
    enum { CAPACITY_FIRST = 16 };
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity > 0 ? 2 * *capacity : CAPACITY_FIRST;
    return cadre_realloc(items, *capacity, item_size_bytes);
}

/* Returns memory aligned to 64 bytes. The size is rounded up to a multiple of 64, as aligned_alloc
 * demands. */
void *
cadre_aligned_alloc(size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - 64) {
        out_of_memory(1, size_bytes);
    }
    void *memory = aligned_alloc(64, size_bytes ? (size_bytes + 63) / 64 * 64 : 64);
    if (!memory) {
        out_of_memory(1, size_bytes);
    }
    return memory;
}

static char *
map(size_t size_bytes)
{
    void *mapped =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        out_of_memory(1, size_bytes);
    }
    return mapped;
}

/* Maps twice as much as is needed, and gives back what stands before and behind. Of two places it
 * takes the upper one, which stands right below the last, and leaves no gap. */
static char *
map_aligned(void)
{
    enum { SIZE = CADRE_HUGE_SIZE };
    char *mapped = map(2 * (size_t)SIZE);
    const size_t behind = (uintptr_t)mapped % SIZE;
    const size_t before = SIZE - behind;
    munmap(mapped, before);
    if (behind > 0) {
        munmap(mapped + before + SIZE, behind);
    }
    return mapped + before;
}

/* The system looks from the top of the address space down, and puts a mapping right below the last
 * one: so it mostly is aligned, and joined to its neighbours. When each stood apart, a process had
 * no more after 127 GiB (vm.max_map_count). */
void *
cadre_huge_alloc(void)
{
    enum { SIZE = CADRE_HUGE_SIZE };
    char *memory = map(SIZE);
    if ((uintptr_t)memory % SIZE != 0) {
        munmap(memory, SIZE);
        memory = map_aligned();
    }
    madvise(memory, SIZE, MADV_HUGEPAGE); /* where it fails pages are small */
    return memory;
}

void
cadre_huge_free(void *memory)
{
    if (memory) {
        munmap(memory, CADRE_HUGE_SIZE);
    }
}

void
cadre_huge_discard(void *memory)
{
    madvise(memory, CADRE_HUGE_SIZE, MADV_DONTNEED); /* where it fails (mlock) the memory stays */
}

char *
cadre_strdup(const char *text)
{
    return cadre_strndup(text, strlen(text));
}

char *
cadre_strndup(const char *text, size_t length)
{
    char *copy = cadre_calloc(length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}

/* Returns a new string from a format, or ends the process. */
char *
cadre_asprintf(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        out_of_memory(1, 0);
    }
    return text;
}

/* Frees *memory_p and nulls it. The pointer is copied with memcpy, because it may be of any type.
 */
void
cadre_free(void *memory_p)
{
    void *memory = NULL;
    memcpy(&memory, memory_p, sizeof(memory));
    free(memory);
    memory = NULL;
    memcpy(memory_p, &memory, sizeof(memory));
}

/* Makes malloc keep freed memory instead of returning it to the system: buffers of payload come and
 * go all the time, and the pages of each would be mapped, zeroed and unmapped again. */
void
cadre_memory_keep_freed(void)
{
    /* Setting either threshold ends malloc's own adjusting of both, so both are set. 32 MiB is the
     * largest mmap threshold that malloc accepts. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 16 << 20);
}
