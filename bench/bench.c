#include "bench/bench.h"

#include "common/base/memory.h"

char *
cadre_bench_address(cadre_bench_t *self, const char *name)
{
    return cadre_asprintf("ipc://%s/%s-%llu", self->socket_directory, name,
                          (unsigned long long)++self->next_name);
}

int
cadre_bench_amount(const cadre_bench_t *self, int full, int quick)
{
    return self->quick ? quick : full;
}
