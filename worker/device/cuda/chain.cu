/*
 * chain - elementwise operations that were fused: their inputs are read once, their result is
 * written once, and what lies between exists in registers only.
 *
 * One kernel interprets any chain: its links are the kernel's parameter, the same for all threads,
 * so no branch diverges, and one thread decodes each link for four neighbouring elements. Compiling
 * a kernel per chain at run time was rejected: NVRTC would be one more library to find on a worker,
 * and plans would take seconds to make. What is left of speed goes to the decoding, which hides
 * behind memory for chains of a few links.
 *
 * The links of a loop that is not unrolled share nothing: no product is contracted with the next
 * link's sum, and the bits are those of the links as steps of their own.
 */
#include "worker/device/cuda/functions.cuh"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/walk.cuh"

enum {
    VALUES_MAX = CADRE_CHAIN_INPUTS_MAX + CADRE_CHAIN_LINKS_MAX,
    REGISTERS_FEW =
        8,         /* what most chains need; few, so that many threads fit on a multiprocessor */
    CODE_MAP1 = 0, /* the code of a link: one of these bases + the number of its function */
    CODE_MAP2 = 32,
    CODE_WHERE = 64,
};

static_assert(REGISTERS_FEW >= int{CADRE_CHAIN_INPUTS_MAX}, "each input begins in a register");

struct chain_link_t {
    uint8_t code;
    uint8_t sources[3]; /* registers */
    uint8_t target;     /* register; may be one of the sources */
};

/* What the kernel interprets. At first, input i is in register i. */
struct chain_code_t {
    int input_count;
    int link_count;
    chain_link_t links[CADRE_CHAIN_LINKS_MAX];
};

template <int width> struct alignas(width * sizeof(float)) numbers_t {
    float words[width];
};

/* ---- a register file: an access compares its index with that of every register ---- */

/* Returns register `index` of the file. A GPU cannot index registers, so every one is compared. */
template <int registers, int width>
static __device__ __forceinline__ numbers_t<width>
get(const numbers_t<width> (&file)[registers], int index)
{
    numbers_t<width> value = file[0];
#pragma unroll
    for (int i = 1; i < registers; i++) {
        if (index == i) {
            value = file[i];
        }
    }
    return value;
}

/* Sets register `index` of the file. */
template <int registers, int width>
static __device__ __forceinline__ void
set(numbers_t<width> (&file)[registers], int index, const numbers_t<width> &value)
{
#pragma unroll
    for (int i = 0; i < registers; i++) {
        if (index == i) {
            file[i] = value;
        }
    }
}

/* ---- links ---- */

/* Applies a function of one number to each word of x. */
template <int width>
static __device__ __forceinline__ numbers_t<width>
apply_map1(int code, const numbers_t<width> &x)
{
    numbers_t<width> y = {};
    switch (code) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CODE_MAP1 + CADRE_MAP1_##NAME:                                                            \
        for (int k = 0; k < width; k++) {                                                          \
            y.words[k] = cadre_element_##name(x.words[k]);                                         \
        }                                                                                          \
        break;
        CADRE_MAP1_LIST(FUNCTION)
#undef FUNCTION
    default:
        break;
    }
    return y;
}

/* Applies a function of two numbers to each pair of words. */
template <int width>
static __device__ __forceinline__ numbers_t<width>
apply_map2(int code, const numbers_t<width> &left, const numbers_t<width> &right)
{
    numbers_t<width> y = {};
    switch (code) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CODE_MAP2 + CADRE_MAP2_##NAME:                                                            \
        for (int k = 0; k < width; k++) {                                                          \
            y.words[k] = cadre_element_##name(left.words[k], right.words[k]);                      \
        }                                                                                          \
        break;
        CADRE_MAP2_LIST(FUNCTION)
#undef FUNCTION
    default:
        break;
    }
    return y;
}

/* Computes a link (one operation of a chain) from the registers that it names. */
template <int registers, int width>
static __device__ __forceinline__ numbers_t<width>
apply_link(const chain_link_t &link, const numbers_t<width> (&file)[registers])
{
    numbers_t<width> first = get(file, link.sources[0]);
    if (link.code < CODE_MAP2) {
        return apply_map1(link.code, first);
    }
    numbers_t<width> second = get(file, link.sources[1]);
    if (link.code < CODE_WHERE) {
        return apply_map2(link.code, first, second);
    }
    numbers_t<width> third = get(file, link.sources[2]);
    numbers_t<width> y;
    for (int k = 0; k < width; k++) {
        y.words[k] = cadre_element_where(first.words[k], second.words[k], third.words[k]);
    }
    return y;
}

/* ---- the kernel ---- */

/* Returns `count` elements from `data` on: consecutive ones (stride 1), or one for all (stride
 * 0). */
template <int width>
static __device__ __forceinline__ numbers_t<width>
load(const float *data, int64_t stride, int count)
{
    numbers_t<width> value = {};
    if (stride == 1 && count == width) {
        return *reinterpret_cast<const numbers_t<width> *>(data);
    }
    for (int k = 0; k < width; k++) {
        value.words[k] = k < count ? data[k * stride] : 0;
    }
    return value;
}

/* Computes a chain for `width` neighbouring elements per thread: loads the inputs into registers,
 * runs the links one after the other, writes the last link's result. */
