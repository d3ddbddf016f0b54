/*
 * sort - a radix sort by digits of eight bits, the lowest first; each pass is stable.
 *
 * A pass counts the digits of each tile of keys, finds where the keys of each tile and digit go,
 * and moves them. A block moves a tile, 256 keys at a time: lanes of a warp with the same digit
 * find their rank by a warp vote, warps by counts in shared memory. All sums are of integers, so
 * that the result is the same in every run. A library's sort would do as well; this one also runs
 * on the shim.
 */
#include "worker/device/cuda/sort.cuh"

enum {
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    TILE_ROUNDS = 4,
    TILE_KEYS = TILE_ROUNDS * BLOCK,
};

static const unsigned NO_DIGIT = DIGITS;

static_assert(NO_DIGIT == BLOCK, "a thread per digit");

struct pass_t {
    int64_t count;
    int64_t tiles;
    int shift;
    const uint32_t *rows;
    const uint32_t *positions;
    uint32_t *rows_out;
    uint32_t *positions_out;
    uint32_t
        *counts; /* [digits, tiles]: how many keys of a tile have a digit; then where they begin
                         among all keys of that digit */
    uint32_t *totals; /* [digits]: how many keys have the digit */
};

struct keys_t {
    sort_t sort;
    uint32_t *rows;
    uint32_t *positions;
};

/* Makes the keys to sort: the row of each entry with its position in the index. An entry that names
 * no row gets the row behind the last; unless it is allowed padding, it sets the fault flag. */
static __global__ void
make_keys(const __grid_constant__ keys_t keys)
{
    uint64_t at = unit_index();
    if (at >= static_cast<uint64_t>(keys.sort.count)) {
        return;
    }
    int32_t row = keys.sort.index[at];
    bool valid = row >= 0 && row < keys.sort.rows;
    if (!valid && !(keys.sort.padding && row == -1)) {
        *keys.sort.fault = 1;
    }
    keys.rows[at] = static_cast<uint32_t>(valid ? row : keys.sort.rows);
    keys.positions[at] = static_cast<uint32_t>(at);
}

/* Returns the digit of a key that this pass sorts by. */
static __device__ __forceinline__ unsigned
digit_of(const pass_t &pass, uint32_t row)
{
    return row >> pass.shift & (DIGITS - 1);
}

/* Each block counts how often each digit occurs among the keys of its tile. Thread i clears and
 * writes the count of digit i (BLOCK equals DIGITS). The counts of one digit lie side by side, tile
 * after tile, for the prefix sum that follows. */
static __global__ void
count_digits(const __grid_constant__ pass_t pass)
{
    CADRE_SHARED(uint32_t, counts, DIGITS);
    counts[threadIdx.x] = 0;
    __syncthreads();
    int64_t first = static_cast<int64_t>(blockIdx.x) * TILE_KEYS + threadIdx.x;
    for (int round = 0; round < TILE_ROUNDS; round++) {
        int64_t at = first + round * BLOCK;
        if (at < pass.count) {
            atomicAdd(&counts[digit_of(pass, pass.rows[at])], 1U);
        }
    }
    __syncthreads();
    pass.counts[threadIdx.x * pass.tiles + blockIdx.x] = counts[threadIdx.x];
}

/* Returns the sum of `value` over the threads before this one; *total becomes the sum over all
 * threads of the block. `shared` has room for WARPS numbers; the caller puts a barrier before
 * its next use. */
static __device__ __forceinline__ uint32_t
sum_before(uint32_t value, uint32_t *shared, uint32_t *total)
{
    int lane = static_cast<int>(threadIdx.x) % WARP;
    int warp = static_cast<int>(threadIdx.x) / WARP;
    uint32_t sum = value;
    for (int lanes = 1; lanes < WARP; lanes *= 2) {
        uint32_t other = __shfl_up_sync(ALL_LANES, sum, lanes);
        sum += lane >= lanes ? other : 0;
    }
    if (lane == WARP - 1) {
        shared[warp] = sum;
    }
    __syncthreads();
    uint32_t before = sum - value;
    *total = 0;
    for (int other = 0; other < WARPS; other++) {
        before += other < warp ? shared[other] : 0;
        *total += shared[other];
    }
    return before;
}

/* Turns the counts of one digit per block into the places where each tile's keys begin. */
static __global__ void
find_tiles(const __grid_constant__ pass_t pass)
{
    CADRE_SHARED(uint32_t, shared, WARPS);
    uint32_t *counts = pass.counts + blockIdx.x * pass.tiles;
    uint32_t begin = 0;
    for (int64_t first = 0; first < pass.tiles; first += BLOCK) {
        int64_t tile = first + threadIdx.x;
        uint32_t total;
        uint32_t before = sum_before(tile < pass.tiles ? counts[tile] : 0, shared, &total);
        if (tile < pass.tiles) {
            counts[tile] = begin + before;
        }
        begin += total;
        __syncthreads(); /* before the next round writes to `shared` */
    }
    if (threadIdx.x == 0) {
        pass.totals[blockIdx.x] = begin;
    }
}

