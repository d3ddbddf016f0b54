/*
 * indexes - labels and positions of a closure's arguments, checked before a kernel uses them.
 *
 * Where an index is computed by the program itself, only the device sees it: kernels leave out what
 * is out of range and say so in a flag.
 *
 * Plain functions without state.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_INDEXES_H
#define CADRE_WORKER_DEVICE_CUDA_INDEXES_H

#include "worker/device/device.h"
#include "worker/device/plan.h"

/* Checks all indexes that are arguments of the run. Fails with CADRE_EDATA and a text that names
 * the op, the bad number and its position. */
int cadre_cuda_check_indexes(const cadre_plan_t *plan, const cadre_slot_run_t *run);

/* Fails with CADRE_EDATA because of an index that the program has computed, with its row of the
 * batch where `fault`, which kernels have stored, names one. */
int cadre_cuda_refuse_computed(int32_t fault);

#endif
