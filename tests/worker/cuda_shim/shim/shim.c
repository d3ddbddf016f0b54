#include "tests/worker/cuda_shim/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/random.h"
#include "tests/worker/cuda_shim/shim/shim_fiber.h"

enum {
    FAULT_SIZE = 400,
    PLACE_SIZE = 80,
    SHARED_MAX = 256,
    WARPS_MAX = CADRE_SHIM_BLOCK_MAX / CADRE_SHIM_WARP,
    WORD_BITS = 64,
    WORDS = CADRE_SHIM_BLOCK_MAX / WORD_BITS,
};

typedef enum {
    THREAD_FRESH, /* has not begun */
    THREAD_RUNNING,
    THREAD_READY, /* waited, and may go on */
    THREAD_AT_BARRIER,
    THREAD_IN_WARP, /* in a warp operation */
    THREAD_DONE,
} thread_state_t;

typedef struct {
    thread_state_t state;
    shim_fiber_t *fiber;
    const char *file; /* where it waits */
    int line;
    uint32_t mask;
    uint32_t collected; /* warp operations so far */
} thread_t;

/* Values of a warp operation by its number's parity: a lane can be one operation ahead of those
 * that have yet to read, never two. */
typedef struct {
    uint64_t values[2][CADRE_SHIM_WARP];
    int waiting; /* lanes in a warp operation */
} warp_t;

typedef struct {
    void *data;
    size_t size_bytes;
} shared_t;

typedef struct {
    cadre_shim_order_t order;
    cadre_random_t random; /* of blocks */
    uint64_t drawn;        /* splitmix64's state: of threads */
    cadre_shim_body_t *body;
    const void *body_context;
    int thread_count;
    int done_count;
    int barrier_count;        /* threads at the barrier */
    int current;              /* the running thread */
    uint64_t runnable[WORDS]; /* fresh or ready */
    thread_t threads[CADRE_SHIM_BLOCK_MAX];
    warp_t warps[WARPS_MAX];
    shim_fiber_t main_fiber;
    /* A fiber whose thread has ended takes the next one that has not begun, so a kernel without
     * barriers needs one fiber and no switch. */
    shim_fiber_t fibers[CADRE_SHIM_BLOCK_MAX];
    shim_fiber_t *idle[CADRE_SHIM_BLOCK_MAX];
    int idle_count;
    shared_t shared[SHARED_MAX];
    int shared_count;
    char fault[FAULT_SIZE];
    char taken[FAULT_SIZE];
    uint64_t launches;
    uint64_t waits;
    const char *left_out; /* of the environment: a barrier; NULL before it was read */
    int left_out_line;
} shim_t;

/* One for the process: kernels reach their thread's index without an argument. */
static shim_t shim;

cadre_shim_index_t cadre_shim_thread_index;
cadre_shim_index_t cadre_shim_block_index;
cadre_shim_index_t cadre_shim_block_size;

void
cadre_shim_set_order(cadre_shim_order_t order, uint64_t seed)
{
    shim.order = order;
    cadre_random_init(&shim.random, seed, 0);
    shim.drawn = seed;
}

const char *
cadre_shim_take_fault(void)
{
    if (!shim.fault[0]) {
        return NULL;
    }
    memcpy(shim.taken, shim.fault, sizeof(shim.taken));
    shim.fault[0] = 0;
    return shim.taken;
}

uint64_t
cadre_shim_launches(void)
{
    return shim.launches;
}

uint64_t
cadre_shim_waits(void)
{
    return shim.waits;
}

/* NaN in every number type, and an index far out of range. */
static void
poison(const shared_t *shared)
{
    memset(shared->data, 0xff, shared->size_bytes);
}

bool
cadre_shim_shared(void *array, size_t size_bytes)
{
    cadre_assert(shim.shared_count < SHARED_MAX);
    shared_t *shared = &shim.shared[shim.shared_count++];
    *shared = (shared_t){.data = array, .size_bytes = size_bytes};
    poison(shared);
    return true;
}

/* ---- who runs next ---- */

static void
set_runnable(int thread, thread_state_t state)
{
    shim.threads[thread].state = state;
    shim.runnable[thread / WORD_BITS] |= UINT64_C(1) << thread % WORD_BITS;
}

