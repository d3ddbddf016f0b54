#include "common/wire/routing_id.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/status.h"

TestSuite(routing_id, .timeout = 240);

Test(routing_id, holds_one_byte_up_to_its_limit)
{
    uint8_t bytes[CADRE_ROUTING_ID_SIZE_MAX + 1] = {1};
    cadre_routing_id_t id = {.size = 9};
    cr_assert_eq(cadre_routing_id_set(&id, bytes, 0), CADRE_EINVALID);
    cr_assert_eq(cadre_routing_id_set(&id, bytes, sizeof(bytes)), CADRE_EINVALID);
    cr_assert_eq(id.size, 9);
    cr_assert_eq(cadre_routing_id_set(&id, bytes, 1), 0);
    cr_assert_eq(cadre_routing_id_set(&id, bytes, sizeof(bytes) - 1), 0);
    cr_assert_eq(id.size, CADRE_ROUTING_ID_SIZE_MAX);
}

Test(routing_id, prints_what_is_printable_and_hex_otherwise)
{
    char text[CADRE_ROUTING_ID_TEXT_SIZE];
    cadre_routing_id_t id = {0};
    cadre_routing_id_set(&id, "worker/3/00ff", 13);
    cr_assert_str_eq(cadre_routing_id_text(&id, text), "worker/3/00ff");
    cadre_routing_id_set(&id, "\0ab", 3);
    cr_assert_str_eq(cadre_routing_id_text(&id, text), "0x006162");
    uint8_t most[CADRE_ROUTING_ID_SIZE_MAX];
    memset(most, 0xff, sizeof(most));
    cadre_routing_id_set(&id, most, sizeof(most));
    cr_assert_eq(strlen(cadre_routing_id_text(&id, text)), CADRE_ROUTING_ID_TEXT_SIZE - 1);
}
