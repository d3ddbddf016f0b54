#include "coordinator/options.h"

#include <cadre/coordinator.h>
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/status.h"

TestSuite(options, .timeout = 240);

static int
take(const cadre_variable_options_t *given, cadre_variable_options_t *own)
{
    return cadre_options_take(given, own, sizeof(*own), "cadre_variable_options_t");
}

Test(options, fields_that_an_older_header_lacks_are_zero)
{
    cadre_variable_options_t given = {
        .optimizer = {.kind = CADRE_OPTIMIZER_ADAM}, .count = 3, .wire = CADRE_BF16};
    cadre_variable_options_t own;
    memset(&own, 0xff, sizeof(own));
    given.size = offsetof(cadre_variable_options_t, wire);
    cr_assert_eq(take(&given, &own), 0, "%s", cadre_error_text());
    cr_expect_eq(own.size, sizeof(own));
    cr_expect_eq(own.optimizer.kind, CADRE_OPTIMIZER_ADAM);
    cr_expect_eq(own.count, 3);
    cr_expect_eq((int)own.wire, 0);
}

Test(options, a_size_that_this_library_does_not_know_is_refused)
{
    cadre_variable_options_t given = cadre_variable_options();
    cadre_variable_options_t own;
    cr_expect_eq(take(&given, &own), 0);
    const size_t bad[] = {0, 1, sizeof(size_t) - 1, sizeof(own) + 1};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        given.size = bad[i];
        cr_expect_eq(take(&given, &own), CADRE_EINVALID, "%zu", bad[i]);
        cr_expect(strstr(cadre_error_text(), "cadre_variable_options_t"));
    }
    cr_expect_eq(take(NULL, &own), CADRE_EINVALID);
}