static int
next_from(int first)
{
    for (int at = first; at < shim.thread_count;) {
        uint64_t word = shim.runnable[at / WORD_BITS] >> at % WORD_BITS;
        if (word) {
            return at + __builtin_ctzll(word);
        }
        at += WORD_BITS - at % WORD_BITS;
    }
    return -1;
}

static int
last_runnable(void)
{
    for (int word = WORDS - 1; word >= 0; word--) {
        if (shim.runnable[word]) {
            return word * WORD_BITS + WORD_BITS - 1 - __builtin_clzll(shim.runnable[word]);
        }
    }
    return -1;
}

/* Draws a number in [0, bound): splitmix64 and a multiplication, since each wait draws one. A bias
 * of less than 2^-20 is no matter here. */
static int
draw_below(int bound)
{
    shim.drawn += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = shim.drawn;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int)((z >> 32) * (uint64_t)bound >> 32);
}

/* Takes a thread that can run, or gives -1. */
static int
take_runnable(void)
{
    int thread = -1;
    switch (shim.order) {
    case CADRE_SHIM_FORWARD:
        thread = next_from(0);
        break;
    case CADRE_SHIM_BACKWARD:
        thread = last_runnable();
        break;
    case CADRE_SHIM_RANDOM:
        thread = next_from(draw_below(shim.thread_count));
        thread = thread < 0 ? next_from(0) : thread;
        break;
    }
    if (thread >= 0) {
        shim.runnable[thread / WORD_BITS] &= ~(UINT64_C(1) << thread % WORD_BITS);
    }
    return thread;
}

/* ---- fibers ---- */

static void fiber_main(void);

/* A fiber for a thread that begins: one whose thread has ended, if there is one. */
static shim_fiber_t *
take_fiber(void)
{
    shim_fiber_t *fiber = shim.idle[--shim.idle_count];
    if (!fiber->begun) {
        shim_fiber_begin(fiber, fiber_main);
    }
    return fiber;
}

/* Goes on with the thread `next` on its fiber, or with the launch when it is -1. Comes back when
 * `from` is switched to again. */
static void
go_on(shim_fiber_t *from, int next)
{
    if (next < 0) {
        shim_fiber_switch(from, &shim.main_fiber);
        return;
    }
    thread_t *thread = &shim.threads[next];
    if (thread->state == THREAD_FRESH) {
        thread->fiber = take_fiber();
    }
    thread->state = THREAD_RUNNING;
    unsigned index = (unsigned)next;
    cadre_shim_index_t size = cadre_shim_block_size;
    shim.current = next;
    cadre_shim_thread_index =
        (cadre_shim_index_t){index % size.x, index / size.x % size.y, index / size.x / size.y};
    if (thread->fiber != from) {
        shim_fiber_switch(from, thread->fiber);
    }
}

/* Runs a thread; then the next one that has not begun, or waits for one. */
static void
fiber_main(void)
{
    shim_fiber_entered(&shim.main_fiber);
    for (;;) {
        shim.body(shim.body_context);
        thread_t *thread = &shim.threads[shim.current];
        thread->state = THREAD_DONE;
        shim.done_count++;
        shim.idle[shim.idle_count++] = thread->fiber;
        go_on(thread->fiber, take_runnable());
    }
}

/* ---- faults ---- */

static void
write_fault(const char *file, int line, const char *what)
{
    cadre_shim_index_t block = cadre_shim_block_index;
    (void)snprintf(shim.fault, sizeof(shim.fault), "%s:%d: block %u,%u,%u: %s", file, line, block.x,
                   block.y, block.z, what);
}

void
cadre_shim_fail(const char *file, int line, const char *what)
{
    write_fault(file, line, what);
    shim_fiber_switch(shim.threads[shim.current].fiber, &shim.main_fiber);
    cadre_assert(false); /* an ended launch is not gone on with */
}

