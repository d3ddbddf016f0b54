#include "worker/device/cuda/execution.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"
#include "worker/device/arena.h"
#include "worker/device/cuda/matmul.h"
#include "worker/device/cuda/steps.h"

struct cadre_execution {
    cadre_lane_t *lane;
    const cadre_plan_t *plan;
    cadre_layout_t layout;
    char *constants;               /* on the device */
    size_t *constant_offsets;      /* [plan->constant_count] */
    cadre_cuda_matmul_t **matmuls; /* [plan->step_count], NULL for other steps */
    size_t scratch_size_bytes;
    bool warm; /* it has run */
    cudaGraphExec_t graph;
    const char *graph_block; /* the memory that the graph is for */
};

const cadre_plan_t *
cadre_execution_plan(const cadre_execution_t *self)
{
    return self->plan;
}

const cadre_layout_t *
cadre_execution_layout(const cadre_execution_t *self)
{
    return &self->layout;
}

size_t
cadre_execution_size_bytes(const cadre_execution_t *self)
{
    return self->layout.size_bytes + self->scratch_size_bytes;
}

/* ---- making ---- */

static size_t
rounded(size_t size_bytes)
{
    const size_t unit = CADRE_ARENA_ALIGNMENT;
    return (size_bytes + unit - 1) / unit * unit;
}

/* A constant's value is the root of its own leaf. */
static const cadre_plan_value_t *
constant_value(const cadre_plan_t *plan, int index)
{
    for (int i = 0; i < plan->value_count; i++) {
        const cadre_plan_value_t *value = &plan->values[i];
        if (value->root == i && value->place.kind == CADRE_PLACE_CONSTANT &&
            value->place.index == index) {
            return value;
        }
    }
    return NULL;
}

static int
copy_constants(cadre_execution_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->constant_offsets = cadre_calloc((size_t)plan->constant_count, sizeof(size_t));
    size_t end = 0;
    for (int i = 0; i < plan->constant_count; i++) {
        const cadre_plan_value_t *value = constant_value(plan, i);
        self->constant_offsets[i] = end;
        end += value ? rounded(value->size_bytes) : 0;
    }
    if (end == 0) {
        return 0;
    }
    void *memory = NULL;
    CADRE_CUDA_TRY(cudaMalloc(&memory, end));
    self->constants = memory;
    for (int i = 0; i < plan->constant_count; i++) {
        const cadre_plan_value_t *value = constant_value(plan, i);
        if (value) {
            CADRE_CUDA_TRY(cudaMemcpy(self->constants + self->constant_offsets[i],
                                      plan->constants[i], value->size_bytes,
                                      cudaMemcpyHostToDevice));
        }
    }
    return 0;
}

static void *
place_data(const cadre_execution_t *self, const char *block, cadre_plan_place_t place)
{
    const char *data = place.kind == CADRE_PLACE_CONSTANT
                           ? self->constants + self->constant_offsets[place.index]
                           : block + cadre_layout_offset(&self->layout, place);
    return (void *)(uintptr_t)data;
}

static void *
value_data(const cadre_execution_t *self, const char *block, int32_t value)
{
    const cadre_plan_value_t *values = self->plan->values;
    return place_data(self, block, values[values[value].root].place);
}

static void
find_operands(const cadre_execution_t *self, const char *block, int at,
              cadre_cuda_operands_t *operands)
{
    const cadre_plan_t *plan = self->plan;
    const cadre_plan_step_t *step = &plan->steps[at];
    operands->step = step;
    operands->out = &plan->values[step->output];
    operands->out_data = value_data(self, block, step->output);
    for (int i = 0; i < step->input_count; i++) {
        operands->inputs[i] = &plan->values[step->inputs[i]];
        operands->data[i] = value_data(self, block, step->inputs[i]);
    }
    operands->seed = (const void *)(block + self->layout.seed_offset);
    operands->fault = (void *)(uintptr_t)(block + self->layout.flags_offset);
    operands->scratch = (void *)(uintptr_t)(block + rounded(self->layout.size_bytes));
}

static int
prepare_steps(cadre_execution_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->matmuls = cadre_calloc((size_t)plan->step_count, sizeof(cadre_cuda_matmul_t *));
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        if (step->op == CADRE_OP_MATMUL) {
            int status = cadre_cuda_matmul_new(self->lane, plan, step, &self->matmuls[at]);
            if (status < 0) {
                return status;
            }
            continue;
        }
        if (!cadre_cuda_step_exists(step->op)) {
            return cadre_fail(CADRE_EINVALID, "%s: this device has no kernel for it",
                              cadre_op_text(step->op, step->attributes[0]));
        }
        cadre_cuda_operands_t operands = {0};
        find_operands(self, NULL, at, &operands);
        size_t size_bytes = cadre_cuda_scratch_size_bytes(&operands);
        if (size_bytes > self->scratch_size_bytes) {
            self->scratch_size_bytes = size_bytes;
        }
    }
    if (self->scratch_size_bytes > 0) { /* with what rounding its begin may cost */
        self->scratch_size_bytes += CADRE_ARENA_ALIGNMENT;
    }
    return 0;
}

