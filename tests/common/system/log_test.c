#include "common/system/log.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"

TestSuite(log, .timeout = 240);
TestSuite(clock, .timeout = 240);

typedef struct {
    char line[CADRE_LOG_LINE_SIZE + 1];
    size_t size;
    size_t lines;
} sink_t;

static void
keep(void *owner, cadre_log_level_t level, const char *line, size_t size_bytes)
{
    (void)level;
    sink_t *sink = owner;
    cr_assert_eq(strlen(line), size_bytes);
    cr_assert_leq(size_bytes, CADRE_LOG_LINE_SIZE);
    cr_assert_eq(strchr(line, '\n'), line + size_bytes - 1, "not one line: %s", line);
    snprintf(sink->line, sizeof(sink->line), "%s", line);
    sink->size = size_bytes;
    sink->lines++;
}

static void
setup(sink_t *sink, cadre_log_style_t style)
{
    *sink = (sink_t){0};
    cadre_log_setup(&(cadre_log_options_t){
        .level = CADRE_LOG_INFO, .style = style, .task = "worker/3", .write = keep, .owner = sink});
}

static json_t *
parse(const sink_t *sink)
{
    json_error_t error;
    json_t *object = json_loadb(sink->line, sink->size, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(object, "%s: %s", error.text, sink->line);
    return object;
}

static const char *
string_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "(no string)";
}

Test(log, says_nothing_until_it_is_set_up)
{
    cadre_log(CADRE_LOG_ERROR, "lost", "worker=%d", 3);
}

Test(log, writes_time_level_task_event_and_pairs_as_text)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_TEXT);
    cadre_log(CADRE_LOG_WARN, "worker_lost", "worker=%u closures=%zu reason=%s", 3U, (size_t)7,
              "connection closed");
    cr_assert_str_eq(sink.line + strlen("12:34:56.789"),
                     " W worker/3 worker_lost worker=3 closures=7 reason=\"connection closed\"\n");
    cadre_log_pairs(CADRE_LOG_INFO, "ready", "");
    cr_assert_str_eq(sink.line + strlen("12:34:56.789"), " I worker/3 ready\n");
    cadre_log(CADRE_LOG_INFO, "said", "a=%s b=%s c=%s d=%s e=\"x %s\"", "", "q\"q", "k=v\\",
              "\x1b[1m", "y z=1");
    cr_assert_str_eq(sink.line + strlen("12:34:56.789"),
                     " I worker/3 said a=\"\" b=\"q\\\"q\" c=\"k=v\\\\\" d=\"\\x1b[1m\" "
                     "e=\"x y z=1\"\n");
}

Test(log, writes_one_json_object_with_numbers_as_numbers)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_JSON);
    cadre_log(CADRE_LOG_ERROR, "push",
              "count=%" PRIu64 " delta=%d loss=%.3f id=%x shard=ps/%d text=\"%d\"",
              UINT64_C(7000000000), -5, 0.25, 255U, 4, 6);
    json_t *object = parse(&sink);
    cr_assert_eq(json_object_size(object), 10);
    cr_assert_eq(strlen(string_of(object, "ts")), strlen("2025-01-31T12:34:56.789Z"));
    cr_assert_str_eq(string_of(object, "level"), "error");
    cr_assert_str_eq(string_of(object, "task"), "worker/3");
    cr_assert_str_eq(string_of(object, "event"), "push");
    cr_assert_eq(json_integer_value(json_object_get(object, "count")), 7000000000);
    cr_assert_eq(json_integer_value(json_object_get(object, "delta")), -5);
    cr_assert_eq(json_real_value(json_object_get(object, "loss")), 0.25);
    cr_assert_str_eq(string_of(object, "id"), "ff");
    cr_assert_str_eq(string_of(object, "shard"), "ps/4");
    cr_assert_str_eq(string_of(object, "text"), "6");
    json_decref(object);
}

Test(log, names_the_task_by_its_index_once_that_is_known)
{
    sink_t sink = {0};
    cadre_log_setup(&(cadre_log_options_t){.level = CADRE_LOG_INFO,
                                           .style = CADRE_LOG_JSON,
                                           .task = "ps",
                                           .write = keep,
                                           .owner = &sink});
    static const struct {
        uint32_t index;
        const char *name;
    } cases[] = {{0, "ps/0"}, {7, "ps/7"}, {UINT32_MAX, "ps/4294967295"}};
    cadre_log_pairs(CADRE_LOG_INFO, "listening", "");
    json_t *object = parse(&sink);
    cr_expect_str_eq(string_of(object, "task"), "ps");
    json_decref(object);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_log_set_index(cases[i].index);
        cadre_log_pairs(CADRE_LOG_INFO, "joined", "");
        object = parse(&sink);
        cr_expect_str_eq(string_of(object, "task"), cases[i].name);
        json_decref(object);
    }
}

