/*
 * holding - what a built resource is on this worker: the object that its function has put
 * (cadre_invocation_set_resource), and the tensors that the function has returned.
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
    cadre_destructor_t destructor; /* called with `pointer` at the end; NULL: nothing is called */
    char **names;                  /* [count]: names of the results */
    cadre_tensor_t *tensors;       /* [count]: the results */
    size_t count;
} cadre_holding_t;

/* Creates a holding in which nothing has been put. */
cadre_holding_t *cadre_holding_new(const char *name);

/* Calls the destructor that was put with the pointer, and frees the results. */
void cadre_holding_destroy(cadre_holding_t **self_p);

/* Takes the object that the building function hands over; destroys the one handed over before. */
void cadre_holding_put(cadre_holding_t *self, void *pointer, cadre_destructor_t destructor);

/* Returns the result that closures name `argument`, as "RESOURCE.RESULT"; NULL when this resource
 * has no such result. */
const cadre_tensor_t *cadre_holding_value(const cadre_holding_t *self, const char *argument);

#endif
