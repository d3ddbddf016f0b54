/*
 * replay - runs a libFuzzer target over its corpus, without libFuzzer.
 *
 *   fuzz_NAME FOLDER [COUNT [SEED]]
 *       every file of FOLDER as it is, cut short at each length, with each byte changed; and the
 *       empty input; then COUNT (5000, in the full form 20000) mixtures of the files drawn from
 *       SEED (1)
 *
 * Every build and compiler can do this, so what a fuzzer once found stays found. Exit status 0 when
 * nothing crashed and the folder held at least one file.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/full.h"

enum {
    INPUT_SIZE_MAX = 1 << 20,
    CUTS_MAX = 256,
    CHANGES_MAX = 2048,
    FILES_MAX = 1024,
    MIXTURES_SHORT = 5000,
    MIXTURES_FULL = 20000,
    MIXTURE_SIZE_MAX = 1 << 14, /* larger files are mixed from their beginnings */
    EDITS_MAX = 6,
};

typedef struct {
    uint8_t *data;
    size_t size;
} input_t;

static input_t files[FILES_MAX];
static size_t file_count;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each run gets a heap block of exactly its size, so that AddressSanitizer sees one byte too far.
 */
static void
run_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (!copy) {
        abort();
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* The input itself and its near relatives, a bounded number of them spread over its length. */
static void
run_variants(uint8_t *data, size_t size)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};

    run_copy(data, size);
    for (size_t i = 0; i < CUTS_MAX && i < size; i++) {
        run_copy(data, size <= CUTS_MAX ? i : i * size / CUTS_MAX);
    }
    for (size_t i = 0; i < CHANGES_MAX && i < size; i++) {
        size_t at = size <= CHANGES_MAX ? i : i * size / CHANGES_MAX;
        for (size_t mask = 0; mask < sizeof(masks); mask++) {
            data[at] ^= masks[mask];
            run_copy(data, size);
            data[at] ^= masks[mask];
        }
    }
}

/* splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
static uint64_t
draw(uint64_t *state, uint64_t bound)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

/* Puts `count` bytes in place of `gap` bytes at `at`, as far as they fit. */
static void
splice(input_t *self, size_t at, size_t gap, const uint8_t *bytes, size_t count)
{
    size_t rest = self->size - at - gap;
    if (at + count + rest > MIXTURE_SIZE_MAX) {
        return;
    }
    memmove(self->data + at + count, self->data + at + gap, rest);
    if (count > 0) {
        memcpy(self->data + at, bytes, count);
    }
    self->size = at + count + rest;
}

static void
edit(input_t *self, uint64_t *state)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0x90, 0xc4, 0xd9, 0xff};
    size_t at = draw(state, self->size + 1);
    size_t left = self->size - at;
    const input_t *other = &files[draw(state, file_count)];
    size_t from = draw(state, other->size + 1);
    uint8_t byte = (uint8_t)draw(state, 256);
    switch (draw(state, 6)) {
    case 0: /* a byte changed */
        splice(self, at, left > 0, &byte, 1);
        break;
    case 1:
        splice(self, at, left > 0, &telling[byte % sizeof(telling)], 1);
        break;
    case 2: /* bytes taken out */
        splice(self, at, draw(state, (left < 16 ? left : 16) + 1), NULL, 0);
        break;
    case 3: /* bytes put in, or in place of others */
        splice(self, at, draw(state, left + 1), other->data + from,
               draw(state, other->size - from + 1));
        break;
    case 4:
        splice(self, at, 0, other->data + from, draw(state, other->size - from + 1));
        break;
    default: /* the other's end */
        splice(self, at, left, other->data + from, other->size - from);
        break;
    }
}

/* One file with a few edits. Mixture `number` depends on nothing but the files and the seed. */
static void
run_mixture(uint64_t seed, uint64_t number)
{
    static uint8_t data[MIXTURE_SIZE_MAX];
    uint64_t state = seed << 32 ^ number;
    const input_t *file = &files[draw(&state, file_count)];
    input_t input = {data, file->size < MIXTURE_SIZE_MAX ? file->size : MIXTURE_SIZE_MAX};
    memcpy(data, file->data, input.size);
    for (uint64_t edits = 1 + draw(&state, EDITS_MAX); edits > 0; edits--) {
        edit(&input, &state);
    }
    run_copy(input.data, input.size);
}

static int
run_file(const char *folder, const char *name)
{
    static uint8_t data[INPUT_SIZE_MAX];
    char path[4096];
    int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = length < (int)sizeof(path) ? fopen(path, "rb") : NULL;
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size = fread(data, 1, sizeof(data), file);
    int failed = ferror(file);
    fclose(file);
    if (failed) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        return 1;
    }
    run_variants(data, size);
    input_t *kept = &files[file_count++];
    *kept = (input_t){malloc(size + 1), size};
    if (!kept->data) {
        abort();
    }
    memcpy(kept->data, data, size);
    return 0;
}

static int
by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

int
main(int argc, char **argv)
{
    struct dirent **entries = NULL;
    int found = argc >= 2 && argc <= 4 ? scandir(argv[1], &entries, NULL, by_name) : -1;
    if (found < 0) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER [COUNT [SEED]]\n", argv[0]);
        return 2;
    }
    uint64_t mixtures = test_is_full() ? MIXTURES_FULL : MIXTURES_SHORT;
    mixtures = argc > 2 ? strtoull(argv[2], NULL, 10) : mixtures;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    run_copy(NULL, 0);
    int failed = 0;
    for (int i = 0; i < found; i++) {
        if (entries[i]->d_name[0] != '.' && file_count < FILES_MAX) {
            failed |= run_file(argv[1], entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    printf("%zu corpus files, then %" PRIu64 " mixtures from seed %" PRIu64 "\n", file_count,
           mixtures, seed);
    fflush(stdout);
    for (uint64_t i = 0; i < mixtures && file_count > 0; i++) {
        run_mixture(seed, i);
    }
    for (size_t i = 0; i < file_count; i++) {
        free(files[i].data);
    }
    return failed || file_count == 0;
}
