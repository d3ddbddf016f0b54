/*
 * replay - runs a libFuzzer target over its corpus, without libFuzzer.
 *
 *   fuzz_NAME FOLDER    every file of FOLDER as it is, cut short at each length, with each byte
 *                       changed; and the empty input
 *
 * Every build and compiler can do this, so what a fuzzer once found stays found. Exit status 0 when
 * nothing crashed and the folder held at least one file.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_SIZE_MAX = 1 << 20, CUTS_MAX = 256, CHANGES_MAX = 2048 };

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
    return 0;
}

int
main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    run_copy(NULL, 0);
    int files = 0;
    int failed = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            failed |= run_file(argv[1], entry->d_name);
            files++;
        }
    }
    closedir(folder);
    printf("%d corpus files\n", files);
    return failed || files == 0;
}
