/*
 * holding - what a resource is on this worker: what its function has put, and its results.
 *
 * Owner:   the slot that builds it, until its work ends; then the directory.
 * Thread:  its owner's. Closures that name the resource read it on any slot, several at once: it is
 *          changed by nobody until it is destroyed, when no closure runs. What `pointer` points to
 * is the business of the native functions that use it.
 */
#ifndef CADRE_WORKER_CORE_HOLDING_H
#define CADRE_WORKER_CORE_HOLDING_H

#include <cadre/tensor.h>
#include <cadre/worker.h>
#include <stddef.h>

typedef struct {
    char *name; /* of the resource */
    void *pointer;
    cadre_destructor_t destructor; /* of the pointer, or NULL */
    char **names;                  /* [count] of the results */
    cadre_tensor_t *tensors;       /* [count] */
    size_t count;
} cadre_holding_t;

/* Creates a holding in which nothing has been put. */
cadre_holding_t *cadre_holding_new(const char *name);

/* Calls the destructor. */
void cadre_holding_destroy(cadre_holding_t **self_p);

/* Takes the object that the building function has put; destroys the object that it put before. */
void cadre_holding_put(cadre_holding_t *self, void *pointer, cadre_destructor_t destructor);

/* The result that closures call `argument`, "RESOURCE.RESULT", or NULL. */
const cadre_tensor_t *cadre_holding_value(const cadre_holding_t *self, const char *argument);

#endif
