#include "common/wire/record_list.h"

/* A record is uint64_t and nothing else, so a list of numbers is an array of records. */
#define R(name)                                                                                    \
    _Static_assert(sizeof(cadre_##name##_t) % sizeof(uint64_t) == 0, "a record is numbers");       \
                                                                                                   \
    cadre_##name##_list_t cadre_##name##_list_view(const cadre_u64s_t *list)                       \
    {                                                                                              \
        return (cadre_##name##_list_t){(const cadre_##name##_t *)(const void *)list->items,        \
                                       list->count * sizeof(uint64_t) / sizeof(cadre_##name##_t)}; \
    }                                                                                              \
                                                                                                   \
    cadre_u64s_t cadre_##name##_list(const cadre_##name##_t *items, size_t count)                  \
    {                                                                                              \
        return (cadre_u64s_t){(const uint64_t *)(const void *)items,                               \
                              count * sizeof(*items) / sizeof(uint64_t)};                          \
    }
CADRE_RECORD_LIST(R)
#undef R
