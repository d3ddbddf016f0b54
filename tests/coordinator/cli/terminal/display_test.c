#include "coordinator/cli/terminal/display.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>

TestSuite(display, .timeout = 240, .init = cr_redirect_stderr);

static cadre_console_t console;
static cadre_events_t events; /* closed: what is written is dropped */
static cadre_history_t history;

static cadre_display_t
display(char log_level)
{
    return (cadre_display_t){
        .console = &console, .events = &events, .history = &history, .log_level = log_level};
}

static void
show_event(cadre_display_t *self, char level, const char *event)
{
    cadre_notice_t notice = {.kind = CADRE_NOTICE_LOG, .level = level};
    snprintf(notice.event, sizeof(notice.event), "%s", event);
    snprintf(notice.text, sizeof(notice.text), "shard=1");
    cadre_display_notice(self, &notice, 0);
}

Test(display, shows_events_from_its_level_on)
{
    cadre_display_t self = display('W');
    show_event(&self, 'I', "task_joined");
    show_event(&self, 'W', "ps_lost");
    show_event(&self, 'E', "ps_unreachable");
    cr_assert_stderr_eq_str("warning: ps_lost shard=1\nerror: ps_unreachable shard=1\n");
}

Test(display, shows_that_a_ps_is_back_whatever_the_level)
{
    cadre_display_t self = display('E');
    show_event(&self, 'W', "ps_lost");
    show_event(&self, 'I', "ps_restored");
    show_event(&self, 'I', "replay_done");
    show_event(&self, 'I', "ps_reconnected");
    cr_assert_stderr_eq_str(
        "info: ps_restored shard=1\ninfo: replay_done shard=1\ninfo: ps_reconnected shard=1\n");
}

Test(display, says_every_five_seconds_what_is_waited_for)
{
    cadre_display_t self = display('E');
    cadre_notice_t notice = {
        .kind = CADRE_NOTICE_WAIT, .limit_ms = 60000, .text = "2 ps and a worker"};
    cadre_display_notice(&self, &notice, 1000);
    for (int64_t now_ms = 1000; now_ms < 1000 + 2 * CADRE_DISPLAY_SAY_MS + 500; now_ms += 500) {
        cadre_display_wait(&self, now_ms);
    }
    notice.kind = CADRE_NOTICE_WAITED;
    cadre_display_notice(&self, &notice, 12000);
    cadre_display_wait(&self, 99000);
    cr_assert_stderr_eq_str("waiting for 2 ps and a worker: 5 s of at most 60 s\n"
                            "waiting for 2 ps and a worker: 10 s of at most 60 s\n");
}

Test(display, shows_progress_in_lines_that_are_not_too_many)
{
    cadre_display_t self = display('E');
    cadre_notice_t notice = {.kind = CADRE_NOTICE_PROGRESS};
    for (int64_t now_ms = 0; now_ms < CADRE_DISPLAY_LINE_MS; now_ms += 100) {
        cadre_display_notice(&self, &notice, now_ms);
    }
    cr_assert_stderr_eq_str("");
}
