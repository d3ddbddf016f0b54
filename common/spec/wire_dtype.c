#include "common/spec/wire_dtype.h"

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

cadre_dtype_t
cadre_wire_dtype_at(int64_t place)
{
#define ROW(NAME, word) CADRE_##NAME,
    static const cadre_dtype_t dtypes[] = {CADRE_WIRE_DTYPE_LIST(ROW)};
#undef ROW
    cadre_assert(place >= 0 && place < (int64_t)CADRE_COUNT_OF(dtypes));
    return dtypes[place];
}

int
cadre_wire_dtype_decode(uint64_t number, cadre_dtype_t dtype, cadre_dtype_t *wire)
{
    if (number == 0) {
        *wire = dtype;
        return 0;
    }
    if (number != CADRE_BF16 || dtype != CADRE_F32) {
        return cadre_fail(CADRE_EDTYPE, "%s cannot be %s on the wire: only f32 can be bf16",
                          cadre_dtype_text(dtype),
                          cadre_dtype_valid(number) ? cadre_dtype_text((cadre_dtype_t)number)
                                                    : "of an unknown type");
    }
    *wire = CADRE_BF16;
    return 0;
}

uint64_t
cadre_wire_dtype_encode(cadre_dtype_t dtype, cadre_dtype_t wire)
{
    return wire == dtype ? 0 : (uint64_t)wire;
}
