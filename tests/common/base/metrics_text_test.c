#include "common/base/metrics_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(metrics_text, .timeout = 60);

static char *
take(cadre_metrics_text_t *text)
{
    size_t size_bytes = 0;
    char *bytes = cadre_metrics_text_take(text, &size_bytes);
    cr_expect_eq(size_bytes, strlen(bytes));
    return bytes;
}

Test(metrics_text, a_family_has_help_type_and_samples)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_metrics_text_family(&text, "cadre_a_total", CADRE_METRIC_COUNTER, "What a is.");
    cadre_metrics_text_label(&text, "result", "good");
    cadre_metrics_text_label_number(&text, "shard", 3);
    cadre_metrics_text_count(&text, UINT64_MAX);
    cadre_metrics_text_count(&text, 0);
    cadre_metrics_text_gauge(&text, "cadre_b_seconds", 1.25, "What b is.");
    cadre_auto(cadre_free) char *bytes = take(&text);
    cr_expect_str_eq(bytes, "# HELP cadre_a_total What a is.\n"
                            "# TYPE cadre_a_total counter\n"
                            "cadre_a_total{result=\"good\",shard=\"3\"} 18446744073709551615\n"
                            "cadre_a_total 0\n"
                            "# HELP cadre_b_seconds What b is.\n"
                            "# TYPE cadre_b_seconds gauge\n"
                            "cadre_b_seconds 1.25\n");
}

Test(metrics_text, nothing_is_an_empty_text)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_auto(cadre_free) char *bytes = take(&text);
    cr_expect_str_eq(bytes, "");
}

Test(metrics_text, values_of_labels_are_escaped)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_metrics_text_family(&text, "cadre_a", CADRE_METRIC_GAUGE, "a");
    cadre_metrics_text_label(&text, "name", "back\\slash \"quoted\"\nnext, {and} so=on");
    cadre_metrics_text_count(&text, 1);
    cadre_auto(cadre_free) char *bytes = take(&text);
    cr_expect(
        strstr(bytes, "cadre_a{name=\"back\\\\slash \\\"quoted\\\"\\nnext, {and} so=on\"} 1\n"),
        "%s", bytes);
}

Test(metrics_text, a_label_that_does_not_fit_is_left_out_and_the_line_stays_whole)
{
    char at[CADRE_METRICS_LABELS_SIZE];
    for (size_t size = CADRE_METRICS_LABELS_SIZE - 12; size < CADRE_METRICS_LABELS_SIZE; size++) {
        cadre_metrics_text_t text = {.bytes = NULL};
        memset(at, '\n', size);
        at[size] = '\0';
        cadre_metrics_text_family(&text, "cadre_a", CADRE_METRIC_GAUGE, "a");
        cadre_metrics_text_label(&text, "long", at);
        memset(at, 'x', size);
        cadre_metrics_text_label(&text, "x", at);
        cadre_metrics_text_label(&text, "short", "s");
        cadre_metrics_text_count(&text, 1);
        cadre_auto(cadre_free) char *bytes = take(&text);
        const char *line = strrchr(bytes, '{');
        cr_assert(line, "%s", bytes);
        cr_expect(strstr(line, "short=\"s\"} 1\n") || strstr(line, "\"} 1\n"), "%zu %s", size,
                  line);
        cr_expect_not(strstr(line, "long="));
    }
}

Test(metrics_text, buckets_of_a_histogram_add_up)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    const uint64_t bounds[] = {0, 1, 4};
    const uint64_t counts[] = {5, 0, 2, 7};
    cadre_metrics_text_family(&text, "cadre_h", CADRE_METRIC_HISTOGRAM, "h");
    cadre_metrics_text_label(&text, "variable", "w");
    cadre_metrics_text_histogram(&text, bounds, counts, CADRE_COUNT_OF(bounds), 99);
    cadre_auto(cadre_free) char *bytes = take(&text);
    cr_expect_str_eq(strchr(strchr(bytes, '\n') + 1, '\n') + 1,
                     "cadre_h_bucket{variable=\"w\",le=\"0\"} 5\n"
                     "cadre_h_bucket{variable=\"w\",le=\"1\"} 5\n"
                     "cadre_h_bucket{variable=\"w\",le=\"4\"} 7\n"
                     "cadre_h_bucket{variable=\"w\",le=\"+Inf\"} 14\n"
                     "cadre_h_sum{variable=\"w\"} 99\n"
                     "cadre_h_count{variable=\"w\"} 14\n");
}

Test(metrics_text, a_histogram_without_labels_has_the_bound_alone)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    const uint64_t bounds[] = {1};
    const uint64_t counts[] = {1, 1};
    cadre_metrics_text_family(&text, "cadre_h", CADRE_METRIC_HISTOGRAM, "h");
    cadre_metrics_text_histogram(&text, bounds, counts, 1, 3);
    cadre_auto(cadre_free) char *bytes = take(&text);
    cr_expect(strstr(bytes, "cadre_h_bucket{le=\"1\"} 1\ncadre_h_bucket{le=\"+Inf\"} 2\n"
                            "cadre_h_sum 3\ncadre_h_count 2\n"),
              "%s", bytes);
}

Test(metrics_text, a_text_of_many_samples_is_whole)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_metrics_text_family(&text, "cadre_a", CADRE_METRIC_GAUGE, "a");
    for (uint64_t i = 0; i < 20000; i++) {
        cadre_metrics_text_label_number(&text, "i", i);
        cadre_metrics_text_count(&text, i);
    }
    cadre_auto(cadre_free) char *bytes = take(&text);
    size_t lines = 0;
    for (const char *at = bytes; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    cr_expect_eq(lines, 20002);
    cr_expect(strstr(bytes, "\ncadre_a{i=\"19999\"} 19999\n"));
}
