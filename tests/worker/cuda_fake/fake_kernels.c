/* kernels.h by the operations of the CPU device, run when the stream gets there. */
#include "worker/device/cuda/kernels.h"

#include <math.h>
#include <string.h>

#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/cpu.h"

static void
run_step(const void *argument)
{
    const cadre_cuda_operands_t *from = argument;
    cadre_operands_t operands = {.seed = *from->seed};
    operands.step = from->step;
    operands.chain = from->chain;
    operands.out = from->out;
    operands.out_data = from->out_data;
    memcpy(operands.inputs, from->inputs, sizeof(operands.inputs));
    memcpy(operands.data, from->data, sizeof(operands.data));
    if (cadre_cpu_step(&operands) < 0) {
        *from->fault = 1;
    }
    if (from->scratch) {
        memset(from->scratch, 0x55, cadre_cuda_scratch_size_bytes(from));
    }
}

/* Every op takes some, whose content is destroyed: it must overlap nothing. */
size_t
cadre_cuda_scratch_size_bytes(const cadre_cuda_operands_t *operands)
{
    return 64 + (size_t)operands->out->count % 1000;
}

#define FAKE_KERNEL(name)                                                                          \
    int name(const cadre_cuda_operands_t *operands, void *stream)                                  \
    {                                                                                              \
        if (fake_error(#name)) {                                                                   \
            return CADRE_EDEVICE;                                                                  \
        }                                                                                          \
        fake_enqueue(stream, run_step, operands, sizeof(*operands));                               \
        return 0;                                                                                  \
    }

#define ROW(NAME, number, word, ...) FAKE_KERNEL(cadre_cuda_##word)
CADRE_OP_ELEMENT_LIST(ROW)
CADRE_OP_KERNEL_LIST(ROW)
#undef ROW
FAKE_KERNEL(cadre_cuda_chain)

typedef struct {
    const void *x;
    void *out;
    int64_t count;
    int32_t *flag;
} convert_t;

static void
to_bf16(const void *argument)
{
    const convert_t *convert = argument;
    if (!cadre_bf16_from_f32(convert->x, convert->out, (size_t)convert->count)) {
        *convert->flag = 1;
    }
}

static void
from_bf16(const void *argument)
{
    const convert_t *convert = argument;
    cadre_bf16_to_f32(convert->x, convert->out, (size_t)convert->count);
}

int
cadre_cuda_to_bf16(const float *x, uint16_t *out, int64_t count, int32_t *not_finite, void *stream)
{
    convert_t convert = {.x = x, .out = out, .count = count, .flag = not_finite};
    if (fake_error(__func__)) {
        return CADRE_EDEVICE;
    }
    fake_enqueue(stream, to_bf16, &convert, sizeof(convert));
    return 0;
}

int
cadre_cuda_from_bf16(const uint16_t *x, float *out, int64_t count, void *stream)
{
    convert_t convert = {.x = x, .out = out, .count = count};
    if (fake_error(__func__)) {
        return CADRE_EDEVICE;
    }
    fake_enqueue(stream, from_bf16, &convert, sizeof(convert));
    return 0;
}

typedef struct {
    const float *x;
    int64_t count;
    float limit;
    int32_t *flag;
} limit_t;

static int64_t limits_passed;

int64_t
fake_limits_passed(void)
{
    return limits_passed;
}

static void
check_limit(const void *argument)
{
    const limit_t *limit = argument;
    for (int64_t i = 0; i < limit->count; i++) {
        if (!(fabsf(limit->x[i]) <= limit->limit)) {
            *limit->flag = 1;
            limits_passed++;
        }
    }
}

int
cadre_cuda_check_limit(const float *x, int64_t count, float limit, int32_t *flag, void *stream)
{
    if (fake_error(__func__)) {
        return CADRE_EDEVICE;
    }
    limit_t argument = {.x = x, .count = count, .limit = limit, .flag = flag};
    fake_enqueue(stream, check_limit, &argument, sizeof(argument));
    return 0;
}
