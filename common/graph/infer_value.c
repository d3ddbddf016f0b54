/*
 * infer_value - dtypes and shapes of operations that change no axis: cast, detach, random numbers.
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

/* Infers cast: the shape of the input, with the dtype that the attribute names. */
int
cadre_infer_cast(const cadre_infer_t *self, cadre_program_node_t *node)
{
    int64_t dtype = node->attributes[CADRE_CAST_DTYPE];
    bool is_valid = dtype >= 0 && cadre_dtype_valid((uint64_t)dtype);
    if (!is_valid || !cadre_dtype_traits((cadre_dtype_t)dtype)->is_of_programs) {
        return cadre_fail(CADRE_EDTYPE, "cannot cast to %s",
                          is_valid ? cadre_dtype_text((cadre_dtype_t)dtype) : "?");
    }
    node->dtype = (cadre_dtype_t)dtype;
    node->shape = cadre_infer_input(self, node, 0)->shape;
    return 0;
}

/* Infers rand: random f32 of the shape that the node carries. The stream is a number that tells the
 * rand nodes of a program apart. */
int
cadre_infer_rand(const cadre_infer_t *self, cadre_program_node_t *node)
{
    (void)self;
    int64_t stream = node->attributes[CADRE_RAND_STREAM];
    if (stream < 0 || stream > UINT32_MAX) {
        return cadre_fail(CADRE_EINVALID, "no stream %" PRId64, stream);
    }
    node->dtype = CADRE_F32;
    return 0;
}

int
cadre_infer_detach(const cadre_infer_t *self, cadre_program_node_t *node)
{
    node->dtype = cadre_infer_input(self, node, 0)->dtype;
    node->shape = cadre_infer_input(self, node, 0)->shape;
    return 0;
}
