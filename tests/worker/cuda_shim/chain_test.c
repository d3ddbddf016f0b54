/*
 * Chains by the CUDA kernel: random ones and chosen ones, link by link beside the kernels of the
 * single operations, bit for bit, and beside the CPU.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "tests/worker/cuda_shim/shim/shim.h"
#include "worker/device/cpu.h"
#include "worker/device/cuda/kernels.h"

TestSuite(chain, .timeout = 240);

enum { VALUES_MAX = CADRE_CHAIN_INPUTS_MAX + CADRE_CHAIN_LINKS_MAX, SPARE = 16 };

typedef struct {
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
} shape_t;

/* A chain over inputs of those shapes; the first one has the output's. */
typedef struct {
    cadre_chain_t chain;
    int input_count;
    shape_t inputs[CADRE_CHAIN_INPUTS_MAX];
} case_t;

typedef struct {
    cadre_shim_order_t order;
    uint64_t seed;
    bool shifted;  /* all memory lies 4 bytes past a multiple of 16 */
    bool in_place; /* the output takes the first input's memory */
} chain_mode_t;

static const chain_mode_t modes[] = {
    {CADRE_SHIM_FORWARD, 0, false, false}, {CADRE_SHIM_BACKWARD, 0, false, true},
    {CADRE_SHIM_RANDOM, 1, true, false},   {CADRE_SHIM_RANDOM, 2, true, true},
    {CADRE_SHIM_RANDOM, 3, false, true},
};

static int64_t
count_of(const shape_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        count *= shape->shape[i];
    }
    return count;
}

static cadre_plan_value_t
value_of(const shape_t *shape)
{
    cadre_plan_value_t value = {.dtype = CADRE_F32, .rank = shape->rank, .count = count_of(shape)};
    memcpy(value.shape, shape->shape, sizeof(value.shape));
    value.size_bytes = (size_t)value.count * sizeof(float);
    return value;
}

static int
source_count(cadre_op_t op)
{
    return op == CADRE_OP_MAP1 ? 1 : op == CADRE_OP_MAP2 ? 2 : 3;
}

/* Numbers that all functions take, with a few that few do. */
static void
fill(float *data, int64_t count, uint64_t stream)
{
    static const float odd[] = {0, -0.0F, 1, NAN, INFINITY, -INFINITY, 1e-40F, 90};
    for (int64_t i = 0; i < count; i++) {
        float number = cadre_random_uniform(17, stream, (uint64_t)i);
        data[i] = number < 0.02F ? odd[i % 8] : 4 * number - 2;
    }
}

/* `input` as the output sees it. */
static float *
broadcast(const float *input, const shape_t *from, const shape_t *to)
{
    cadre_strided_t walk;
    cadre_strided_init(&walk, to->shape, to->rank);
    cadre_strided_broadcast(&walk, 0, from->shape, from->rank);
    cadre_strided_merge(&walk, 1);
    float *out = cadre_calloc((size_t)count_of(to) + 1, sizeof(*out));
    cadre_strided_place_t place;
    cadre_strided_start(&walk, &place);
    do {
        for (int64_t i = 0; i < walk.size[walk.rank - 1] && count_of(to) > 0; i++) {
            out[place.out + i] = input[place.at[0] + i * walk.stride[0][walk.rank - 1]];
        }
    } while (count_of(to) > 0 && cadre_strided_next(&walk, &place));
    return out;
}

/* One link over arrays of `count` elements, by the kernel of its operation or on the CPU. */
static void
run_link(const cadre_chain_link_t *link, float *const *values, float *out, int64_t count,
         bool on_cpu)
{
    shape_t shape = {1, {count}};
    cadre_plan_value_t value = value_of(&shape);
    cadre_plan_step_t step = {
        .op = link->op, .attributes = {link->function}, .input_count = source_count(link->op)};
    cadre_strided_init(&step.walk, shape.shape, 1);
    cadre_operands_t cpu = {.step = &step, .out = &value, .out_data = out};
    for (int i = 0; i < step.input_count; i++) {
        cadre_strided_broadcast(&step.walk, i, shape.shape, 1);
        cpu.inputs[i] = &value;
        cpu.data[i] = values[link->sources[i]];
    }
    cadre_strided_merge(&step.walk, step.input_count);
    if (on_cpu) {
        cr_assert_eq(cadre_cpu_step(&cpu), 0);
        return;
    }
    cadre_cuda_operands_t cuda = {.step = &step, .out = &value, .out_data = out};
    memcpy(cuda.inputs, cpu.inputs, sizeof(cuda.inputs));
    memcpy(cuda.data, cpu.data, sizeof(cuda.data));
    int status = link->op == CADRE_OP_MAP1   ? cadre_cuda_map1(&cuda, NULL)
                 : link->op == CADRE_OP_MAP2 ? cadre_cuda_map2(&cuda, NULL)
                                             : cadre_cuda_where(&cuda, NULL);
    cr_assert_eq(status, 0);
}

