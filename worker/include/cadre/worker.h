/*
 * worker - native functions: C code in a shared object that a worker's operator loads with --native
 * FILE.
 *
 * The object exports `int cadre_native_register(cadre_registry_t *registry)`, which calls
 * cadre_registry_add for each function:
 *
 *     static int
 *     add_one(cadre_invocation_t *invocation, void *state)
 *     {
 *         return cadre_invocation_push_number(invocation, "total", 1);
 *     }
 *
 *     int
 *     cadre_native_register(cadre_registry_t *registry)
 *     {
 *         return cadre_registry_add(registry, "add_one", add_one, NULL);
 *     }
 *
 * A function runs on one of the worker's slot threads, several at once, and does its work through
 * the invocation. It returns 0, or a negative CADRE_E... number after cadre_invocation_fail; a
 * failure is never retried. When a call fails, its error text becomes the closure's if the function
 * returns the call's status.
 *
 * A closure may run more than once (its worker died): keep side effects to pushes and results,
 * which count once.
 */
#ifndef CADRE_WORKER_H
#define CADRE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/status.h>
#include <cadre/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_registry cadre_registry_t;
typedef struct cadre_invocation cadre_invocation_t; /* one attempt; valid during the call */

/* A function: works on `invocation`, with the `state` that it was added with. */
typedef int (*cadre_native_t)(cadre_invocation_t *invocation, void *state);

/* Destroys the object. It is called on a thread of the worker's, when no function runs that could
 * use the object. */
typedef void (*cadre_destructor_t)(void *pointer);

/* --- Registering --- */

/* Makes `function` callable under `name`; `state` is passed to each call and shared by the slots.
 *
 * CADRE_EEXISTS: the name is in use.
 * CADRE_EINVALID: a bad name. */
CADRE_API int cadre_registry_add(cadre_registry_t *registry, const char *name,
                                 cadre_native_t function, void *state);

/* Has `destructor` called with `state` when the worker exits and no function will run any more;
 * what was asked for last is called first. A worker that is killed, or left with a function that
 * does not end, calls nothing.
 *
 * CADRE_EINVALID: there is no destructor.
 * CADRE_EFULL: there are 1,024 already. */
CADRE_API int cadre_registry_at_exit(cadre_registry_t *registry, cadre_destructor_t destructor,
                                     void *state);

/* The entry point of the shared object. */
CADRE_API int cadre_native_register(cadre_registry_t *registry);

/* --- Arguments, variables and results --- */

/* For example:
 *
 *     const cadre_tensor_t *weight = NULL;
 *     int status = cadre_invocation_pull(invocation, "weight", &weight);
 *     ...
 *     return status ? status : cadre_invocation_push(invocation, "weight", &gradient);
 */

/* Returns argument `name` of the call, or NULL; it belongs to the invocation. The results of a
 * resource that the closure names are the arguments "RESOURCE.RESULT". */
CADRE_API const cadre_tensor_t *cadre_invocation_argument(cadre_invocation_t *self,
                                                          const char *name);

/* Pulls the whole of variable `variable`; blocks. The tensor belongs to the invocation and must not
 * be written. A second pull of the same variable fetches it again when it has changed, into the
 * same tensor.
 *
 * CADRE_ENOTFOUND: there is no such variable. */
CADRE_API int cadre_invocation_pull(cadre_invocation_t *self, const char *variable,
                                    const cadre_tensor_t **value);

/* Pulls `count` rows, at least 1, of variable `variable`: those whose numbers `ids` are, in this
 * order, as often as they stand there; blocks. Of a table ids are keys: all 64 bits of each, so
 * that a negative one is the key 2^64 above it. Only these rows travel. The tensor, [count, ...],
 * belongs to the invocation and must not be written; each call gives one of its own.
 *
 * CADRE_EINVALID: the variable has no rows, or `count` is below 1.
 * CADRE_EDATA: an id is no row of the variable.
 * CADRE_ENOTFOUND: there is no such variable. */
CADRE_API int cadre_invocation_pull_rows(cadre_invocation_t *self, const char *variable,
                                         const int64_t *ids, int64_t count,
                                         const cadre_tensor_t **rows);

/* Adds gradients of rows to the update of this step (copied): number i of `gradients`, f32
 * [count, ...], is of row ids[i]; those of one row are added up in this order. All other rows have
 * gradients of zero, or rest, where the variable is lazy. Only these rows travel, unless the
 * variable compensates delays.
 *
 * Fails as cadre_invocation_pull_rows and cadre_invocation_push. */
CADRE_API int cadre_invocation_push_rows(cadre_invocation_t *self, const char *variable,
                                         const int64_t *ids, int64_t count,
                                         const cadre_tensor_t *gradients);