Test(log, keeps_a_value_a_value_whatever_it_contains)
{
    static const struct {
        const char *value;
        const char *read;
    } cases[] = {
        {"a b=c \"d\" \\ e", "a b=c \"d\" \\ e"},
        {"x\",\"level\":\"debug", "x\",\"level\":\"debug"},
        {"line\nline\r\t\x01\x7f", "line\nline\r\t\x01\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82"},
        {"\xff|\xc3|\xed\xa0\x80",
         "\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"%s%n", "%s%n"},
        {"", ""},
    };
    sink_t sink;
    setup(&sink, CADRE_LOG_JSON);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_log(CADRE_LOG_INFO, "said", "text=%s after=%d", cases[i].value, 1);
        json_t *object = parse(&sink);
        cr_assert_str_eq(string_of(object, "text"), cases[i].read, "case %zu", i);
        cr_assert_eq(json_integer_value(json_object_get(object, "after")), 1);
        json_decref(object);
    }
}

Test(log, takes_every_conversion_with_its_own_argument)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_JSON);
    cadre_log(
        CADRE_LOG_INFO, "all",
        "a=%hhd b=%hu c=%ld d=%llu e=%zd f=%jd g=%td h=%c i=%5.1f%% j=%.*s k=%*d l=%g m=%05d n=%e",
        (signed char)-3, (unsigned short)65535, -4L, 18446744073709551615ULL, (ssize_t)-6,
        (intmax_t)-7, (ptrdiff_t)-8, 'h', 99.5, 3, "abcdef", 4, 12, NAN, 42, 1e300);
    cr_assert_not_null(strstr(sink.line,
                              "\"a\":-3,\"b\":65535,\"c\":-4,\"d\":18446744073709551615,\"e\":-6,"
                              "\"f\":-7,\"g\":-8,\"h\":\"h\",\"i\":\" 99.5%\",\"j\":\"abc\","
                              "\"k\":\"  12\",\"l\":\"nan\",\"m\":\"00042\",\"n\":1.000000e+300}"),
                       "%s", sink.line);
    const char *volatile nothing = NULL;
    cadre_log(CADRE_LOG_INFO, "null", "a=%s", nothing);
    cr_assert_not_null(strstr(sink.line, "(null)"));
}

Test(log, survives_a_format_that_is_no_list_of_pairs)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_TEXT);
    cadre_log(CADRE_LOG_INFO, "odd", "gave %d =x", 3);
    cr_assert_not_null(strstr(sink.line, "odd text=gave text=3 text=\"=x\""), "%s", sink.line);
    cadre_log(CADRE_LOG_INFO, "odd", "open=\"never %d", 3);
    cr_assert_not_null(strstr(sink.line, "odd open=\"never 3\"\n"), "%s", sink.line);
}

Test(log, cuts_values_and_leaves_out_pairs_that_do_not_fit)
{
    char value[CADRE_LOG_VALUE_SIZE + 1];
    sink_t sink;
    setup(&sink, CADRE_LOG_JSON);
    for (int over = -1; over <= 1; over++) {
        memset(value, 'v', sizeof(value));
        value[CADRE_LOG_VALUE_SIZE - 1 + over] = '\0';
        cadre_log(CADRE_LOG_INFO, "long", "a=%s", value);
        json_t *object = parse(&sink);
        cr_assert_eq(strlen(string_of(object, "a")),
                     (size_t)(CADRE_LOG_VALUE_SIZE - 1 + (over < 0 ? over : 0)));
        cr_assert_null(json_object_get(object, "cut"));
        json_decref(object);
    }
    /* Each \x01 takes six bytes escaped. */
    memset(value, 1, sizeof(value));
    size_t cuts = 0;
    for (size_t size = 600; size < 700; size++) {
        value[size] = '\0';
        cadre_log(CADRE_LOG_INFO, "longer", "a=%s b=%d", value, 5);
        json_t *object = parse(&sink);
        bool cut = json_is_true(json_object_get(object, "cut"));
        bool whole = json_object_get(object, "a") && json_object_get(object, "b");
        cr_assert_eq(cut, !whole, "%s", sink.line);
        cuts += cut;
        json_decref(object);
        value[size] = 1;
    }
    cr_assert(cuts > 20 && cuts < 80);
}

