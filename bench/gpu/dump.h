/*
 * dump - a model as files, for others that train the same: DIR/model.json, and f32 or i32 numbers
 * in DIR/v<variable> and DIR/b<batch>_<argument>.
 *
 * A plain function.
 */
#ifndef CADRE_BENCH_GPU_DUMP_H
#define CADRE_BENCH_GPU_DUMP_H

#include "bench/gpu/models.h"

/* CADRE_EIO. */
int gpu_dump(const gpu_model_t *model, const gpu_size_t *size, const char *folder);

#endif