/* Adds a gradient of the variable's shape to the update of this step (copied). All gradients of a
 * step travel together when the function returns, or at cadre_invocation_flush.
 *
 * CADRE_ENOTFOUND: there is no such variable.
 * CADRE_ESHAPE, CADRE_EDTYPE: the variable has another shape or dtype.
 * CADRE_EEXISTS: the step has a gradient for this variable already. */
CADRE_API int cadre_invocation_push(cadre_invocation_t *self, const char *variable,
                                    const cadre_tensor_t *gradient);

/* Adds `number` as the gradient of a scalar variable, converted to its type.
 *
 * CADRE_EINVALID: an integer variable cannot hold the number.
 * Else as cadre_invocation_push. */
CADRE_API int cadre_invocation_push_number(cadre_invocation_t *self, const char *variable,
                                           double number);

/* Sends the updates of this step, waits until every shard has them, and begins the next step.
 *
 * CADRE_EFULL: the closure was scheduled with fewer steps. */
CADRE_API int cadre_invocation_flush(cadre_invocation_t *self);

/* Sets result `name` (copied; a second one of the same name takes its place). It is dropped when
 * nobody wants the closure's results.
 *
 * CADRE_EINVALID: a bad name or tensor.
 * CADRE_EFULL: there are 64 results already.
 * CADRE_ETOOLARGE: the results are more than 64 MiB together. */
CADRE_API int cadre_invocation_set_result(cadre_invocation_t *self, const char *name,
                                          const cadre_tensor_t *value);

/* Sets the error text of the closure and returns `status`, for the function to return. */
CADRE_API int cadre_invocation_fail(cadre_invocation_t *self, int status, const char *format, ...)
    CADRE_PRINTF(3, 4);

/* Returns whether the closure was cancelled, so that nobody wants its results: long functions ask
 * now and then, and return CADRE_ECANCELLED. */
CADRE_API bool cadre_invocation_is_cancelled(cadre_invocation_t *self);

/* Returns the stream of this slot on a CUDA device, a cudaStream_t: the function enqueues its work
 * there and waits for it before it returns or uses what was computed. NULL on the CPU. */
CADRE_API void *cadre_invocation_stream(cadre_invocation_t *self);

/* --- Which closure, which worker --- */

/* Returns the closure's id: 1 or more, the same in every attempt, unlike that of any other closure
 * of the job; where a resource is built, a number that no closure has. */
CADRE_API uint64_t cadre_invocation_closure_id(const cadre_invocation_t *self);

/* Returns a seed for the function's random numbers: a hash of the job's seed and the closure's id,
 * so that every attempt has the same and no two closures have related ones; any generator may begin
 * with it. Where a resource is built it is the same on every worker. */
CADRE_API uint64_t cadre_invocation_seed(const cadre_invocation_t *self);

/* Returns which of the job's workers this is, from 0. A worker that takes the place of a lost one
 * has the same index. */
CADRE_API uint32_t cadre_invocation_worker_index(const cadre_invocation_t *self);

/* Returns how many places of workers the job has: the highest index that a worker has had plus 1,
 * when the closure was handed out. It only grows; who is away is counted too. */
CADRE_API uint32_t cadre_invocation_worker_count(const cadre_invocation_t *self);

/* --- What stays on a worker --- */

/* For example, in the function that builds "index", and in one of a closure that names it:
 *
 *     status = cadre_invocation_set_resource(invocation, index_new(), index_free);
 *     index_t *index = cadre_invocation_resource(invocation, "index");
 */

/* For a function that builds a resource (cadre_resource_create): keeps `pointer` as what the
 * resource is on this worker, until the session ends; then `destructor` (NULL: none) is called with
 * it. A second call replaces the pointer of the first, which is destroyed. If the build fails in
 * the end, the pointer is destroyed too.
 *
 * CADRE_ESTATE: the call builds no resource; the pointer stays the caller's. */
CADRE_API int cadre_invocation_set_resource(cadre_invocation_t *self, void *pointer,
                                            cadre_destructor_t destructor);

/* Returns the pointer that the function of resource `name` has set on this worker; NULL when it has
 * set none, or the closure does not name the resource. Functions on other slots may be using it at
 * the same time. */
CADRE_API void *cadre_invocation_resource(cadre_invocation_t *self, const char *name);

/* Returns the state that this function has set on this slot, NULL at first: each pair of a slot and
 * a function's name has one. It is used on the slot's thread only, and is kept from call to call,
 * also from one session to the next, as long as the process lives. */
CADRE_API void *cadre_invocation_slot_state(const cadre_invocation_t *self);

/* Sets the state of this function on this slot; `destructor` (NULL: none) is called with it on the
 * slot's thread when the worker exits. A state that was set before is not destroyed: the caller
 * does that. */
CADRE_API void cadre_invocation_set_slot_state(cadre_invocation_t *self, void *state,
                                               cadre_destructor_t destructor);

#ifdef __cplusplus
}
#endif
#endif