/* Nothing can run, and not all threads are done: says where one waits, and for whom. */
static void
write_stuck(void)
{
    for (int i = 0; i < shim.thread_count; i++) {
        const thread_t *thread = &shim.threads[i];
        if (thread->state == THREAD_IN_WARP) {
            write_fault(thread->file, thread->line,
                        "a warp operation that not all lanes of its mask reach");
            return;
        }
    }
    for (int i = 0; i < shim.thread_count; i++) {
        const thread_t *thread = &shim.threads[i];
        if (thread->state == THREAD_AT_BARRIER) {
            write_fault(thread->file, thread->line,
                        "a barrier that not all threads of the block reach");
            return;
        }
    }
}

/* ---- waiting ---- */

static bool
same_place(const thread_t *left, const thread_t *right)
{
    return left->line == right->line &&
           (left->file == right->file || strcmp(left->file, right->file) == 0);
}

static thread_t *
begin_wait(const char *file, int line, thread_state_t state)
{
    thread_t *thread = &shim.threads[shim.current];
    thread->file = file;
    thread->line = line;
    thread->state = state;
    shim.waits++;
    return thread;
}

/* Whether $CADRE_SHIM_NO_BARRIER, as "sort.cu:95", names this barrier. */
static bool
is_left_out(const char *file, int line)
{
    if (!shim.left_out) {
        const char *wanted = getenv("CADRE_SHIM_NO_BARRIER");
        shim.left_out = wanted ? wanted : "";
        const char *colon = strrchr(shim.left_out, ':');
        shim.left_out_line = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
    }
    if (line != shim.left_out_line) {
        return false;
    }
    const char *slash = strrchr(file, '/');
    char place[PLACE_SIZE];
    snprintf(place, sizeof(place), "%s:%d", slash ? slash + 1 : file, line);
    return strcmp(place, shim.left_out) == 0;
}

void
cadre_shim_block_barrier(const char *file, int line)
{
    if (is_left_out(file, line)) {
        return;
    }
    thread_t *self = begin_wait(file, line, THREAD_AT_BARRIER);
    shim.barrier_count++;
    if (shim.barrier_count == shim.thread_count) {
        for (int i = 0; i < shim.thread_count; i++) {
            if (!same_place(&shim.threads[i], self)) {
                cadre_shim_fail(file, line, "threads of a block are at different barriers");
            }
            set_runnable(i, THREAD_READY);
        }
        shim.barrier_count = 0;
    }
    go_on(self->fiber, take_runnable());
}

/* Whether all lanes of the mask have come to this operation. */
static bool
warp_complete(const thread_t *self, int first)
{
    for (int lane = 0; lane < CADRE_SHIM_WARP; lane++) {
        const thread_t *other = &shim.threads[first + lane];
        if (!(self->mask >> lane & 1)) {
            continue;
        }
        if (other->state != THREAD_IN_WARP) {
            return false;
        }
        if (other->mask != self->mask || !same_place(other, self)) {
            cadre_shim_fail(self->file, self->line,
                            "lanes of a mask are in different warp operations");
        }
    }
    return true;
}

/* The mask names this lane, and none that there is not. */
static void
check_mask(const thread_t *self, int first, int lane)
{
    int lanes = shim.thread_count - first;
    if (!(self->mask >> lane & 1)) {
        cadre_shim_fail(self->file, self->line,
                        "a lane calls a warp operation whose mask leaves it out");
    }
    if (lanes < CADRE_SHIM_WARP && self->mask >> lanes) {
        cadre_shim_fail(self->file, self->line, "a mask names a lane that there is not");
    }
}

const uint64_t *
cadre_shim_collect(const char *file, int line, uint32_t mask, uint64_t value)
{
    thread_t *self = begin_wait(file, line, THREAD_IN_WARP);
    int first = shim.current / CADRE_SHIM_WARP * CADRE_SHIM_WARP;
    int lane = shim.current % CADRE_SHIM_WARP;
    self->mask = mask;
    check_mask(self, first, lane);
    warp_t *warp = &shim.warps[shim.current / CADRE_SHIM_WARP];
    uint64_t *values = warp->values[self->collected++ % 2];
    values[lane] = value;
    warp->waiting++;
    /* Only the last to come looks at all others. */
    if (warp->waiting >= __builtin_popcount(mask) && warp_complete(self, first)) {
        warp->waiting -= __builtin_popcount(mask);
        for (int other = 0; other < CADRE_SHIM_WARP; other++) {
            if (mask >> other & 1) {
                set_runnable(first + other, THREAD_READY);
            }
        }
    }
    go_on(self->fiber, take_runnable());
    return values;
}

