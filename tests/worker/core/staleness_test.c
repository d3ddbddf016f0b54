#include "worker/core/staleness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(staleness, .timeout = 60);

static char *
told(const cadre_staleness_t *staleness)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    size_t size_bytes = 0;
    cadre_staleness_metrics(staleness, "3", &text);
    return cadre_metrics_text_take(&text, &size_bytes);
}

static void
expect(const cadre_staleness_t *staleness, const char *line)
{
    cadre_auto(cadre_free) char *text = told(staleness);
    cr_expect(strstr(text, line), "%s is not in %s", line, text);
}

#define SERIES(name) "{worker=\"3\",variable=\"" name "\""

Test(staleness, an_update_counts_in_the_first_bucket_that_is_not_below_it)
{
    cadre_staleness_t staleness = {.other = {.name = ""}};
    static const uint64_t versions[] = {0, 1, 2, 3, 4, 5, 256, 257, 1024, 1025, UINT32_MAX};
    for (size_t i = 0; i < CADRE_COUNT_OF(versions); i++) {
        cadre_staleness_note(&staleness, "w", versions[i]);
    }
    expect(&staleness, "_bucket" SERIES("w") ",le=\"0\"} 1\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"1\"} 2\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"2\"} 3\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"4\"} 5\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"8\"} 6\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"256\"} 7\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"1024\"} 9\n");
    expect(&staleness, "_bucket" SERIES("w") ",le=\"+Inf\"} 11\n");
    expect(&staleness, "_sum" SERIES("w") "} 4294969872\n");
    expect(&staleness, "_count" SERIES("w") "} 11\n");
    cadre_staleness_fini(&staleness);
}

Test(staleness, each_variable_has_its_own_up_to_the_limit)
{
    cadre_staleness_t staleness = {.other = {.name = ""}};
    char name[32];
    for (uint64_t id = 1; id <= CADRE_STALENESS_VARIABLES_MAX + 10; id++) {
        snprintf(name, sizeof(name), "v%d", (int)id);
        cadre_staleness_note(&staleness, name, 1);
        cadre_staleness_note(&staleness, name, 1);
    }
    cr_expect_eq(staleness.names.count, CADRE_STALENESS_VARIABLES_MAX);
    expect(&staleness, "_count" SERIES("v1") "} 2\n");
    expect(&staleness, "_count" SERIES("v256") "} 2\n");
    expect(&staleness, "_count" SERIES("(other)") "} 20\n");
    cadre_auto(cadre_free) char *text = told(&staleness);
    cr_expect_not(strstr(text, "\"v257\""));
    cadre_staleness_fini(&staleness);
}

Test(staleness, variables_of_one_name_share_a_histogram)
{
    cadre_staleness_t staleness = {.other = {.name = ""}};
    char first[] = "w";
    char second[] = "w";
    cadre_staleness_note(&staleness, first, 1);
    first[0] = 'x'; /* it was dropped */
    cadre_staleness_note(&staleness, second, 2);
    cr_expect_eq(staleness.names.count, 1);
    expect(&staleness, "_count" SERIES("w") "} 2\n");
    expect(&staleness, "_sum" SERIES("w") "} 3\n");
    cadre_staleness_fini(&staleness);
}

Test(staleness, updates_of_unknown_variables_count_for_others)
{
    cadre_staleness_t staleness = {.other = {.name = ""}};
    cadre_staleness_note_other(&staleness, 7);
    expect(&staleness, "_count" SERIES("(other)") "} 1\n");
    expect(&staleness, "_sum" SERIES("(other)") "} 7\n");
    cadre_staleness_fini(&staleness);
}
