#include "coordinator/cli/train/evaluation.h"

#include "common/base/memory.h"

int
cadre_evaluation_run(cadre_evaluation_t *self)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t loss = {0};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t correct = {0};
    const cadre_reduction_t reductions[] = {{"loss", CADRE_REDUCTION_MEAN, &loss},
                                            {"correct", CADRE_REDUCTION_SUM, &correct}};
    int status = cadre_dataset_reduce(self->dataset, self->function, reductions,
                                      self->counts_correct ? 2 : 1, self->batch_size, -1);
    if (status < 0) {
        return status;
    }

    self->rows = cadre_dataset_info(self->dataset).rows;
    self->loss = *(const double *)loss.data;
    self->accuracy = self->counts_correct ? *(const double *)correct.data / (double)self->rows : 0;
    return 0;
}
