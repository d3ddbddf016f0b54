/*
 * plan_fuse - finds steps of a plan that a device may run as one matrix product with an epilogue:
 * a bias that is added, relu, and for gradients the mask of a relu and the sum of a bias's
 * gradient.
 *
 * The steps stay in the plan, side by side, with a place for each of their values, so that they can
 * run one by one as well: where a device's library offers no such product, and where its epilogue
 * would lose a NaN. Seen from outside, the group reads all its inputs before it writes any output:
 * its inputs keep their memory until its last step, and nothing of it takes over an input's memory.
 *
 * Plain functions without state, for plan.c; and for devices, which read cadre_plan_fusion_t.
 */
#ifndef CADRE_WORKER_DEVICE_PLAN_FUSE_H
#define CADRE_WORKER_DEVICE_PLAN_FUSE_H

#include "worker/device/plan.h"

/* Puts the steps of each group side by side and marks them (step->fusion), before memory is
 * planned. Outputs have their places already. */
void cadre_plan_fuse(cadre_plan_t *plan);

/* Notes where each group begins, once no more steps are removed. */
void cadre_plan_fuse_settle(cadre_plan_t *plan);

/* Returns whether a step of the group writes the memory of this root. */
bool cadre_plan_fusion_makes(const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion,
                             int32_t root);

#endif
