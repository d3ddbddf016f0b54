/*
 * plan_chain - finds the chains of a plan: element operations that can be one step.
 *
 * An operation joins the chain of the operation that reads its result when nothing else reads that
 * result: no other step, no output. Chains are found from the last step back, so that each takes in
 * all that leads to it. Nothing is computed twice or in another order: a chain gives the same bits
 * as its operations in steps of their own.
 *
 * Plain function, called while a plan is made.
 */
#ifndef CADRE_WORKER_DEVICE_PLAN_CHAIN_H
#define CADRE_WORKER_DEVICE_PLAN_CHAIN_H

#include "worker/device/plan.h"

/* Replaces steps by chains. Called when outputs have their places, and before memory is planned. */
void cadre_plan_make_chains(cadre_plan_t *plan);

#endif