/* The chain's links one after the other; the caller frees. */
static float *
run_links(const case_t *it, float *const *inputs, bool on_cpu)
{
    int64_t count = count_of(&it->inputs[0]);
    float *values[VALUES_MAX] = {0};
    int last = it->input_count + it->chain.link_count - 1;
    for (int i = 0; i <= last; i++) {
        values[i] = i < it->input_count ? broadcast(inputs[i], &it->inputs[i], &it->inputs[0])
                                        : cadre_calloc((size_t)count + 1, sizeof(float));
    }
    for (int i = 0; i < it->chain.link_count && count > 0; i++) {
        run_link(&it->chain.links[i], values, values[it->input_count + i], count, on_cpu);
    }
    for (int i = 0; i < last; i++) {
        free(values[i]);
    }
    return values[last];
}

static void
run_chain(const case_t *it, float *const *inputs, const chain_mode_t *mode, float *out)
{
    const shape_t *shape = &it->inputs[0];
    cadre_plan_value_t values[CADRE_CHAIN_INPUTS_MAX];
    cadre_plan_step_t step = {.op = CADRE_STEP_CHAIN, .input_count = it->input_count};
    cadre_plan_value_t result = value_of(shape);
    cadre_cuda_operands_t operands = {.step = &step, .out = &result, .chain = &it->chain};
    void *blocks[CADRE_CHAIN_INPUTS_MAX + 1] = {0};
    size_t shift = mode->shifted ? sizeof(float) : 0;
    cadre_strided_init(&step.walk, shape->shape, shape->rank);
    for (int i = 0; i < it->input_count; i++) {
        cadre_strided_broadcast(&step.walk, i, it->inputs[i].shape, it->inputs[i].rank);
        values[i] = value_of(&it->inputs[i]);
        operands.inputs[i] = &values[i];
        blocks[i] = cadre_aligned_alloc(values[i].size_bytes + SPARE);
        operands.data[i] = (char *)blocks[i] + shift;
        memcpy((char *)blocks[i] + shift, inputs[i], values[i].size_bytes);
    }
    cadre_strided_merge(&step.walk, it->input_count);
    blocks[it->input_count] = cadre_aligned_alloc(result.size_bytes + SPARE);
    char *own = (char *)blocks[it->input_count] + shift;
    memset(blocks[it->input_count], 0xff, result.size_bytes + SPARE);
    operands.out_data = mode->in_place ? (char *)blocks[0] + shift : own;
    cadre_shim_set_order(mode->order, mode->seed);
    cr_assert_eq(cadre_cuda_chain(&operands, NULL), 0);
    cr_assert_null(cadre_shim_take_fault());
    memcpy(out, operands.out_data, result.size_bytes);
    uint32_t beyond = 0; /* nothing is written behind the output */
    memcpy(&beyond, own + result.size_bytes, sizeof(beyond));
    cr_assert_eq(beyond, UINT32_MAX);
    for (int i = 0; i <= it->input_count; i++) {
        free(blocks[i]);
    }
}

static void
check_equal(const float *got, const float *wanted, int64_t count, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        double a = (double)got[i];
        double b = (double)wanted[i];
        bool same = (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b));
        cr_assert(same, "at %d: %.9g, not %.9g", (int)i, a, b);
        cr_assert(a != 0 || tolerance > 0 || signbit(a) == signbit(b));
    }
}

/* In every mode the bits of the single kernels; within `tolerance` of the CPU, unless that is
 * negative. */
