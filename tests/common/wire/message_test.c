#include "common/wire/message.h"

#include <criterion/criterion.h>
#include <signal.h>

#include "common/base/memory.h"
#include "tests/common/message_sample.h"

TestSuite(message, .timeout = 240);

Test(message, types_and_roles_have_names)
{
    cr_assert_str_eq(cadre_message_type_text(CADRE_MESSAGE_CLOSURE_DONE), "CLOSURE_DONE");
    cr_assert_str_eq(cadre_message_type_text((cadre_message_type_t)0), "?");
    cr_assert_str_eq(cadre_message_type_text((cadre_message_type_t)9999), "?");
    cr_assert_str_eq(cadre_role_text(CADRE_ROLE_PS), "ps");
    cr_assert_str_eq(cadre_role_text(CADRE_ROLE_CLIENT), "client");
    cr_assert_str_eq(cadre_role_text((cadre_role_t)5), "?");
}

Test(message, what_ps_are_asked_for_values_travels_on_the_data_plane)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sample_types); i++) {
        bool data = sample_types[i] >= CADRE_MESSAGE_PULL && sample_types[i] <= CADRE_MESSAGE_GRANT;
        cr_assert_eq(cadre_message_plane(sample_types[i]),
                     data ? CADRE_PLANE_DATA : CADRE_PLANE_CONTROL, "%s",
                     cadre_message_type_text(sample_types[i]));
    }
}

Test(message, owns_the_chunks_put_into_it)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    cadre_chunk_t *chunk = cadre_chunk_new(4);
    for (size_t i = 0; i < CADRE_MESSAGE_CHUNKS_MAX; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(chunk));
    }
    cr_assert_eq(message.chunk_count, CADRE_MESSAGE_CHUNKS_MAX);
    cadre_message_fini(&message);
    cr_assert(cadre_chunk_alone(chunk));
    cadre_chunk_unref(&chunk);
    cadre_message_fini(&message); /* harmless again */
}

Test(message, has_at_most_its_number_of_chunks, .signal = SIGABRT)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH};
    for (size_t i = 0; i <= CADRE_MESSAGE_CHUNKS_MAX; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_new(1));
    }
}
