/*
 * inspection - one closure by hand: what a program computes, looked at from inside.
 *
 *     cadre_inspection_options_t options = cadre_inspection_options();
 *     options.tensors = arguments;
 *     options.tensor_count = 2;
 *     options.coordinator = job;
 *     options.nodes = &logits;
 *     options.node_count = 1;
 *     s = cadre_program_evaluate(program, &options, &inspection);
 *     s = s ? s : print(cadre_inspection_node(inspection, logits));
 *     cadre_inspection_destroy(&inspection);
 *
 * Owner:   an inspection is the caller's: cadre_inspection_destroy, which takes NULL, and a pointer
 *          to NULL, and does nothing.
 * Thread:  calls may be made from any thread; a program and an inspection are one thread's at a
 *          time.
 */
#ifndef CADRE_INSPECTION_H
#define CADRE_INSPECTION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one run of a program gave; the caller's: cadre_inspection_destroy. */
typedef struct cadre_inspection cadre_inspection_t;

/* What a program is evaluated with. Nothing is kept of it after the call. */
typedef struct {
    /* sizeof(cadre_inspection_options_t), as cadre_inspection_options sets it. */
    size_t size;

    /* Its arguments by their names, those of batches too; others are not looked at. */
    const cadre_argument_t *tensors;
    size_t tensor_count;

    /* Values of its variables, f32, by their names; others are not looked at. */
    const cadre_argument_t *variables;
    size_t variable_count;

    /* Whose variables give the values that `variables` does not. NULL: nobody's. */
    cadre_coordinator_t *coordinator;

    /* Nodes of the program whose values are wanted, beside its results and gradients. */
    const cadre_node_t *nodes;
    size_t node_count;

    /* Of its random numbers. */
    uint64_t seed;

    /* How long reading the coordinator's variables may take, -1: as long as it takes. 0: 60,000. */
    int64_t timeout_ms;
} cadre_inspection_options_t;

/* Returns options without arguments, variables and nodes. */
static inline cadre_inspection_options_t
cadre_inspection_options(void)
{
    cadre_inspection_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    return options;
}

/* Runs a program once, on the calling thread and this machine's CPU, without workers or ps:
 * finishes it, as cadre_function_register does, and keeps results, the values of `options->nodes`
 * and the gradients that it would push. Nothing is pushed; a coordinator's variables are only read,
 * in f32, where a worker sees them rounded to their wire type. The arithmetic is that of a worker
 * on the CPU, and gives the same bits.
 *
 * CADRE_EINVALID: an argument is missing, or one of `nodes` is no node of the program.
 * CADRE_ENOTFOUND: a variable has no value: neither given, nor of the coordinator.
 * CADRE_ESHAPE, CADRE_EDTYPE: an argument or a variable is of another shape or type than the
 *   program says; the text names program and argument.
 * CADRE_EDATA: a label or index is out of range; the text names the operation.
 * CADRE_EUNAVAILABLE: OpenBLAS is not installed.
 * Else as cadre_program_finish and cadre_variable_read. */
CADRE_API int cadre_program_evaluate(cadre_program_t *program,
                                     const cadre_inspection_options_t *options,
                                     cadre_inspection_t **inspection);

/* Returns the value of a node that the options named; NULL for another one. It lives as long as the
 * inspection, as do those of the next two. */
CADRE_API const cadre_tensor_t *cadre_inspection_node(const cadre_inspection_t *self,
                                                      cadre_node_t node);

/* Returns the result `name` (NULL: the only one, or the first); NULL where there is none. */
CADRE_API const cadre_tensor_t *cadre_inspection_result(const cadre_inspection_t *self,
                                                        const char *name);

/* Returns the gradient that the program pushes to `variable`, in f32 and of its shape; NULL where
 * it pushes none. */
CADRE_API const cadre_tensor_t *cadre_inspection_gradient(const cadre_inspection_t *self,
                                                          const char *variable);

/* Destroys what the program gave and nulls the pointer. */
CADRE_API void cadre_inspection_destroy(cadre_inspection_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