/* ---- launches ---- */

static uint64_t
count_of(cadre_shim_index_t index)
{
    return (uint64_t)index.x * index.y * index.z;
}

/* Fibers as they were before the first launch: after a fault some are in the midst of a thread. */
static void
forget_fibers(void)
{
    shim.idle_count = 0;
    for (int i = CADRE_SHIM_BLOCK_MAX - 1; i >= 0; i--) {
        shim_fiber_t *fiber = &shim.fibers[i];
        fiber->begun = false;
        shim.idle[shim.idle_count++] = fiber;
    }
}

static void
run_block(void)
{
    shim.done_count = 0;
    shim.barrier_count = 0;
    for (int i = 0; i < shim.thread_count; i++) {
        shim.threads[i].collected = 0;
        set_runnable(i, THREAD_FRESH);
    }
    for (int i = 0; i < WARPS_MAX; i++) {
        shim.warps[i].waiting = 0;
    }
    for (int i = 0; i < shim.shared_count; i++) {
        poison(&shim.shared[i]);
    }
    go_on(&shim.main_fiber, take_runnable());
    if (shim.done_count < shim.thread_count) {
        if (!shim.fault[0]) {
            write_stuck();
        }
        memset(shim.runnable, 0, sizeof(shim.runnable));
        forget_fibers();
    }
}

/* The block that runs as number `at`. A random order begins anywhere and goes on in equal strides
 * that meet each block once. */
static uint64_t
block_at(uint64_t at, uint64_t count, uint64_t start, uint64_t stride)
{
    switch (shim.order) {
    case CADRE_SHIM_FORWARD:
        return at;
    case CADRE_SHIM_BACKWARD:
        return count - 1 - at;
    case CADRE_SHIM_RANDOM:
        break;
    }
    return (start + at * stride) % count;
}

static uint64_t
common_divisor(uint64_t left, uint64_t right)
{
    while (right > 0) {
        uint64_t rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

/* What every GPU since compute capability 3 takes. */
static bool
launchable(cadre_shim_index_t grid, cadre_shim_index_t block)
{
    enum { GRID_YZ_MAX = 65535, BLOCK_Z_MAX = 64 };
    return grid.x >= 1 && grid.x <= INT32_MAX && grid.y >= 1 && grid.y <= GRID_YZ_MAX &&
           grid.z >= 1 && grid.z <= GRID_YZ_MAX && count_of(block) >= 1 &&
           count_of(block) <= CADRE_SHIM_BLOCK_MAX && block.z <= BLOCK_Z_MAX;
}

int
cadre_shim_run(cadre_shim_index_t grid, cadre_shim_index_t block, cadre_shim_body_t *body,
               const void *context)
{
    if (!shim.fault[0] && !launchable(grid, block)) {
        (void)snprintf(shim.fault, sizeof(shim.fault),
                       "no GPU launches %u,%u,%u blocks of %u,%u,%u", grid.x, grid.y, grid.z,
                       block.x, block.y, block.z);
    }
    if (shim.fault[0]) {
        return -1;
    }
    if (shim.launches++ == 0) {
        forget_fibers();
    }
    shim.body = body;
    shim.body_context = context;
    shim.thread_count = (int)count_of(block);
    cadre_shim_block_size = block;
    uint64_t count = count_of(grid);
    uint64_t start = 0;
    uint64_t stride = 1;
    if (shim.order == CADRE_SHIM_RANDOM) {
        start = cadre_random_below(&shim.random, count);
        stride = 1 + cadre_random_below(&shim.random, count);
        while (common_divisor(count, stride) > 1) {
            stride++;
        }
    }
    for (uint64_t at = 0; at < count && !shim.fault[0]; at++) {
        uint64_t index = block_at(at, count, start, stride);
        cadre_shim_block_index =
            (cadre_shim_index_t){(unsigned)(index % grid.x), (unsigned)(index / grid.x % grid.y),
                                 (unsigned)(index / grid.x / grid.y)};
        run_block();
    }
    return shim.fault[0] ? -1 : 0;
}