int
cadre_execution_new(cadre_lane_t *lane, const cadre_plan_t *plan, cadre_execution_t **out)
{
    cadre_auto(cadre_execution_destroy) cadre_execution_t *self = cadre_calloc(1, sizeof(*self));
    self->lane = lane;
    self->plan = plan;
    cadre_layout_init(&self->layout, plan);
    int status = copy_constants(self);
    status = status < 0 ? status : prepare_steps(self);
    if (status < 0) {
        return status;
    }
    *out = self;
    self = NULL;
    return 0;
}

void
cadre_execution_destroy(cadre_execution_t **self_p)
{
    cadre_execution_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    if (self->graph) {
        cudaGraphExecDestroy(self->graph);
    }
    for (int at = 0; self->matmuls && at < self->plan->step_count; at++) {
        cadre_cuda_matmul_destroy(&self->matmuls[at]);
    }
    cudaFree(self->constants);
    free((void *)self->matmuls);
    free(self->constant_offsets);
    cadre_layout_fini(&self->layout);
    free(self);
}

/* ---- running ---- */

/* Inside a graph an event must be recorded for who waits outside of it. */
static int
record_ready(const cadre_execution_t *self, const cadre_execution_memory_t *memory, int done,
             int *group, cudaStream_t stream)
{
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    CADRE_CUDA_TRY(cudaStreamIsCapturing(stream, &capturing));
    unsigned flags = capturing == cudaStreamCaptureStatusActive ? cudaEventRecordExternal
                                                                : cudaEventRecordDefault;
    while (*group < self->layout.group_count && self->layout.groups[*group].ready <= done) {
        CADRE_CUDA_TRY(cudaEventRecordWithFlags(memory->ready[*group], stream, flags));
        ++*group;
    }
    return 0;
}

static int
run_step(const cadre_execution_t *self, const char *block, int at, cudaStream_t stream)
{
    cadre_cuda_operands_t operands = {0};
    find_operands(self, block, at, &operands);
    return self->matmuls[at] ? cadre_cuda_matmul_run(self->matmuls[at], operands.data[0],
                                                     operands.data[1], operands.out_data, stream)
                             : cadre_cuda_step(&operands, stream);
}

static int
begin_steps(const cadre_execution_t *self, const cadre_execution_memory_t *memory,
            cudaStream_t stream)
{
    CADRE_CUDA_TRY(cudaMemsetAsync(memory->block + self->layout.flags_offset, 0,
                                   CADRE_LAYOUT_FLAGS * sizeof(int32_t), stream));
    size_t arena = self->plan->arena_size_bytes;
    if (memory->poison && arena > 0) {
        CADRE_CUDA_TRY(
            cudaMemsetAsync(memory->block + self->layout.arena_offset, 0xff, arena, stream));
    }
    return 0;
}

static int
copy_outputs(const cadre_execution_t *self, const char *block, cudaStream_t stream)
{
    const cadre_plan_t *plan = self->plan;
    for (int i = 0; i < plan->copy_count; i++) {
        const cadre_plan_copy_t *copy = &plan->copies[i];
        CADRE_CUDA_TRY(cudaMemcpyAsync(
            place_data(self, block, copy->to), value_data(self, block, copy->value),
            plan->values[copy->value].size_bytes, cudaMemcpyDeviceToDevice, stream));
    }
    return 0;
}

static int
enqueue_steps(const cadre_execution_t *self, const cadre_execution_memory_t *memory,
              cudaStream_t stream)
{
    int group = 0;
    int status = begin_steps(self, memory, stream);
    for (int at = 0; at < self->plan->step_count && status == 0; at++) {
        status = run_step(self, memory->block, at, stream);
        status = status < 0 ? status : record_ready(self, memory, at, &group, stream);
    }
    status = status < 0 ? status : copy_outputs(self, memory->block, stream);
    return status < 0 ? status : record_ready(self, memory, self->plan->step_count, &group, stream);
}

int
cadre_execution_record(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                       cudaStream_t stream)
{
    if (!self->warm || (self->graph && self->graph_block == memory->block)) {
        return 0;
    }
    if (self->graph) {
        CADRE_CUDA_TRY(cudaGraphExecDestroy(self->graph));
        self->graph = NULL;
    }
    cudaGraph_t graph = NULL;
    CADRE_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    int status = enqueue_steps(self, memory, stream);
    cudaError_t error = cudaStreamEndCapture(stream, &graph); /* in any case */
    if (status == 0 && error != cudaSuccess) {
        status = cadre_cuda_fail(error, "cudaStreamEndCapture");
    }
    if (status < 0) {
        if (graph) {
            cudaGraphDestroy(graph);
        }
        return status;
    }
    error = cudaGraphInstantiate(&self->graph, graph, 0);
    cudaGraphDestroy(graph);
    if (error != cudaSuccess) {
        self->graph = NULL;
        return cadre_cuda_fail(error, "cudaGraphInstantiate");
    }
    self->graph_block = memory->block;
    return 0;
}

int
cadre_execution_enqueue(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                        cudaStream_t stream)
{
    if (self->graph && self->graph_block == memory->block) {
        CADRE_CUDA_TRY(cudaGraphLaunch(self->graph, stream));
        return 0;
    }
    self->warm = true;
    return enqueue_steps(self, memory, stream);
}
