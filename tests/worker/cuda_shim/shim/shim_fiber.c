/*
 * swapcontext would do, and does where no switch is written out below. But AddressSanitizer warns
 * of it once per process, which a run that fails on any report of a sanitizer takes for one; and it
 * enters the kernel for the signal mask, which no fiber changes.
 */
#include "tests/worker/cuda_shim/shim/shim_fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/assert.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* Stacks begin at different offsets: at equal ones the frames of a block's threads would share the
 * few lines of one set of the processor's cache, and each switch would miss it. */
enum { STACK_SIZE = 192 * 1024, GUARD_SIZE = 64 * 1024, OFFSET_SIZE = 320, OFFSETS = 200 };

static void
map_stack(shim_fiber_t *self)
{
    static size_t mapped;
    char *memory = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cadre_assert(memory != MAP_FAILED);
    int status = mprotect(memory + GUARD_SIZE, STACK_SIZE, PROT_READ | PROT_WRITE);
    cadre_assert(status == 0);
    self->stack = memory + GUARD_SIZE;
    self->stack_size = STACK_SIZE - mapped++ % OFFSETS * OFFSET_SIZE;
}

#ifdef __x86_64__

/* Keeps on the stack what a function must preserve, notes the stack in *from, and goes on with the
 * registers that lie on the stack `to`. */
void shim_fiber_swap(void **from, void *to);

__asm__(".text\n"
        ".hidden shim_fiber_swap\n"
        ".globl shim_fiber_swap\n"
        ".type shim_fiber_swap, @function\n"
        "shim_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size shim_fiber_swap, . - shim_fiber_swap\n");

static void
prepare(shim_fiber_t *self, shim_fiber_main_t *entry)
{
    /* Six registers, where to go on, and no one to return to. */
    enum { REGISTERS = 6, WORDS = REGISTERS + 2 };
    uintptr_t words[WORDS] = {0};
    words[REGISTERS] = (uintptr_t)entry;
    char *end = (char *)(uintptr_t)self->stack + self->stack_size;
    self->top = end - sizeof(words);
    memcpy(self->top, words, sizeof(words));
}

static void
swap(shim_fiber_t *from, shim_fiber_t *to)
{
    shim_fiber_swap(&from->top, to->top);
}

#else

static void
prepare(shim_fiber_t *self, shim_fiber_main_t *entry)
{
    int status = getcontext(&self->context);
    cadre_assert(status == 0);
    self->context.uc_stack.ss_sp = (void *)(uintptr_t)self->stack;
    self->context.uc_stack.ss_size = self->stack_size;
    self->context.uc_link = NULL;
    makecontext(&self->context, entry, 0);
}

static void
swap(shim_fiber_t *from, shim_fiber_t *to)
{
    int status = swapcontext(&from->context, &to->context);
    cadre_assert(status == 0);
}

#endif

void
shim_fiber_begin(shim_fiber_t *self, shim_fiber_main_t *entry)
{
    if (!self->stack) {
        map_stack(self);
    }
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(self->stack, self->stack_size);
#endif
    prepare(self, entry);
    self->begun = true;
}

void
shim_fiber_switch(shim_fiber_t *from, shim_fiber_t *to)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_size);
#endif
    swap(from, to);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void
shim_fiber_entered(shim_fiber_t *launcher)
{
#ifdef __SANITIZE_ADDRESS__
    const void *stack = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(NULL, &stack, &size);
    if (!launcher->stack) {
        launcher->stack = stack;
        launcher->stack_size = size;
    }
#else
    (void)launcher;
#endif
}