static void
check(const case_t *it, double tolerance)
{
    int64_t count = count_of(&it->inputs[0]);
    float *inputs[CADRE_CHAIN_INPUTS_MAX];
    for (int i = 0; i < it->input_count; i++) {
        inputs[i] = cadre_calloc((size_t)count_of(&it->inputs[i]) + 1, sizeof(float));
        fill(inputs[i], count_of(&it->inputs[i]), (uint64_t)i);
    }
    float *wanted = run_links(it, inputs, false);
    float *got = cadre_calloc((size_t)count + 1, sizeof(*got));
    for (size_t i = 0; i < CADRE_COUNT_OF(modes); i++) {
        run_chain(it, inputs, &modes[i], got);
        check_equal(got, wanted, count, 0);
    }
    if (tolerance >= 0) {
        float *on_cpu = run_links(it, inputs, true);
        check_equal(got, on_cpu, count, tolerance);
        free(on_cpu);
    }
    free(wanted);
    free(got);
    for (int i = 0; i < it->input_count; i++) {
        free(inputs[i]);
    }
}

/* ---- chosen chains ---- */

#define MAP1(name, x)                                                                              \
    {                                                                                              \
        .op = CADRE_OP_MAP1, .function = CADRE_MAP1_##name, .sources = { x }                       \
    }
#define MAP2(name, x, y)                                                                           \
    {                                                                                              \
        .op = CADRE_OP_MAP2, .function = CADRE_MAP2_##name, .sources = { x, y }                    \
    }
#define CHOOSE(x, y, z)                                                                            \
    {                                                                                              \
        .op = CADRE_OP_WHERE, .sources = { x, y, z }                                               \
    }

/* Bias and relu; sigmoid cross entropy; a choice; the step of an optimizer. */
static const struct {
    int input_count;
    cadre_chain_t chain;
} usual[] = {
    {2, {2, {MAP2(ADD, 0, 1), MAP1(RELU, 2)}}},
    {2, {3, {MAP1(SOFTPLUS, 0), MAP2(MUL, 0, 1), MAP2(SUB, 2, 3)}}},
    {3, {4, {MAP2(GT, 0, 1), MAP1(TANH, 2), CHOOSE(3, 0, 4), MAP1(NEG, 5)}}},
    {3, {5, {MAP1(SQUARE, 1), MAP2(MAX, 3, 2), MAP1(SQRT, 4), MAP2(MUL, 0, 5), MAP2(ADD, 6, 6)}}},
};

static const struct {
    shape_t out;
    shape_t second;
    shape_t third;
} shapes[] = {
    {{0, {0}}, {0, {0}}, {0, {0}}},
    {{1, {0}}, {1, {0}}, {0, {0}}},
    {{1, {1}}, {1, {1}}, {0, {0}}},
    {{1, {7}}, {1, {7}}, {0, {0}}},
    {{1, {1031}}, {0, {0}}, {1, {1031}}},
    {{1, {4099}}, {1, {4099}}, {1, {1}}},
    {{1, {40009}}, {1, {40009}}, {1, {40009}}},
    {{2, {64, 12}}, {1, {12}}, {2, {64, 1}}},
    {{2, {37, 13}}, {1, {13}}, {2, {37, 1}}},
    {{2, {5, 0}}, {2, {5, 1}}, {0, {0}}},
    {{3, {3, 5, 8}}, {3, {3, 1, 8}}, {2, {5, 1}}},
    {{4, {2, 3, 4, 8}}, {4, {1, 3, 1, 8}}, {4, {2, 1, 4, 1}}},
    {{4, {7, 5, 3, 11}}, {4, {1, 5, 1, 11}}, {4, {7, 1, 3, 1}}},
    {{4, {3, 7, 5, 16}}, {3, {7, 1, 16}}, {4, {3, 1, 5, 16}}},
};

Test(chain, usual_chains_over_awkward_shapes)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(usual); i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(shapes); k++) {
            case_t it = {.chain = usual[i].chain,
                         .input_count = usual[i].input_count,
                         .inputs = {shapes[k].out, shapes[k].second, shapes[k].third}};
            check(&it, 1e-6);
        }
    }
}

Test(chain, each_function_first_and_last)
{
    shape_t shape = {1, {97}};
    for (int64_t function = 1; cadre_map1_valid(function); function++) {
        case_t it = {
            .chain = {2, {MAP1(ABS, 0), MAP1(NEG, 1)}}, .input_count = 1, .inputs = {shape}};
        for (int place = 0; place < 2; place++) {
            case_t changed = it;
            changed.chain.links[place].function = function;
            check(&changed, 1e-6);
        }
    }
    for (int64_t function = 1; cadre_map2_valid(function); function++) {
        case_t it = {.chain = {2, {MAP2(ADD, 0, 1), MAP2(SUB, 2, 0)}},
                     .input_count = 2,
                     .inputs = {shape, shape}};
        it.chain.links[0].function = function;
        check(&it, 1e-6);
        it.chain.links[0].function = CADRE_MAP2_MUL;
        it.chain.links[1].function = function;
        check(&it, 1e-6);
    }
}