/* Moves the keys of a tile per block; thread `d` keeps where the next key with digit `d` goes. */
static __global__ void
move_keys(const __grid_constant__ pass_t pass)
{
    CADRE_SHARED(uint32_t, shared, WARPS);
    CADRE_SHARED(uint32_t, places, WARPS * DIGITS);
    unsigned lane = threadIdx.x % WARP;
    unsigned warp = threadIdx.x / WARP;
    uint32_t total;
    uint32_t next = sum_before(pass.totals[threadIdx.x], shared, &total) +
                    pass.counts[threadIdx.x * pass.tiles + blockIdx.x];
    for (int round = 0; round < TILE_ROUNDS; round++) {
        for (unsigned other = 0; other < WARPS; other++) {
            places[other * DIGITS + threadIdx.x] = 0;
        }
        __syncthreads(); /* zeros before counts */
        int64_t at = static_cast<int64_t>(blockIdx.x) * TILE_KEYS + round * BLOCK + threadIdx.x;
        bool present = at < pass.count;
        uint32_t row = present ? pass.rows[at] : 0;
        unsigned digit = present ? digit_of(pass, row) : NO_DIGIT;
        unsigned same = __match_any_sync(ALL_LANES, digit);
        uint32_t rank = static_cast<uint32_t>(__popc(same & ((1U << lane) - 1)));
        if (present && rank == 0) {
            places[warp * DIGITS + digit] = static_cast<uint32_t>(__popc(same));
        }
        __syncthreads(); /* all counts are complete before they become places */
        for (unsigned other = 0; other < WARPS; other++) {
            uint32_t count = places[other * DIGITS + threadIdx.x];
            places[other * DIGITS + threadIdx.x] = next;
            next += count;
        }
        __syncthreads(); /* all places are set before they are used */
        if (present) {
            uint32_t to = places[warp * DIGITS + digit] + rank;
            pass.rows_out[to] = row;
            pass.positions_out[to] = pass.positions[at];
        }
        __syncthreads(); /* all places were used before they are zeroed again */
    }
}

/* ---- the host ---- */

/* Returns how many tiles so many keys make. */
static int64_t
tiles_of(int64_t count)
{
    return (count + TILE_KEYS - 1) / TILE_KEYS;
}

size_t
cadre_cuda_sort_scratch(int64_t count)
{
    return 4 * scratch_part(count, sizeof(uint32_t)) +
           scratch_part(DIGITS * tiles_of(count), sizeof(uint32_t)) +
           scratch_part(DIGITS, sizeof(uint32_t));
}

/* Launches one pass of the radix sort: count, find places, move. */
static int
run_pass(const pass_t &pass, void *stream)
{
    unsigned tiles = static_cast<unsigned>(pass.tiles);
    int status = launch(count_digits, tiles, BLOCK, stream, pass);
    status = status < 0 ? status : launch(find_tiles, DIGITS, BLOCK, stream, pass);
    return status < 0 ? status : launch(move_keys, tiles, BLOCK, stream, pass);
}

/* Enqueues the sort of an index by row, and within a row by position: one pass for each digit that
 * row numbers have. Two pairs of arrays take turns as input and output. */
int
cadre_cuda_sort(const sort_t &sort, sorted_t *out)
{
    size_t size = scratch_part(sort.count, sizeof(uint32_t));
    char *memory = static_cast<char *>(sort.scratch);
    uint32_t *words[4];
    for (int i = 0; i < 4; i++) {
        words[i] = reinterpret_cast<uint32_t *>(memory + static_cast<size_t>(i) * size);
    }
    pass_t pass = {};
    pass.count = sort.count;
    pass.tiles = tiles_of(sort.count);
    pass.counts = reinterpret_cast<uint32_t *>(memory + 4 * size);
    pass.totals = reinterpret_cast<uint32_t *>(memory + 4 * size +
                                               scratch_part(DIGITS * pass.tiles, sizeof(uint32_t)));
    keys_t keys = {sort, words[0], words[1]};
    int status =
        launch(make_keys, block_count(static_cast<uint64_t>(sort.count)), BLOCK, sort.stream, keys);
    int from = 0;
    while (status == 0 && sort.rows >> pass.shift > 0) {
        pass.rows = words[from];
        pass.positions = words[from + 1];
        from = 2 - from;
        pass.rows_out = words[from];
        pass.positions_out = words[from + 1];
        status = run_pass(pass, sort.stream);
        pass.shift += DIGIT_BITS;
    }
    *out = {words[from], words[from + 1]};
    return status;
}
