#include "worker/device/cuda/fused.h"

/* A form in which a group may run: which epilogue, and how much of the group it covers. */
typedef struct {
    cublasLtEpilogue_t kind;
    int32_t output;
    int32_t bias;
    bool mask;
    bool relu;
    int done;
} form_t;

enum { FORMS_MAX = 3 };

/* Returns the value that a step of the group writes; `member` counts from the group's first
 * step. */
static int32_t
output_of(const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, int member)
{
    return plan->steps[fusion->first + member].output;
}

/* Lists the forms of a forward group, the one that covers most first: relu with the mask for the
 * gradient, relu without it, only the bias. */
static int
forward_forms(const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, form_t *forms)
{
    bool bias = fusion->bias >= 0;
    int count = 0;
    form_t relu = {.kind = bias ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_AUX,
                   .output = fusion->output,
                   .bias = fusion->bias,
                   .mask = true,
                   .relu = true,
                   .done = fusion->count};
    if (fusion->relu && fusion->mask >= 0) {
        forms[count++] = relu;
    }
    if (fusion->relu) {
        relu.kind = bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
        relu.mask = false;
        forms[count++] = relu;
    }
    if (bias) {
        forms[count++] = (form_t){.kind = CUBLASLT_EPILOGUE_BIAS,
                                  .output = output_of(plan, fusion, 1),
                                  .bias = fusion->bias,
                                  .done = 2};
    }
    return count;
}

/* Lists the forms of a backward group (product times the mask of a relu), the one that covers most
 * first: with the sum of its rows (the gradient of a bias), without it. `done`: how many steps of
 * the group a form replaces. */
static int
backward_forms(const cadre_plan_fusion_t *fusion, form_t *forms)
{
    int count = 0;
    form_t form = {.kind = CUBLASLT_EPILOGUE_DRELU_BGRAD,
                   .output = fusion->output,
                   .bias = fusion->column_sum,
                   .mask = true,
                   .done = fusion->count};
    if (fusion->sum == CADRE_FUSION_SUM_OUTPUT) {
        forms[count++] = form;
        form.done--;
    }
    form.kind = CUBLASLT_EPILOGUE_DRELU;
    form.bias = -1;
    forms[count++] = form;
    return count;
}

/* Lists the forms of a weight group: the sum of a factor beside the product. The right factor is
 * what cuBLAS calls A. */
static int
weight_forms(const cadre_plan_fusion_t *fusion, form_t *forms)
{
    forms[0] = (form_t){.kind = fusion->sum == CADRE_FUSION_SUM_RIGHT ? CUBLASLT_EPILOGUE_BGRADA
                                                                      : CUBLASLT_EPILOGUE_BGRADB,
                        .output = fusion->output,
                        .bias = fusion->column_sum,
                        .done = fusion->count};
    return 1;
}

/* Prepares one form of a group; fails with CADRE_ENOTFOUND when cuBLAS has no such product. */
static int
try_form(cadre_cuda_fused_t *self, const cadre_lane_t *lane, const cadre_plan_t *plan,
         const cadre_plan_fusion_t *fusion, const form_t *form)
{
    cadre_cuda_epilogue_t epilogue = {
        .kind = form->kind, .mask_row_bits = form->mask ? plan->masks[fusion->mask].row_bits : 0};
    int status =
        cadre_cuda_matmul_new(lane, plan, &plan->steps[fusion->product], &epilogue, &self->matmul);
    if (status == 0) {
        self->output = form->output;
        self->bias = form->bias;
        self->writes_mask = form->mask && form->relu;
        self->reads_mask = form->mask && !form->relu;
        self->loses_nan = form->relu || form->mask;
        self->done = form->done;
    }
    return status;
}

/* Finds the fused form of a group: the first of its forms that cuBLAS offers. A backward group
 * reads the mask in cuBLAS's form, so it needs that its relu's group runs fused and writes it
 * (`masked`). */
int
cadre_cuda_fused_init(cadre_cuda_fused_t *self, const cadre_lane_t *lane, const cadre_plan_t *plan,
                      const cadre_plan_fusion_t *fusion, bool masked)
{
    *self = (cadre_cuda_fused_t){.bias = -1};
    form_t forms[FORMS_MAX];
    int count = 0;
    if (fusion->bias >= 0 || fusion->relu) {
        count = forward_forms(plan, fusion, forms);
    } else if (fusion->mask >= 0) {
        count = masked ? backward_forms(fusion, forms) : 0;
    } else {
        count = weight_forms(fusion, forms);
    }
    int status = CADRE_ENOTFOUND;
    for (int i = 0; i < count && status == CADRE_ENOTFOUND; i++) {
        status = try_form(self, lane, plan, fusion, &forms[i]);
    }
    return status == CADRE_ENOTFOUND ? 0 : status;
}

void
cadre_cuda_fused_fini(cadre_cuda_fused_t *self)
{
    cadre_cuda_matmul_destroy(&self->matmul);
}
