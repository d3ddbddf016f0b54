#include "common/spec/wire_dtype.h"

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

#define ROW(NAME, word) CADRE_##NAME,
static const cadre_dtype_t dtypes[] = {CADRE_WIRE_DTYPE_LIST(ROW)};
#undef ROW

cadre_dtype_t
cadre_wire_dtype_at(int64_t place)
{
    cadre_assert(place >= 0 && place < (int64_t)CADRE_COUNT_OF(dtypes));
    return dtypes[place];
}

/* Returns whether values of `dtype` may travel in the dtype with this number, which is another one.
 * Only f32 values may. */
static bool
is_allowed(cadre_dtype_t dtype, uint64_t number)
{
    bool is_listed = false;
    for (size_t i = 0; i < CADRE_COUNT_OF(dtypes); i++) {
        is_listed = is_listed || number == (uint64_t)dtypes[i];
    }
    return is_listed && dtype == CADRE_F32 && number != CADRE_F32;
}

/* Gives the dtype in which values of `dtype` travel, from its number in a message or manifest; 0
 * stands for `dtype` itself. */
int
cadre_wire_dtype_decode(uint64_t number, cadre_dtype_t dtype, cadre_dtype_t *wire)
{
    if (number == 0) {
        *wire = dtype;
        return 0;
    }
    if (!is_allowed(dtype, number)) {
        return cadre_fail(CADRE_EDTYPE,
                          "%s cannot be %s on the wire: f32 travels as %s, others as they are",
                          cadre_dtype_text(dtype),
                          cadre_dtype_valid(number) ? cadre_dtype_text((cadre_dtype_t)number)
                                                    : "of an unknown type",
                          CADRE_WIRE_DTYPE_WORDS);
    }
    *wire = (cadre_dtype_t)number;
    return 0;
}

uint64_t
cadre_wire_dtype_encode(cadre_dtype_t dtype, cadre_dtype_t wire)
{
    return wire == dtype ? 0 : (uint64_t)wire;
}
