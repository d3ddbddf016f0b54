#include "worker/slot/host_memory.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "worker/device/device_module.h"

TestSuite(host_memory, .timeout = 240);

/* The CPU, but for its memory, of which there are `left` pieces. */
static int left;
static int out;

static void *
memory_new(void *device, size_t size_bytes)
{
    (void)device;
    if (left == 0) {
        return NULL;
    }
    left--;
    out++;
    return cadre_aligned_alloc(size_bytes);
}

static void
memory_free(void *device, void *memory)
{
    (void)device;
    cr_assert_not_null(memory);
    out--;
    free(memory);
}

static cadre_device_t *
open_device(int pieces)
{
    static cadre_device_functions_t functions;
    functions = cadre_cpu_functions;
    functions.memory_new = memory_new;
    functions.memory_free = memory_free;
    left = pieces;
    out = 0;
    cadre_device_t *device = NULL;
    const cadre_device_options_t options = {.name = "few", .threads = 1};
    cr_assert_eq(cadre_device_open_functions(&functions, &options, &device), 0);
    return device;
}

static void
expect_room(const cadre_host_memory_t *memory, size_t size_bytes)
{
    cr_assert_eq((uintptr_t)memory->data % 64, 0);
    memset(memory->data, 1, size_bytes);
}

Test(host_memory, is_the_devices_and_is_used_again)
{
    cadre_device_t *device = open_device(10);
    cadre_host_memory_t memory = {.device = device};
    cr_expect(cadre_host_memory_reserve(&memory, 100));
    cr_expect_not(cadre_host_memory_reserve(&memory, 100));
    cr_expect_not(cadre_host_memory_reserve(&memory, 99));
    cr_expect_eq(left, 9);
    cr_expect(cadre_host_memory_reserve(&memory, 101));
    expect_room(&memory, 101);
    cr_expect_eq(left, 8);
    cr_expect_eq(out, 1);
    cadre_host_memory_fini(&memory);
    cr_expect_eq(out, 0);
    cadre_device_close(&device);
}

Test(host_memory, is_plain_when_the_device_has_none_left)
{
    cadre_device_t *device = open_device(1);
    cadre_host_memory_t memory[2] = {{.device = device}, {.device = device}};
    for (int i = 0; i < 2; i++) {
        cr_expect(cadre_host_memory_reserve(&memory[i], 100));
        expect_room(&memory[i], 100);
        cr_expect_eq(memory[i].is_pageable, i == 1);
    }
    for (int i = 0; i < 2; i++) {
        cadre_host_memory_fini(&memory[i]);
    }
    cr_expect_eq(out, 0);
    cadre_device_close(&device);
}

Test(host_memory, is_plain_without_a_device)
{
    cadre_host_memory_t memory = {0};
    cr_expect(cadre_host_memory_reserve(&memory, 100));
    expect_room(&memory, 100);
    cadre_host_memory_fini(&memory);
}

Test(host_memory, a_chunk_gives_its_memory_back)
{
    cadre_device_t *device = open_device(1);
    cadre_chunk_t *chunks[] = {cadre_host_memory_chunk(device, 100),
                               cadre_host_memory_chunk(device, 100),
                               cadre_host_memory_chunk(NULL, 100)};
    cr_expect_eq(out, 1);
    for (size_t i = 0; i < CADRE_COUNT_OF(chunks); i++) {
        cr_expect_eq(cadre_chunk_size_bytes(chunks[i]), 100);
        memset(cadre_chunk_data(chunks[i]), 1, 100);
        cr_expect(cadre_chunk_alone(chunks[i]));
        cadre_chunk_unref(&chunks[i]);
    }
    cr_expect_eq(out, 0);
    cadre_device_close(&device);
}
