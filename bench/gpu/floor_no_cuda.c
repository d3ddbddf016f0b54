#include "bench/gpu/floor.h"
#include "common/base/status.h"

int
gpu_floor_open(const gpu_floor_work_t *work, gpu_floor_t **out)
{
    (void)work;
    (void)out;
    return cadre_fail(CADRE_EUNAVAILABLE, "this build has no CUDA");
}

void
gpu_floor_close(gpu_floor_t **self_p)
{
    *self_p = NULL;
}

int
gpu_floor_run(gpu_floor_t *self, int steps)
{
    (void)self;
    (void)steps;
    return CADRE_EUNAVAILABLE;
}
