#include "common/base/memory.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sanitizer.h"

TestSuite(memory, .timeout = 240);

/* A launcher tells it from a bug by the exit code. */
Test(memory, ends_the_process_with_a_code_of_its_own_when_there_is_none)
{
    if (SANITIZER) {
        cr_skip_test("the sanitizer ends such a process itself");
    }
    pid_t child = fork();
    if (child == 0) {
        close(2);
        free(cadre_calloc(SIZE_MAX / 4, 2));
        _exit(0);
    }
    int end = 0;
    cr_assert_eq(waitpid(child, &end, 0), child);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == CADRE_EXIT_OUT_OF_MEMORY, "%x", (unsigned)end);
}

Test(memory, doubles_an_array_when_it_is_full_and_keeps_its_elements)
{
    size_t capacity = 0;
    int *items = NULL;
    for (int i = 0; i < 100; i++) {
        items = cadre_grow(items, (size_t)i, &capacity, sizeof(*items));
        items[i] = i;
    }
    cr_expect_eq(capacity, 128);
    cr_expect_eq(items[0], 0);
    cr_expect_eq(items[99], 99);
    int *same = cadre_grow(items, 100, &capacity, sizeof(*items));
    cr_expect_eq(same, items);
    cr_expect_eq(capacity, 128);
    free(same);
}

Test(memory, gives_huge_memory_zeroed_and_at_a_multiple_of_its_size)
{
    enum { COUNT = 3, MULTIPLE = CADRE_HUGE_SIZE };
    unsigned char *memory[COUNT];
    for (int i = 0; i < COUNT; i++) {
        memory[i] = cadre_huge_alloc();
        cr_assert_eq((uintptr_t)memory[i] % MULTIPLE, 0);
        for (size_t at = 0; at < CADRE_HUGE_SIZE; at++) {
            cr_assert_eq(memory[i][at], 0);
        }
        memset(memory[i], i + 1, CADRE_HUGE_SIZE);
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(memory[i][0], i + 1);
        cr_assert_eq(memory[i][CADRE_HUGE_SIZE - 1], i + 1);
        cadre_huge_free(memory[i]);
    }
    cadre_huge_free(NULL);
}

/* Returns how many mappings the process has. */
static int
count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    cr_assert_not_null(file);
    int lines = 0;
    for (int c = getc(file); c != EOF; c = getc(file)) {
        lines += c == '\n';
    }
    fclose(file);
    return lines;
}

/* A process may have 65,530 mappings (vm.max_map_count). */
Test(memory, takes_few_mappings_for_much_huge_memory)
{
    enum { COUNT = 400, MORE = COUNT / 10 };
    void *memory[COUNT];
    const int before = count_mappings();
    for (int i = 0; i < COUNT; i++) {
        memory[i] = cadre_huge_alloc();
    }
    cr_expect_lt(count_mappings(), before + MORE);
    for (int i = 0; i < COUNT; i++) {
        cadre_huge_free(memory[i]);
    }
}

Test(memory, gives_huge_memory_back_and_keeps_its_place)
{
    unsigned char *memory = cadre_huge_alloc();
    memset(memory, 1, CADRE_HUGE_SIZE);
    cadre_huge_discard(memory);
    for (size_t at = 0; at < CADRE_HUGE_SIZE; at++) {
        cr_assert_eq(memory[at], 0);
    }
    memset(memory, 2, CADRE_HUGE_SIZE);
    cr_expect_eq(memory[CADRE_HUGE_SIZE - 1], 2);
    cadre_huge_free(memory);
}
