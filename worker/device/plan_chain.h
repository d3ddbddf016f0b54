/*
 * plan_chain - finds the chains of a plan: element operations that can be one step.
 *
 * An operation joins the chain of the one that reads its result when nobody else reads it: no
 * other step, no output. Chains are found from the last step back, so that each takes in all that
 * leads to it. Nothing is computed twice, and no other order of operations comes out of it: a chain
 * gives the bits that its operations give as steps.
 *
 * Plain function, called while a plan is made.
 */
#ifndef CADRE_WORKER_DEVICE_PLAN_CHAIN_H
#define CADRE_WORKER_DEVICE_PLAN_CHAIN_H

#include "worker/device/plan.h"

/* Replaces steps by chains. Before memory is planned; outputs have their places already. */
void cadre_plan_make_chains(cadre_plan_t *plan);

#endif
