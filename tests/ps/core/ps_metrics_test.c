#include "ps/core/ps_metrics.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(ps_metrics, .timeout = 60);

static const cadre_ps_figures_t ready = {
    .build = "1",
    .generation = 3,
    .contact = {.is_connected = true, .is_member = true, .lease_ms = 10000, .heard_ms = 1000}};

Test(ps_metrics, a_ps_is_ready_when_it_has_joined_and_its_shard_serves)
{
    cadre_ps_figures_t figures = ready;
    cr_expect_str_eq(cadre_ps_unready(&figures), "");
    figures.generation = 0;
    cr_expect(strstr(cadre_ps_unready(&figures), "its shard has not been told"));
    figures = ready;
    figures.contact.is_member = false;
    cr_expect(strstr(cadre_ps_unready(&figures), "has not joined"));
    figures = ready;
    figures.contact.is_connected = false;
    cr_expect(strstr(cadre_ps_unready(&figures), "no connection"));
    figures = ready;
    figures.leaving = true;
    cr_expect(strstr(cadre_ps_unready(&figures), "leaving"));
}

static void
expect(const cadre_ps_figures_t *figures, uint64_t now_ms, const char *line)
{
    cadre_metrics_text_t text = {.bytes = NULL};
    size_t size_bytes = 0;
    cadre_ps_metrics(figures, now_ms, &text);
    cadre_auto(cadre_free) char *bytes = cadre_metrics_text_take(&text, &size_bytes);
    cr_expect(strstr(bytes, line), "%s is not in %s", line, bytes);
}

Test(ps_metrics, each_counter_stands_under_its_own_name)
{
    cadre_ps_figures_t figures = ready;
    for (uint64_t i = 0; i < CADRE_PS_COUNTER_COUNT; i++) {
        figures.counters[i] = 100 + i;
    }
    cr_assert_eq(CADRE_PS_COUNTER_COUNT, 16);
    expect(&figures, 0, "\ncadre_ps_updates_total{result=\"applied\"} 100\n");
    expect(&figures, 0, "\ncadre_ps_updates_total{result=\"duplicate\"} 101\n");
    expect(&figures, 0, "\ncadre_ps_updates_total{result=\"refused\"} 102\n");
    expect(&figures, 0, "\ncadre_ps_malformed_messages_total 103\n");
    expect(&figures, 0, "\ncadre_ps_pulls_total 104\n");
    expect(&figures, 0, "\ncadre_ps_pulled_unchanged_total 105\n");
    expect(&figures, 0, "\ncadre_ps_pull_bytes_total 106\n");
    expect(&figures, 0, "\ncadre_ps_push_bytes_total 107\n");
    expect(&figures, 0, "\ncadre_ps_staleness_versions_total 108\n");
    expect(&figures, 0, "\ncadre_ps_staleness_versions_max 109\n");
    expect(&figures, 0, "\ncadre_ps_assignments_total 110\n");
    expect(&figures, 0, "\ncadre_ps_late_gradients_total{result=\"compensated\"} 111\n");
    expect(&figures, 0, "\ncadre_ps_late_gradients_total{result=\"as_it_came\"} 112\n");
    expect(&figures, 0, "\ncadre_ps_rows_pulled_total 113\n");
    expect(&figures, 0, "\ncadre_ps_rows_pushed_total 114\n");
    expect(&figures, 0, "\ncadre_ps_rows_unchanged_total 115\n");
}

Test(ps_metrics, silence_is_counted_from_what_was_answered)
{
    cadre_ps_figures_t figures = ready;
    expect(&figures, 3500, "\ncadre_ps_coordinator_silence_seconds 2.5\n");
    expect(&figures, 500, "\ncadre_ps_coordinator_silence_seconds 0\n");
    expect(&figures, 3500, "\ncadre_ps_lease_seconds 10\n");
    expect(&figures, 3500, "\ncadre_ps_joined 1\n");
    figures.contact.heard_ms = 0;
    expect(&figures, 3500, "\ncadre_ps_coordinator_silence_seconds 0\n");
}

Test(ps_metrics, what_is_held_for_a_step_stands_beside_its_limit)
{
    cadre_ps_figures_t figures = ready;
    figures.shard = (cadre_shard_figures_t){.held_bytes = 48, .held_bytes_max = 200};
    expect(&figures, 0, "\ncadre_ps_step_held_bytes 48\n");
    expect(&figures, 0, "\ncadre_ps_step_limit_bytes 200\n");
}

Test(ps_metrics, tells_what_tables_have)
{
    cadre_ps_figures_t figures = ready;
    figures.shard.tables = (cadre_table_figures_t){.rows = 5, .created = 9, .evicted = 3};
    expect(&figures, 0, "\ncadre_ps_table_rows 5\n");
    expect(&figures, 0, "\ncadre_ps_table_rows_created_total 9\n");
    expect(&figures, 0, "\ncadre_ps_table_rows_evicted_total 3\n");
}
