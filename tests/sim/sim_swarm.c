#include "tests/sim/sim_swarm.h"

#include <string.h>
#include <xxhash.h>

#include "common/base/memory.h"
#include "common/base/random.h"

uint64_t
sim_swarm_draw(uint64_t seed, const char *name, uint64_t low, uint64_t high)
{
    cadre_random_t random;
    cadre_random_init(&random, seed, XXH3_64bits(name, strlen(name)));
    return low + cadre_random_below(&random, high - low + 1);
}

uint32_t
sim_swarm_weight(uint64_t seed, const char *name, uint32_t usual)
{
    static const uint32_t quarters[] = {0, 0, 1, 4, 4, 4, 16, 80};
    uint64_t drawn = sim_swarm_draw(seed, name, 0, CADRE_COUNT_OF(quarters) - 1);
    return (usual * quarters[drawn] + 3) / 4;
}

bool
sim_swarm_has(uint64_t seed, const char *name, uint32_t one_in)
{
    return sim_swarm_draw(seed, name, 1, one_in) == 1;
}
