#include "worker/device/cuda/execution.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "worker/device/arena.h"
#include "worker/device/cuda/fused.h"
#include "worker/device/cuda/guard.h"
#include "worker/device/cuda/matmul.h"
#include "worker/device/cuda/steps.h"

struct cadre_execution {
    cadre_lane_t *lane;
    const cadre_plan_t *plan;
    cadre_layout_t layout;
    char *constants;               /* on the device */
    size_t *constant_offsets;      /* [plan->constant_count] */
    cadre_cuda_matmul_t **matmuls; /* [plan->step_count]: each product on its own; NULL for other
                                      steps, and for products that always run as part of a group */
    cadre_cuda_fused_t *fused;     /* [plan->fusion_count]: how each group runs as one product */
    /* [guard_count]: values that are looked at for NaN and for large numbers before a group runs
     * whose fused form would lose them. */
    cadre_cuda_guard_t *guards;
    int guard_count;
    bool plain; /* groups whose fused form loses NaN run step by step from now on */
    size_t scratch_size_bytes;
    bool warm; /* the plan has run once, so all kernels are loaded and a graph can be recorded */
    cudaGraphExec_t graph; /* the recorded steps; NULL: not recorded */
    const char
        *graph_block; /* the slot's block when the graph was recorded, for which it is valid */
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

/* Returns the value of constant `index` in the plan: the root whose place is that constant. */
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

/* Copies the plan's constants to the device, where they stay as long as the execution. */
static int
copy_constants(cadre_execution_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->constant_offsets = cadre_calloc((size_t)plan->constant_count, sizeof(size_t));
    size_t end = 0;
    for (int i = 0; i < plan->constant_count; i++) {
        const cadre_plan_value_t *value = constant_value(plan, i);
        self->constant_offsets[i] = end;
        end += value ? cadre_arena_round(value->size_bytes) : 0;
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

/* Returns the device memory of a place: the plan's copy of a constant, else in the slot's
 * `block`. */
static void *
place_data(const cadre_execution_t *self, const char *block, cadre_plan_place_t place)
{
    const char *data = place.kind == CADRE_PLACE_CONSTANT
                           ? self->constants + self->constant_offsets[place.index]
                           : block + cadre_layout_offset(&self->layout, place);
    return (void *)(uintptr_t)data;
}

/* Returns the device memory of a value: that of its root, the value whose memory it shares. */
static void *
value_data(const cadre_execution_t *self, const char *block, int32_t value)
{
    const cadre_plan_value_t *values = self->plan->values;
    return place_data(self, block, values[values[value].root].place);
}

/* Fills in what step `at` reads and writes, for a plan whose memory is `block`. Scratch memory is
 * behind the layout. */
static void
find_operands(const cadre_execution_t *self, const char *block, int at,
              cadre_cuda_operands_t *operands)
{
    const cadre_plan_t *plan = self->plan;
    const cadre_plan_step_t *step = &plan->steps[at];
    operands->step = step;
    operands->chain = step->op == CADRE_STEP_CHAIN ? &plan->chains[step->chain] : NULL;
    operands->out = &plan->values[step->output];
    operands->out_data = value_data(self, block, step->output);
    for (int i = 0; i < step->input_count; i++) {
        operands->inputs[i] = &plan->values[step->inputs[i]];
        operands->data[i] = value_data(self, block, step->inputs[i]);
    }
    operands->seed = (const void *)(block + self->layout.seed_offset);
    operands->fault = (void *)(uintptr_t)(block + self->layout.flags_offset);
    operands->scratch = (void *)(uintptr_t)(block + cadre_arena_round(self->layout.size_bytes));
}

/* Prepares each group of steps that may run as one matrix product with an epilogue (fused form). A
 * group that writes a mask comes before those that read it, so it is known whether the mask will be
 * written. */
static int
prepare_groups(cadre_execution_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->fused = cadre_calloc((size_t)plan->fusion_count, sizeof(*self->fused));
    cadre_auto(cadre_free) bool *masked = cadre_calloc((size_t)plan->mask_count, sizeof(bool));
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(plan, at);
        if (!fusion || fusion->first != at) {
            continue;
        }
        cadre_cuda_fused_t *fused = &self->fused[plan->steps[at].fusion - 1];
        int status = cadre_cuda_fused_init(fused, self->lane, plan, fusion,
                                           fusion->mask >= 0 && masked[fusion->mask]);
        if (status < 0) {
            return status;
        }
        if (fused->writes_mask) {
            masked[fusion->mask] = true;
        }
    }
    self->guard_count = cadre_cuda_guards_new(plan, self->fused, &self->guards);
    return 0;
}

/* Prepares the matrix product of step `at` on its own, unless it always runs as part of its group.
 * A group whose epilogue may lose a NaN runs step by step when one is found. */
static int
prepare_matmul(cadre_execution_t *self, int at)
{
    const cadre_plan_t *plan = self->plan;
    const cadre_plan_step_t *step = &plan->steps[at];
    const cadre_cuda_fused_t *fused = step->fusion > 0 ? &self->fused[step->fusion - 1] : NULL;
    if (fused && fused->matmul && !fused->loses_nan) {
        return 0;
    }
    return cadre_cuda_matmul_new(self->lane, plan, step, NULL, &self->matmuls[at]);
}

/* Notes how much scratch memory step `at` needs; only sizes count here, so there is no block yet
 * (NULL). */
static void
prepare_kernel(cadre_execution_t *self, int at)
{
    cadre_cuda_operands_t operands = {0};
    find_operands(self, NULL, at, &operands);
    size_t size_bytes = cadre_cuda_scratch_size_bytes(&operands);
    if (size_bytes > self->scratch_size_bytes) {
        self->scratch_size_bytes = size_bytes;
    }
}

/* Prepares the matrix products of all steps, and the scratch memory that all steps share. */
static int
prepare_steps(cadre_execution_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->matmuls = cadre_calloc((size_t)plan->step_count, sizeof(cadre_cuda_matmul_t *));
    int status = prepare_groups(self);
    for (int at = 0; at < plan->step_count && status == 0; at++) {
        if (plan->steps[at].op == CADRE_OP_MATMUL) {
            status = prepare_matmul(self, at);
        } else {
            prepare_kernel(self, at);
        }
    }
    if (self->scratch_size_bytes > 0) { /* room for rounding the begin up to the alignment */
        self->scratch_size_bytes += CADRE_ARENA_ALIGNMENT;
    }
    return status;
}

/* Makes a plan ready for a GPU: places its memory, copies its constants there, and chooses how its
 * matrix products are computed. */
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

/* Drops the recorded graph; the next run enqueues the steps one by one. */
static void
drop_graph(cadre_execution_t *self)
{
    if (self->graph) {
        cudaGraphExecDestroy(self->graph);
        self->graph = NULL;
    }
}

/* Frees what was prepared of the plan; no run of it may be under way. */
void
cadre_execution_destroy(cadre_execution_t **self_p)
{
    cadre_execution_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    drop_graph(self);
    for (int at = 0; self->matmuls && at < self->plan->step_count; at++) {
        cadre_cuda_matmul_destroy(&self->matmuls[at]);
    }
    for (int i = 0; self->fused && i < self->plan->fusion_count; i++) {
        cadre_cuda_fused_fini(&self->fused[i]);
    }
    cudaFree(self->constants);
    free((void *)self->matmuls);
    free(self->fused);
    free(self->guards);
    free(self->constant_offsets);
    cadre_layout_fini(&self->layout);
    free(self);
}

/* ---- running ---- */

/* Records the events of the output groups that are complete after step `done`; `*group` is the
 * first that is not recorded yet. While a graph is recorded, they are recorded as external events,
 * for which streams outside the graph can wait. */
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

/* Enqueues one step on its own. */
static int
run_step(const cadre_execution_t *self, const char *block, int at, cudaStream_t stream)
{
    cadre_cuda_operands_t operands = {0};
    find_operands(self, block, at, &operands);
    if (!self->matmuls[at]) {
        return cadre_cuda_step(&operands, stream);
    }
    cadre_cuda_factors_t factors = {
        .left = operands.data[0], .right = operands.data[1], .out = operands.out_data};
    return cadre_cuda_matmul_run(self->matmuls[at], &factors, stream);
}

/* Returns the fused form of the group that begins with this step; NULL when no group begins here,
 * or the group runs step by step. */
static const cadre_cuda_fused_t *
fused_at(const cadre_execution_t *self, int at)
{
    const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(self->plan, at);
    if (!fusion || fusion->first != at) {
        return NULL;
    }
    const cadre_cuda_fused_t *fused = &self->fused[self->plan->steps[at].fusion - 1];
    return fused->matmul && !(self->plain && fused->loses_nan) ? fused : NULL;
}

/* Enqueues the checks before the fused form of group `fusion`: a number that is NaN or too large
 * sets a flag, and the plan then runs again without the epilogues that would lose a NaN. */
static int
run_guards(const cadre_execution_t *self, const char *block, int fusion, cudaStream_t stream)
{
    int32_t *flags = (int32_t *)(uintptr_t)(block + self->layout.flags_offset);
    for (int i = 0; i < self->guard_count; i++) {
        const cadre_cuda_guard_t *guard = &self->guards[i];
        if (guard->fusion == fusion &&
            cadre_cuda_check_limit(value_data(self, block, guard->value),
                                   self->plan->values[guard->value].count, guard->limit,
                                   &flags[CADRE_LAYOUT_FLAG_LARGE], stream) < 0) {
            return cadre_fail(CADRE_EDEVICE, "the device refused to look at a product's factors");
        }
    }
    return 0;
}

/* Enqueues the group that begins with step `at` as one matrix product, after its checks. `fused`
 * says what the epilogue adds and which mask it reads or writes. */
static int
run_fused(const cadre_execution_t *self, const char *block, int at, const cadre_cuda_fused_t *fused,
          cudaStream_t stream)
{
    const cadre_plan_t *plan = self->plan;
    const cadre_plan_fusion_t *fusion = cadre_plan_fusion_of(plan, at);
    const cadre_plan_step_t *product = &plan->steps[fusion->product];
    cadre_cuda_factors_t factors = {.left = value_data(self, block, product->inputs[0]),
                                    .right = value_data(self, block, product->inputs[1]),
                                    .out = value_data(self, block, fused->output)};
    if (fused->bias >= 0) {
        factors.bias = value_data(self, block, fused->bias);
    }
    if (fused->writes_mask || fused->reads_mask) {
        factors.mask = block + self->layout.arena_offset + plan->masks[fusion->mask].offset;
    }
    int status = run_guards(self, block, plan->steps[at].fusion - 1, stream);
    return status < 0 ? status : cadre_cuda_matmul_run(fused->matmul, &factors, stream);
}

/* Enqueues what comes before the steps: flags to 0, and for tests the arena to NaN. */
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

/* Enqueues the copies to outputs whose values have another place as well. */
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

/* Enqueues all steps, a group in its fused form where it has one, then the copies to outputs;
 * records the event of each output group as soon as it is complete. */
static int
enqueue_steps(const cadre_execution_t *self, const cadre_execution_memory_t *memory,
              cudaStream_t stream)
{
    int group = 0;
    int status = begin_steps(self, memory, stream);
    for (int at = 0; at < self->plan->step_count && status == 0;) {
        const cadre_cuda_fused_t *fused = fused_at(self, at);
        status = fused ? run_fused(self, memory->block, at, fused, stream)
                       : run_step(self, memory->block, at, stream);
        at += fused ? fused->done : 1;
        status = status < 0 ? status : record_ready(self, memory, at - 1, &group, stream);
    }
    status = status < 0 ? status : copy_outputs(self, memory->block, stream);
    return status < 0 ? status : record_ready(self, memory, self->plan->step_count, &group, stream);
}

/* Has groups whose epilogue may lose a NaN run step by step from now on; the recorded graph has
 * them fused, so it goes. */
void
cadre_execution_make_plain(cadre_execution_t *self)
{
    self->plain = true;
    drop_graph(self);
}

/* Records the steps as a CUDA graph, one launch instead of one for each step, once the plan has run
 * (which loads its kernels) and whenever the slot's memory has moved. The capture is ended in any
 * case, since the stream could not be used otherwise. */
int
cadre_execution_record(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                       cudaStream_t stream)
{
    if (!self->warm || (self->graph && self->graph_block == memory->block)) {
        return 0;
    }
    drop_graph(self);
    cudaGraph_t graph = NULL;
    CADRE_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    int status = enqueue_steps(self, memory, stream);
    cudaError_t error = cudaStreamEndCapture(stream, &graph); /* also when enqueuing has failed */
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

/* Enqueues the plan: its graph, if that was recorded for this memory, else its steps. */
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