template <int registers, int width, typename divider_t>
static __global__ void
chain_kernel(const __grid_constant__ chain_code_t code,
             const __grid_constant__ walk_t<CADRE_CHAIN_INPUTS_MAX, divider_t> walk)
{
    uint64_t unit = unit_index();
    int64_t first = static_cast<int64_t>(unit) * width;
    if (first >= walk.count) {
        return;
    }
    int count = walk.count - first < width ? static_cast<int>(walk.count - first) : width;
    int64_t at[CADRE_CHAIN_INPUTS_MAX] = {};
    walk_find<width>(walk, unit, code.input_count, at);
    numbers_t<width> file[registers] = {};
    for (int i = 0; i < CADRE_CHAIN_INPUTS_MAX && i < code.input_count; i++) {
        file[i] = load<width>(static_cast<const float *>(walk.data[i]) + at[i],
                              walk.stride[i][walk.rank - 1], count);
    }
    numbers_t<width> value = {};
#pragma unroll 1
    for (int i = 0; i < code.link_count; i++) {
        value = apply_link(code.links[i], file);
        set(file, code.links[i].target, value);
    }
    float *out = static_cast<float *>(walk.out) + first;
    if (count == width) {
        *reinterpret_cast<numbers_t<width> *>(out) = value;
        return;
    }
    for (int k = 0; k < count; k++) { /* the last vector of an array */
        out[k] = value.words[k];
    }
}

/* ---- launching ---- */

/* Returns how many numbers an element operation reads. */
static int
source_count(cadre_op_t op)
{
    if (op == CADRE_OP_MAP1) {
        return 1;
    }

    return op == CADRE_OP_MAP2 ? 2 : 3;
}

/* Gives each value the lowest free register, and frees that after the last link that reads the
 * value. Returns how many registers the chain takes. */
static int
assign_registers(const cadre_chain_t *chain, int input_count, chain_code_t *code)
{
    int last_use[VALUES_MAX] = {};
    int place[VALUES_MAX] = {};
    bool taken[VALUES_MAX] = {};
    int registers = input_count;
    for (int i = 0; i < chain->link_count; i++) {
        for (int k = 0; k < source_count(chain->links[i].op); k++) {
            last_use[chain->links[i].sources[k]] = i;
        }
    }
    for (int i = 0; i < input_count; i++) {
        place[i] = i;
        taken[i] = true;
    }
    for (int i = 0; i < chain->link_count; i++) {
        const cadre_chain_link_t *link = &chain->links[i];
        for (int k = 0; k < source_count(link->op); k++) {
            int source = link->sources[k];
            code->links[i].sources[k] = static_cast<uint8_t>(place[source]);
            taken[place[source]] = last_use[source] > i;
        }
        int target = 0;
        while (taken[target]) {
            target++;
        }
        taken[target] = true;
        place[input_count + i] = target;
        code->links[i].target = static_cast<uint8_t>(target);
        registers = target < registers ? registers : target + 1;
    }
    return registers;
}

/* Launches the chain with so many registers and `width` elements per thread. */
template <int registers, int width, typename divider_t>
static int
launch_chain_sized(const chain_code_t &code, const walk_memory_t &memory)
{
    walk_t<CADRE_CHAIN_INPUTS_MAX, divider_t> walk;
    walk_init<width>(&walk, memory, code.input_count, sizeof(float));
    uint64_t units = (static_cast<uint64_t>(memory.count) + width - 1) / width;
    return launch(chain_kernel<registers, width, divider_t>, block_count(units), BLOCK,
                  memory.stream, code, walk);
}

/* Launches the chain: four elements per thread where alignment allows it, with 32-bit index
 * arithmetic where the output is small enough. */
template <int registers>
static int
launch_chain(const chain_code_t &code, const walk_memory_t &memory)
{
    bool vectors = walk_takes_vectors(memory, code.input_count);
    bool small = memory.count <= INT32_MAX;
    if (vectors) {
        return small ? launch_chain_sized<registers, VECTOR, divider32_t>(code, memory)
                     : launch_chain_sized<registers, VECTOR, divider64_t>(code, memory);
    }
    return small ? launch_chain_sized<registers, 1, divider32_t>(code, memory)
                 : launch_chain_sized<registers, 1, divider64_t>(code, memory);
}

/* Returns the number by which the kernel knows the operation of a link. */
static uint8_t
code_of(const cadre_chain_link_t *link)
{
    if (link->op == CADRE_OP_WHERE) {
        return CODE_WHERE;
    }

    int base = link->op == CADRE_OP_MAP1 ? CODE_MAP1 : CODE_MAP2;
    return static_cast<uint8_t>(base + link->function);
}

/* Enqueues a chain of element operations as one kernel, which interprets them. */
int
cadre_cuda_chain(const cadre_cuda_operands_t *operands, void *stream)
{
    const cadre_chain_t *chain = operands->chain;
    walk_memory_t memory = walk_memory(operands, stream);
    chain_code_t code = {};
    code.input_count = operands->step->input_count;
    code.link_count = chain->link_count;
    for (int i = 0; i < chain->link_count; i++) {
        const cadre_chain_link_t *link = &chain->links[i];
        code.links[i].code = code_of(link);
    }
    int registers = assign_registers(chain, code.input_count, &code);
    if (memory.count == 0) {
        return 0;
    }
    return registers <= REGISTERS_FEW ? launch_chain<REGISTERS_FEW>(code, memory)
                                      : launch_chain<VALUES_MAX>(code, memory);
}
