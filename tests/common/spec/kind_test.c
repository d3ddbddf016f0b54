#include "common/spec/kind.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static const cadre_parameter_t weights[] = {{"heavy", 2, 0, 10, false}, {"light", 1, 0, 10, true}};
static const cadre_kind_t rows[] = {
    [1] = {"plain", NULL, 0},
    [3] = {"weighted", weights, CADRE_COUNT_OF(weights)},
};
typedef struct {
    double light;
} toy_t;

static const cadre_kind_field_t fields[] = {{"light", offsetof(toy_t, light)}};
static const cadre_kinds_t kinds = {"toy", rows, CADRE_COUNT_OF(rows), fields, 1};

Test(kind, has_a_number_a_word_and_defaults)
{
    uint64_t number = 0;
    double parameters[2] = {0};
    cr_assert_eq(cadre_kinds_parse(&kinds, "weighted", &number, parameters), 0);
    cr_assert_eq(number, 3);
    cr_assert_eq(parameters[0], 2);
    cr_assert_eq(parameters[1], 1);
    cr_assert_str_eq(cadre_kinds_text(&kinds, 3), "weighted");
    cr_assert_str_eq(cadre_kinds_text(&kinds, 2), "?");
    cr_assert_str_eq(cadre_kinds_text(&kinds, 4), "?");
}

Test(kind, that_is_unknown_is_refused_with_those_that_there_are)
{
    uint64_t number = 0;
    double parameters[2] = {0};
    cr_assert_eq(cadre_kinds_parse(&kinds, "light", &number, parameters), CADRE_ENOTFOUND);
    cr_assert_str_eq(cadre_error_text(), "no toy 'light'; there are plain weighted");
    cr_assert_eq(cadre_kinds_decode(&kinds, 2, parameters, 0, parameters), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "2 is no toy");
}

Test(kind, takes_its_number_of_parameters_within_their_ranges)
{
    double parameters[2] = {0};
    cr_assert_eq(cadre_kinds_decode(&kinds, 3, (double[]){10, 9}, 2, parameters), 0);
    cr_assert_eq(parameters[1], 9);
    cr_assert_eq(cadre_kinds_decode(&kinds, 3, (double[]){1, 10}, 2, parameters), CADRE_EINVALID);
    cr_assert_eq(cadre_kinds_decode(&kinds, 3, (double[]){1, 2}, 1, parameters), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "toy weighted has 2 parameters, not 1");
}

Test(kind, takes_and_gives_the_fields_that_a_public_struct_has)
{
    toy_t given = {0};
    double parameters[2] = {0};
    cr_assert(cadre_kinds_is_unset(&kinds, &given));
    given.light = 5;
    cr_assert_not(cadre_kinds_is_unset(&kinds, &given));
    cr_assert_eq(cadre_kinds_take(&kinds, 3, &given, parameters), 0);
    cr_assert(parameters[0] == 2 && parameters[1] == 5, "heavy has no field: its default");
    cr_assert_eq(cadre_kinds_take(&kinds, 2, &given, parameters), CADRE_EINVALID);

    given.light = 0;
    cadre_kinds_give(&kinds, 3, parameters, &given);
    cr_assert_eq(given.light, 5);
}
