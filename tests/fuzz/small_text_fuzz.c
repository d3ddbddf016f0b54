/*
 * Short texts of others: endpoints, addresses of --http, labels of metrics, tasks, routing ids,
 * device names, numbers, values in log lines, names in error texts. What is accepted is written and
 * read again as the same; what is written is one line without control characters.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/metrics_text.h"
#include "common/base/utf8.h"
#include "common/http/http_address.h"
#include "common/net/endpoint.h"
#include "common/spec/device_list.h"
#include "common/spec/device_name.h"
#include "common/system/log.h"
#include "common/wire/routing_id.h"
#include "common/wire/task.h"
#include "worker/data/number.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static void
read_endpoint(const char *text)
{
    cadre_endpoint_t endpoint;
    cadre_endpoint_t again;
    char written[CADRE_ENDPOINT_TEXT_SIZE];
    if (cadre_endpoint_parse(text, &endpoint) == 0) {
        cadre_endpoint_text(&endpoint, written);
        cadre_assert(cadre_endpoint_parse(written, &again) == 0 && again.kind == endpoint.kind);
        cadre_endpoint_is_local(&endpoint);
        cadre_endpoint_is_concrete(&endpoint);
    }
}

static void
read_http_address(const char *text)
{
    cadre_endpoint_t address;
    if (cadre_http_address_parse(text, &address) == 0) {
        cadre_assert(address.kind == CADRE_ENDPOINT_TCP && address.host[0] != '\0');
    }
}

/* Takes the value of the one label in `line` apart again; returns whether it is `text`. */
static bool
is_label(const char *line, const char *text)
{
    const char *at = line + strlen("m{l=\"");
    while (*text && *at == (*text == '\n' || *text == '"' ? '\\' : *text)) {
        at += *at == '\\';
        at++;
        text++;
    }
    return !*text && strcmp(at, "\"} 1\n") == 0;
}

static void
tell_label(const char *text)
{
    cadre_metrics_text_t metrics = {.bytes = NULL};
    cadre_metrics_text_family(&metrics, "m", CADRE_METRIC_GAUGE, "h");
    cadre_metrics_text_label(&metrics, "l", text);
    cadre_metrics_text_count(&metrics, 1);
    const char *line = strchr(strchr(metrics.bytes, '\n') + 1, '\n') + 1;
    cadre_assert(strchr(line, '\n') == metrics.bytes + metrics.size_bytes - 1);
    cadre_assert(strcmp(line, "m 1\n") == 0 || is_label(line, text));
    cadre_metrics_text_fini(&metrics);
}

static void
read_names(const uint8_t *bytes, size_t size_bytes)
{
    cadre_task_t task;
    cadre_routing_id_t id;
    char written[CADRE_TASK_TEXT_SIZE];
    char printed[CADRE_ROUTING_ID_TEXT_SIZE];
    if (cadre_task_parse(bytes, size_bytes, &task) == 0) {
        cadre_task_text(&task, written);
        cadre_assert(strlen(written) == size_bytes && memcmp(written, bytes, size_bytes) == 0);
    }
    if (cadre_routing_id_set(&id, bytes, size_bytes) == 0) {
        cadre_routing_id_text(&id, printed);
        cadre_assert(cadre_utf8_valid(printed, strlen(printed)));
    }
}

static void
check_line(void *owner, cadre_log_level_t level, const char *line, size_t size_bytes)
{
    (void)owner;
    (void)level;
    cadre_assert(size_bytes > 0 && line[size_bytes - 1] == '\n');
    cadre_assert(cadre_utf8_valid(line, size_bytes - 1));
}

static void
log_text(const char *text)
{
    for (int style = CADRE_LOG_TEXT; style <= CADRE_LOG_JSON; style++) {
        cadre_log_setup(&(cadre_log_options_t){.level = CADRE_LOG_DEBUG,
                                               .style = (cadre_log_style_t)style,
                                               .task = "worker/1",
                                               .write = check_line});
        cadre_log(CADRE_LOG_WARN, "event", "a=\"%s\" b=%s c=%.5s d=%d", text, text, text, 5);
    }
}

/* A list that is one has names of devices in it, and no more than it says. */
static void
read_device_list(const char *text)
{
    if (cadre_device_list_check(text) < 0) {
        return;
    }
    size_t count = cadre_device_list_count(text);
    for (size_t i = 0; i < count; i++) {
        int device = 0;
        cadre_auto(cadre_free) char *name = cadre_device_list_item(text, i);
        cadre_assert(cadre_device_name_parse(name, &device) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_auto(cadre_free) char *text = cadre_strndup((const char *)bytes, size_bytes);
    int device = 0;
    double value = 0;
    read_endpoint(text);
    read_http_address(text);
    tell_label(text);
    read_names(bytes, size_bytes);
    cadre_device_name_parse(text, &device);
    read_device_list(text);
    const char *end = text + size_bytes;
    const char *after = cadre_number_scan(text, end, &value);
    cadre_assert(!after || (after > text && after <= end));
    log_text(text);
    cadre_fail(CADRE_ECONFIG, "\"%s\" is not known", text);
    cadre_fail_within(CADRE_ECONFIG, "%s", text);
    cadre_assert(cadre_utf8_valid(cadre_error_text(), strlen(cadre_error_text())));
    return 0;
}