/* All inputs and most results are needed to the end: more than the few registers. */
Test(chain, many_values_at_a_time)
{
    case_t it = {
        .chain = {12,
                  {MAP1(NEG, 0), MAP1(ABS, 1), MAP1(SQUARE, 2), MAP1(TANH, 3), MAP1(RELU, 4),
                   MAP1(SIGMOID, 5), CHOOSE(0, 6, 7), CHOOSE(1, 8, 9), CHOOSE(2, 10, 11),
                   MAP2(ADD, 12, 3), CHOOSE(15, 13, 14), MAP2(SUB, 16, 5)}},
        .input_count = 6,
        .inputs = {{2, {29, 8}}, {1, {8}}, {2, {29, 1}}, {2, {29, 8}}, {0, {0}}, {2, {29, 8}}}};
    check(&it, 1e-6);
    it.inputs[0] = it.inputs[3] = it.inputs[5] = (shape_t){2, {29, 7}};
    it.inputs[1] = (shape_t){1, {7}};
    check(&it, 1e-6);
}

Test(chain, one_link_and_the_most_links)
{
    shape_t shape = {1, {131}};
    case_t it = {.chain = {1, {MAP1(NEG, 0)}}, .input_count = 1, .inputs = {shape}};
    check(&it, 0);
    it.chain.link_count = CADRE_CHAIN_LINKS_MAX;
    for (int i = 0; i < CADRE_CHAIN_LINKS_MAX; i++) {
        it.chain.links[i] = (cadre_chain_link_t)MAP2(ADD, i, 0);
    }
    check(&it, 0);
}

/* ---- random chains ---- */

static uint32_t
draw(uint64_t seed, uint64_t *at, uint32_t bound)
{
    return (uint32_t)(cadre_random_uniform(23, seed, (*at)++) * (float)bound) % bound;
}

static case_t
random_case(uint64_t seed)
{
    uint64_t at = 0;
    case_t it = {.input_count = 1 + (int)draw(seed, &at, CADRE_CHAIN_INPUTS_MAX)};
    it.chain.link_count = 1 + (int)draw(seed, &at, CADRE_CHAIN_LINKS_MAX);
    for (int i = 0; i < it.chain.link_count; i++) {
        cadre_chain_link_t *link = &it.chain.links[i];
        uint32_t kind = draw(seed, &at, 5);
        link->op = kind < 2 ? CADRE_OP_MAP1 : kind < 4 ? CADRE_OP_MAP2 : CADRE_OP_WHERE;
        link->function = link->op == CADRE_OP_MAP1   ? 1 + (int64_t)draw(seed, &at, 16)
                         : link->op == CADRE_OP_MAP2 ? 1 + (int64_t)draw(seed, &at, 8)
                                                     : 0;
        for (int k = 0; k < source_count(link->op); k++) {
            link->sources[k] = (int)draw(seed, &at, (uint32_t)(it.input_count + i));
        }
    }
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 12};
    it.inputs[0].rank = (int)draw(seed, &at, CADRE_PROGRAM_RANK_MAX + 1);
    for (int i = 0; i < it.inputs[0].rank; i++) {
        it.inputs[0].shape[i] = sizes[draw(seed, &at, 7)];
    }
    for (int k = 1; k < it.input_count; k++) {
        int lost = (int)draw(seed, &at, (uint32_t)it.inputs[0].rank + 1);
        lost = draw(seed, &at, 2) ? 0 : lost;
        it.inputs[k].rank = it.inputs[0].rank - lost;
        for (int i = 0; i < it.inputs[k].rank; i++) {
            it.inputs[k].shape[i] = draw(seed, &at, 3) ? it.inputs[0].shape[i + lost] : 1;
        }
    }
    return it;
}

Test(chain, random_chains_give_the_bits_of_their_links)
{
    for (uint64_t seed = 0; seed < 600; seed++) {
        case_t it = random_case(seed);
        check(&it, -1);
    }
}
