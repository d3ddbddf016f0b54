#include "common/codec_table.h"

#include "common/memory.h"
#include "common/message.h"

/* The words of the message rows. */
enum {
    SMALL = CADRE_HEADER_SIZE_MAX,
    LARGE = CADRE_LARGE_HEADER_SIZE_MAX,
    COORDINATOR = 1 << CADRE_ROLE_COORDINATOR,
    PS = 1 << CADRE_ROLE_PS,
    WORKER = 1 << CADRE_ROLE_WORKER,
};

/* Every message struct lies at the same place, that of the union. */
#define FIELDS_OFFSET offsetof(cadre_message_t, hello)

#define FIELD(field_kind, field_name, field_limit)                                                 \
    {.kind = CADRE_KIND_##field_kind,                                                              \
     .name = #field_name,                                                                          \
     .offset = FIELDS_OFFSET + offsetof(row_t, field_name),                                        \
     .limit = (field_limit)},

const cadre_message_schema_t *
cadre_message_schema(uint64_t type)
{
    /* The row without a name at the end of `fields` is there because a message may have no field.
     */
    switch (type) {
#define X(name, NAME, number, limit, roles)                                                        \
    case number: {                                                                                 \
        typedef cadre_##name##_message_t row_t;                                                    \
        static const cadre_field_schema_t fields[] = {                                             \
            CADRE_##NAME##_FIELDS(FIELD){.offset = sizeof(row_t)}};                                \
        static const cadre_message_schema_t schema = {.text = #NAME,                               \
                                                      .header_size_max = (limit),                  \
                                                      .senders = (roles),                          \
                                                      .field_count = CADRE_COUNT_OF(fields) - 1,   \
                                                      .fields = fields};                           \
        return &schema;                                                                            \
    }
        CADRE_MESSAGE_LIST(X)
#undef X
    }
    return NULL;
}
