#include "bench/report.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>

#include "common/base/status.h"

TestSuite(report, .timeout = 240);

static cadre_bench_report_t report;

static void
add(double value, double ceiling, double least_value, double least_ratio)
{
    const cadre_bench_figure_t figure = {.section = "values",
                                         .unit = "GB/s",
                                         .value = value,
                                         .ceiling_name = ceiling > 0 ? "raw" : NULL,
                                         .ceiling = ceiling,
                                         .least_value = least_value,
                                         .least_ratio = least_ratio};
    cadre_bench_report_add(&report, &figure, "figure %d", report.figure_count);
}

static json_t *
as_json(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    cadre_bench_report_json(&report, true, file);
    fclose(file);
    json_t *root = json_loads(text, 0, NULL);
    free(text);
    return root;
}

static json_t *
figure(json_t *root, size_t number)
{
    return json_array_get(json_object_get(root, "figures"), number);
}

Test(report, json_has_schema_host_and_figures)
{
    add(2, 4, 0, 0);
    json_t *root = as_json();
    cr_assert_str_eq(json_string_value(json_object_get(root, "schema")), "cadre.bench/v1");
    cr_assert(json_is_true(json_object_get(root, "quick")));
    cr_assert_gt(json_integer_value(json_object_get(json_object_get(root, "host"), "cpus")), 0);
    cr_assert_str_eq(json_string_value(json_object_get(figure(root, 0), "name")), "figure 0");
    cr_assert_eq(json_real_value(json_object_get(figure(root, 0), "ratio")), 0.5);
    cr_assert_null(json_object_get(figure(root, 0), "met"));
    json_decref(root);
}

Test(report, a_target_is_met_at_its_value_and_missed_below)
{
    add(50000, 0, 50000, 0);
    add(49999, 0, 50000, 0);
    add(2, 4, 0, 0.5);
    add(1.9, 4, 0, 0.5);
    json_t *root = as_json();
    cr_assert(json_is_true(json_object_get(figure(root, 0), "met")));
    cr_assert(json_is_false(json_object_get(figure(root, 1), "met")));
    cr_assert(json_is_true(json_object_get(figure(root, 2), "met")));
    cr_assert(json_is_false(json_object_get(figure(root, 3), "met")));
    cr_assert_null(json_object_get(figure(root, 0), "ceiling"));
    json_decref(root);
}

Test(report, a_failed_section_says_why)
{
    cadre_bench_report_fail(&report, "values", cadre_fail(CADRE_ETIMEOUT, "no answer"));
    json_t *root = as_json();
    json_t *failure = json_array_get(json_object_get(root, "failures"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(failure, "status")), "CADRE_ETIMEOUT");
    cr_assert_str_eq(json_string_value(json_object_get(failure, "text")), "no answer");
    json_decref(root);
}