Test(log, drops_events_below_its_level)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_TEXT);
    cadre_log_pairs(CADRE_LOG_DEBUG, "dropped", "");
    cr_assert_eq(sink.lines, 0);
    cadre_log_pairs(CADRE_LOG_INFO, "kept", "");
    cr_assert_eq(sink.lines, 1);
    cadre_log_level_t level = CADRE_LOG_INFO;
    cr_assert_eq(cadre_log_level_parse("error", &level), 0);
    cr_assert_eq(level, CADRE_LOG_ERROR);
    cr_assert_eq(cadre_log_level_parse("loud", &level), CADRE_EINVALID);
}

Test(log, takes_pairs_that_are_ready)
{
    sink_t sink;
    setup(&sink, CADRE_LOG_JSON);
    cadre_log_pairs(cadre_log_level_of('W'), "key_refused",
                    "address=10.0.0.1 key=\"%s=% n{}\" count=7 why=\"\" last");
    json_t *object = parse(&sink);
    cr_expect_str_eq(string_of(object, "level"), "warn");
    cr_expect_str_eq(string_of(object, "address"), "10.0.0.1");
    cr_expect_str_eq(string_of(object, "key"), "%s=% n{}");
    cr_expect_eq(json_integer_value(json_object_get(object, "count")), 7);
    cr_expect_str_eq(string_of(object, "why"), "");
    cr_expect_str_eq(string_of(object, "last"), "");
    json_decref(object);
}

Test(log, writes_whole_json_lines_when_stderr_is_no_terminal)
{
    enum { PROCESSES = 4, LINES = 200 };
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            dup2(ends[1], STDERR_FILENO);
            close(ends[0]);
            cadre_log_setup_stderr(CADRE_LOG_INFO, "ps/0");
            for (int line = 0; line < LINES; line++) {
                cadre_log(CADRE_LOG_INFO, "line", "number=%d padding=%0900d", line, 7);
            }
            _exit(0);
        }
    }
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    char line[CADRE_LOG_LINE_SIZE + 1];
    size_t lines = 0;
    while (fgets(line, sizeof(line), stream)) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert_not_null(object, "a torn line: %s", line);
        json_decref(object);
        lines++;
    }
    fclose(stream);
    while (wait(NULL) > 0) {
    }
    cr_assert_eq(lines, PROCESSES * LINES);
}

/* Nobody reads the pipe until the last line but one was left out. */
Test(log, leaves_lines_out_when_nobody_reads_them)
{
    enum { LINES = 300 };
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    cadre_log_setup_stderr(CADRE_LOG_INFO, "ps/0");
    for (int i = 0; i < LINES; i++) {
        cadre_log(CADRE_LOG_INFO, "line", "number=%d padding=%0900d", i, 7);
    }
    char bytes[1 << 16];
    cr_assert_gt(read(ends[0], bytes, sizeof(bytes)), 0);
    cadre_log(CADRE_LOG_INFO, "last", "number=%d", LINES);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    FILE *stream = fdopen(ends[0], "r");
    char line[CADRE_LOG_LINE_SIZE + 1];
    json_int_t lost = 0;
    bool is_last = false;
    while (fgets(line, sizeof(line), stream)) {
        json_t *object = json_loads(line, 0, NULL);
        cr_assert_not_null(object, "a torn line: %s", line);
        if (strcmp(string_of(object, "event"), "log_lines_lost") == 0) {
            lost += json_integer_value(json_object_get(object, "count"));
        }
        is_last = strcmp(string_of(object, "event"), "last") == 0;
        json_decref(object);
    }
    fclose(stream);
    cr_expect(lost > 0 && lost < LINES, "%d", (int)lost);
    cr_expect(is_last, "%s", line);
}

Test(clock, does_not_go_back_and_agrees_in_both_units)
{
    int64_t before_us = cadre_clock_now_us();
    int64_t between_ms = cadre_clock_now_ms();
    int64_t after_us = cadre_clock_now_us();
    cr_assert_leq(before_us / 1000, between_ms);
    cr_assert_leq(between_ms, after_us / 1000);
}
