#include "coordinator/cli/train/json_position.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(json_position, .timeout = 240);

static const char text[] = "{\n"
                           "  \"name\": \"a \\\"{[,]}\\\" b\",\n"
                           "  \"list\": [1, {\"deep\": [true, \"x\"]}, null],\n"
                           "  \"caf\xc3\xa9\": {\"a/b\": 1, \"c~d\": 2},  \"last\": -1.5e3,\n"
                           "  \"\\u0065sc\\n\": false\n"
                           "}\n";

static void
expect(const char *pointer, bool key, int line, int column)
{
    cadre_json_position_t position = {0};
    cr_assert(cadre_json_position(text, pointer, key, &position), "%s", pointer);
    cr_assert_eq(position.line, line, "%s: line %d", pointer, position.line);
    cr_assert_eq(position.column, column, "%s: column %d", pointer, position.column);
}

Test(json_position, finds_values_and_keys)
{
    expect("", false, 1, 1);
    expect("/name", true, 2, 3);
    expect("/name", false, 2, 11);
    expect("/list", true, 3, 3);
    expect("/list/0", false, 3, 12);
    expect("/list/1/deep", true, 3, 16);
    expect("/list/1/deep/1", false, 3, 31);
    expect("/list/2", false, 3, 38);
}

Test(json_position, counts_characters_and_not_bytes)
{
    expect("/caf\xc3\xa9", false, 4, 11);
    expect("/last", true, 4, 34);
    expect("/last", false, 4, 42);
}

Test(json_position, undoes_the_escapes_of_pointers_and_of_keys)
{
    expect("/caf\xc3\xa9/a~1b", true, 4, 12);
    expect("/caf\xc3\xa9/c~0d", false, 4, 29);
    expect("/esc\n", false, 5, 17);
}

Test(json_position, says_when_nothing_is_there)
{
    static const char *const absent[] = {"/nam", "/list/3", "/list/x", "/name/0", "/list/1/deep/2"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        cadre_json_position_t position = {.line = 7, .column = 8};
        cr_assert_not(cadre_json_position(text, absent[i], false, &position), "%s", absent[i]);
        cr_assert(position.line == 7 && position.column == 8);
    }
}

Test(json_position, does_not_run_past_the_end_of_a_text_that_is_cut)
{
    char cut[sizeof(text)];
    for (size_t length = 0; length < sizeof(text); length++) {
        memcpy(cut, text, length);
        cut[length] = '\0';
        cadre_json_position_t position;
        cadre_json_position(cut, "/caf\xc3\xa9/c~0d", false, &position);
        cadre_json_position(cut, "/list/1/deep/1", true, &position);
    }
}
