#include "ps/core/values/huge_source.h"

#include "common/base/memory.h"

void *
cadre_huge_source_take(const cadre_huge_source_t *self)
{
    return self->take ? self->take(self->context) : cadre_huge_alloc();
}
