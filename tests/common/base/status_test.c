#include "common/base/status.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(status, .timeout = 240);

Test(status, has_a_name_and_a_text_for_each_number)
{
    cr_assert_str_eq(cadre_status_name(CADRE_ESHAPE), "CADRE_ESHAPE");
    cr_assert_str_eq(cadre_status_text(CADRE_OK), "success");
    cr_assert_str_eq(cadre_status_name(-1), "CADRE_E?");
    cr_assert_str_eq(cadre_status_text(1), "unknown status");
}

Test(status, keeps_the_details_of_the_last_failure_on_one_line)
{
    cr_assert_str_eq(cadre_error_text(), "");
    cr_assert_eq(cadre_fail(CADRE_EDATA, "line %d\nis bad", 7), CADRE_EDATA);
    cr_assert_str_eq(cadre_error_text(), "line 7 is bad");
    cr_assert_eq(cadre_fail_within(CADRE_EDATA, "file %s", "a.csv"), CADRE_EDATA);
    cr_assert_str_eq(cadre_error_text(), "file a.csv: line 7 is bad");
}

/* Names in job files, environment and lock files come from anywhere, and end on terminals. */
Test(status, keeps_no_control_characters)
{
    cadre_fail(CADRE_ECONFIG, "\"na\033[31mme\" \a\x7f is \xc3\xa4 \xc2\x9b"
                              "1m \xff");
    cr_expect_str_eq(cadre_error_text(), "\"na [31mme\"    is \xc3\xa4 ??1m ?");
}

Test(status, cuts_a_text_that_is_too_long)
{
    char text[3 * CADRE_ERROR_TEXT_SIZE];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    cadre_fail(CADRE_EDATA, "%s", text);
    cr_assert_eq(strlen(cadre_error_text()), CADRE_ERROR_TEXT_SIZE - 1);
    cadre_fail_within(CADRE_EDATA, "%s", text);
    cr_assert_eq(strlen(cadre_error_text()), CADRE_ERROR_TEXT_SIZE - 1);
}
