/*
 * inspection - runs a program once in the calling thread, to look at the values of its nodes, its
 * results and its gradients.
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
 * Owner:   the caller, who destroys an inspection by cadre_inspection_destroy.
 * Thread:  any, but a program and an inspection are used by one thread at a time.
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

/* What a program is evaluated with. The call keeps no pointer of these after it returns. */
typedef struct {
    /* sizeof(cadre_inspection_options_t), as cadre_inspection_options sets it. */
    size_t size;

    /* Values of all arguments of the program, by name, also of arguments that a closure would take
     * from a batch. Names that the program does not have are ignored. */
    const cadre_argument_t *tensors;
    size_t tensor_count;

    /* Values of variables of the program by name, of the dtype and the shape that it says. Names
     * that it does not have are ignored. The value of a table is [rows, dim] f32 with any number of
     * rows: row i is that of key i. */
    const cadre_argument_t *variables;
    size_t variable_count;

    /* The coordinator from which variables are read that are not in `variables`. NULL: all must be
     * given. */
    cadre_coordinator_t *coordinator;

    /* Nodes of the program whose values are wanted, beside its results and gradients. */
    const cadre_node_t *nodes;
    size_t node_count;

    /* Seed of the random numbers of the program (dropout and so on). */
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
 * finishes the program, as cadre_function_register does, and keeps its results, the values of
 * `options->nodes` and the gradients that it would push. Nothing is pushed. Variables of the
 * coordinator are read in their own dtype; a worker would see those of f32 rounded to their wire
 * type. The arithmetic is that of a worker on the CPU, and gives the same bits.
 *
 * Of a table (<cadre/table.h>) the rows are read that the program looks up, and no row comes to be
 * by it: a key without one has its first values. A table as a whole, and what is computed of it
 * row by row, has no value: only what a lookup gives can be among `nodes`.
 *
 * CADRE_EINVALID: an argument is missing, one of `nodes` is no node of the program, or a table is
 *   not only looked up.
 * CADRE_ENOTFOUND: a variable is neither given nor found at the coordinator.
 * CADRE_ESHAPE, CADRE_EDTYPE: an argument or a variable is of another shape or type than the
 *   program says; the text names program and argument.
 * CADRE_EDATA: a label or index is out of range, the text names the operation; or a given value of
 *   a table has no row for a key.
 * CADRE_EUNAVAILABLE: OpenBLAS is not installed.
 *
 * The first run of a process loads OpenBLAS, and on a processor that is newer than it sets and
 * unsets OPENBLAS_CORETYPE in the environment meanwhile, unless it is set: no other thread may read
 * or change the environment then.
 * Also fails as cadre_program_finish and cadre_variable_read do. */
CADRE_API int cadre_program_evaluate(cadre_program_t *program,
                                     const cadre_inspection_options_t *options,
                                     cadre_inspection_t **inspection);

/* Returns the value of a node that options.nodes named; NULL for another node. The tensor lives as
 * long as the inspection. */
CADRE_API const cadre_tensor_t *cadre_inspection_node(const cadre_inspection_t *self,
                                                      cadre_node_t node);

/* Returns the result `name` (NULL: the only or first one); NULL when the program has none of that
 * name. The tensor lives as long as the inspection. */
CADRE_API const cadre_tensor_t *cadre_inspection_result(const cadre_inspection_t *self,
                                                        const char *name);

/* Returns the gradient that the program would push to `variable`, of the dtype and the shape of the
 * variable; NULL when it pushes none. That of a table is [keys, dim]: row i belongs to key i of
 * cadre_inspection_keys. The tensor lives as long as the inspection. */
CADRE_API const cadre_tensor_t *cadre_inspection_gradient(const cadre_inspection_t *self,
                                                          const char *variable);

/* Returns the keys that the program looked up in `table`, ascending and each once, `*count` of them
 * (NULL: not asked for); NULL when the program has no table of that name. They live as long as the
 * inspection. */
CADRE_API const uint64_t *cadre_inspection_keys(const cadre_inspection_t *self, const char *table,
                                                size_t *count);

/* Destroys an inspection and nulls the pointer; NULL or a pointer to NULL does nothing. */
CADRE_API void cadre_inspection_destroy(cadre_inspection_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
