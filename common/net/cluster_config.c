#include "common/net/cluster_config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* A description that is being read, and what is known from it and from flags so far. */
typedef struct {
    const char *source; /* name of the source, for error texts */
    json_t *root;
    cadre_cluster_config_t config;
    size_t coordinators;
    bool has_role;
    bool chief_is_worker; /* no chief is listed, so worker 0 is the coordinator */
} reader_t;

static bool
given(const char *text)
{
    return text && text[0] != '\0';
}

void
cadre_cluster_sources_from_environment(cadre_cluster_sources_t *sources)
{
    sources->cadre_cluster = getenv("CADRE_CLUSTER");
    sources->tf_config = getenv("TF_CONFIG");
}

/* Reads the name of a role, ours or TensorFlow's ("chief" is our coordinator). */
static int
parse_role(const char *text, cadre_role_t *role)
{
    static const struct {
        const char *text;
        cadre_role_t role;
    } names[] = {
        {"chief", CADRE_ROLE_COORDINATOR},
        {"coordinator", CADRE_ROLE_COORDINATOR},
        {"ps", CADRE_ROLE_PS},
        {"worker", CADRE_ROLE_WORKER},
        {"evaluator", CADRE_ROLE_EVALUATOR},
    };

    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        if (strcmp(text, names[i].text) == 0) {
            *role = names[i].role;
            return 0;
        }
    }

    return cadre_fail(CADRE_ECONFIG,
                      "unknown role '%.64s': it is none of coordinator (or chief), ps, worker, "
                      "evaluator",
                      text);
}

/* Reads an address that a peer can connect to; CADRE_ECONFIG for any other. */
static int
parse_address(const char *text, cadre_endpoint_t *endpoint)
{
    if (cadre_endpoint_parse(text, endpoint) < 0) {
        return CADRE_ECONFIG;
    }
    if (endpoint->kind == CADRE_ENDPOINT_INPROC) {
        return cadre_fail(CADRE_ECONFIG, "address '%.300s' is within another process", text);
    }
    if (!cadre_endpoint_is_concrete(endpoint)) {
        return cadre_fail(CADRE_ECONFIG, "address '%.300s' names no host and port to connect to",
                          text);
    }
    return 0;
}

/* Reads the index of a task: a decimal number below CADRE_TASKS_MAX. */
static int
parse_index(const char *text, uint32_t *index)
{
    uint64_t number = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && number < CADRE_TASKS_MAX; c++) {
        number = number * 10 + (uint64_t)(*c - '0');
    }

    if (c == text || *c || number >= CADRE_TASKS_MAX) {
        return cadre_fail(CADRE_ECONFIG, "bad index '%.40s': it is not in 0..%d", text,
                          CADRE_TASKS_MAX - 1);
    }

    *index = (uint32_t)number;
    return 0;
}

/* --- cluster --- */

/* Reads a list of addresses, the value of `key` in the description's "cluster". On failure the
 * caller still frees what has been read. */
static int
read_endpoints(const reader_t *reader, const char *key, json_t *list, cadre_endpoints_t *endpoints)
{
    if (!json_is_array(list)) {
        return cadre_fail(CADRE_ECONFIG, "%s: cluster.%s is not a list of addresses",
                          reader->source, key);
    }

    size_t count = json_array_size(list);
    if (count > CADRE_TASKS_MAX) {
        return cadre_fail(CADRE_ECONFIG, "%s: cluster.%s has %zu entries, over %d", reader->source,
                          key, count, CADRE_TASKS_MAX);
    }

    endpoints->items = cadre_calloc(count, sizeof(*endpoints->items));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        int status = text ? parse_address(text, &endpoints->items[i])
                          : cadre_fail(CADRE_ECONFIG, "the address is not a string");
        if (status < 0) {
            return cadre_fail_within(status, "%s: cluster.%s[%zu]", reader->source, key, i);
        }
        endpoints->count++;
    }

    return 0;
}

static void
endpoints_fini(cadre_endpoints_t *self)
{
    free(self->items);
}

/* Reads the list of the coordinator's addresses. One address counts in all: "chief" and
 * "coordinator" are two names of the role, and both lists may be there. */
static int
read_coordinator(reader_t *reader, const char *key, json_t *list)
{
    cadre_auto(endpoints_fini) cadre_endpoints_t endpoints = {0};
    int status = read_endpoints(reader, key, list, &endpoints);
    if (status < 0) {
        return status;
    }

    if (endpoints.count > 0) {
        reader->config.coordinator = endpoints.items[0];
        reader->coordinators += endpoints.count;
    }

    if (reader->coordinators > 1) {
        return cadre_fail(CADRE_ECONFIG, "%s: the cluster has %zu coordinators (chiefs), not one",
                          reader->source, reader->coordinators);
    }

    return 0;
}

/* Reads the list of one role's addresses into the configuration; `key` is the name of the role. */
static int
read_role_list(reader_t *reader, const char *key, json_t *list)
{
    cadre_role_t role = CADRE_ROLE_COORDINATOR;
    int status = parse_role(key, &role);
    if (status < 0) {
        return cadre_fail_within(status, "%s: cluster", reader->source);
    }

    switch (role) {
    case CADRE_ROLE_COORDINATOR:
        return read_coordinator(reader, key, list);
    case CADRE_ROLE_PS:
        return read_endpoints(reader, key, list, &reader->config.ps);
    case CADRE_ROLE_WORKER:
        return read_endpoints(reader, key, list, &reader->config.workers);
    case CADRE_ROLE_EVALUATOR:
        return read_endpoints(reader, key, list, &reader->config.evaluators);
    case CADRE_ROLE_CLIENT:
        break; /* parse_role never gives this role */
    }

    return 0;
}

/* Checks that a description with fixed lists of tasks has what a job needs. */
static int
check_fixed_lists(const reader_t *reader)
{
    size_t ps = reader->config.ps.count;
    size_t workers = reader->config.workers.count;
    if (reader->coordinators + ps + workers + reader->config.evaluators.count == 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: the cluster is empty", reader->source);
    }

    if (ps > 0 && workers == 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: the cluster lists %zu ps but no worker",
                          reader->source, ps);
    }

    return 0;
}

/* Where the description lists workers and no ps, each worker brings a shard, which listens at the
 * worker's address, where nobody else does. Worker 0 may be the coordinator, which listens at that
 * address itself: its shard then gets another socket, or any free port (0). */
static int
place_shards(reader_t *reader)
{
    cadre_endpoints_t *workers = &reader->config.workers;
    cadre_endpoints_t *ps = &reader->config.ps;
    if (ps->count > 0 || workers->count == 0) {
        return 0;
    }

    reader->config.has_shards_beside_workers = true;
    ps->items = cadre_calloc(workers->count, sizeof(*ps->items));
    memcpy(ps->items, workers->items, workers->count * sizeof(*ps->items));
    ps->count = workers->count;
    cadre_endpoint_t *first = &ps->items[0];
    if (!reader->chief_is_worker) {
        return 0;
    }

    first->port = 0;
    size_t length = strlen(first->path);
    if (first->kind == CADRE_ENDPOINT_IPC &&
        (size_t)snprintf(first->path + length, sizeof(first->path) - length, "-ps") >=
            sizeof(first->path) - length) {
        return cadre_fail(CADRE_ECONFIG, "%s: cluster.worker[0]: a path of over %zu characters",
                          reader->source, sizeof(first->path) - sizeof("-ps"));
    }

    return 0;
}

/* Reads the description's "cluster": the addresses of all tasks, by role. */
static int
read_cluster(reader_t *reader)
{
    json_t *cluster = json_object_get(reader->root, "cluster");
    if (!json_is_object(cluster)) {
        return cadre_fail(CADRE_ECONFIG, "%s: 'cluster' is missing or not an object",
                          reader->source);
    }

    const char *key = NULL;
    json_t *list = NULL;
    json_object_foreach(cluster, key, list)
    {
        int status = read_role_list(reader, key, list);
        if (status < 0) {
            return status;
        }
    }

    int status = check_fixed_lists(reader);
    if (status < 0) {
        return status;
    }

    /* As in TensorFlow: without a chief, worker 0 is the coordinator. */
    if (reader->coordinators == 0 && reader->config.workers.count > 0) {
        reader->config.coordinator = reader->config.workers.items[0];
        reader->coordinators = 1;
        reader->chief_is_worker = true;
    }

    status = place_shards(reader);
    if (status < 0) {
        return status;
    }

    if (reader->config.ps.count > CADRE_SHARDS_MAX) {
        return cadre_fail(CADRE_ECONFIG, "%s: the cluster lists %zu ps, over %d", reader->source,
                          reader->config.ps.count, CADRE_SHARDS_MAX);
    }

    return 0;
}

/* --- task --- */

/* Reads the index of this task, which may be a number or a string of digits. */
static int
read_task_index(reader_t *reader, json_t *index)
{
    int status = CADRE_ECONFIG;
    if (json_is_string(index)) {
        status = parse_index(json_string_value(index), &reader->config.index);
    } else if (json_is_integer(index)) {
        char digits[24];
        snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, json_integer_value(index));
        status = parse_index(digits, &reader->config.index);
    } else {
        status = cadre_fail(CADRE_ECONFIG, "bad index: it is no integer and no string");
    }

    return status < 0 ? cadre_fail_within(status, "%s: task", reader->source) : 0;
}

/* Reads the description's "task": the role and index of this process. It may be missing: flags can
 * name both. */
static int
read_task(reader_t *reader)
{
    json_t *task = json_object_get(reader->root, "task");
    if (!task) {
        return 0;
    }
    if (!json_is_object(task)) {
        return cadre_fail(CADRE_ECONFIG, "%s: 'task' is not an object", reader->source);
    }

    const char *type = json_string_value(json_object_get(task, "type"));
    if (!type) {
        return cadre_fail(CADRE_ECONFIG, "%s: task.type is missing or not a string",
                          reader->source);
    }

    int status = parse_role(type, &reader->config.role);
    if (status < 0) {
        return cadre_fail_within(status, "%s: task.type", reader->source);
    }

    reader->has_role = true;
    json_t *index = json_object_get(task, "index");
    return index ? read_task_index(reader, index) : 0;
}

/* Reads a description of the cluster, the JSON text of CADRE_CLUSTER or TF_CONFIG. */
static int
read_description(reader_t *reader, const char *text)
{
    json_error_t error;
    reader->root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!reader->root) {
        return cadre_fail(CADRE_ECONFIG, "%s: line %d, column %d: %s", reader->source, error.line,
                          error.column, error.text);
    }

    if (!json_is_object(reader->root)) {
        return cadre_fail(CADRE_ECONFIG, "%s is not a JSON object", reader->source);
    }

    int status = read_cluster(reader);
    if (status < 0) {
        return status;
    }

    return read_task(reader);
}

/* --- flags, and checks of the whole description --- */

/* Returns whether this task is worker 0 of a cluster that lists no chief, and runs as the
 * coordinator. */
static bool
is_first_worker(const reader_t *reader, cadre_role_t role)
{
    return reader->chief_is_worker && role == CADRE_ROLE_COORDINATOR &&
           reader->config.role == CADRE_ROLE_WORKER &&
           (reader->config.index == 0 || reader->config.index == CADRE_INDEX_ANY);
}

/* Fails because the description gives this task another role than the one it runs as. */
static int
fail_role(const reader_t *reader, cadre_role_t role)
{
    const char *hint = reader->chief_is_worker && role == CADRE_ROLE_COORDINATOR
                           ? "; without a chief the coordinator is worker 0"
                           : "";
    return cadre_fail(CADRE_ECONFIG, "%s says that this task is a %s, but it runs as %s%s",
                      reader->source, cadre_role_text(reader->config.role), cadre_role_text(role),
                      hint);
}

/* Takes the role that a flag names. Fails where the description gives this task another role, but
 * for two cases: the coordinator may run as worker 0 of a cluster without a chief, and a ps may be
 * the shard that a worker of the description brings. */
static int
apply_role(reader_t *reader, const char *text)
{
    cadre_role_t role = CADRE_ROLE_COORDINATOR;
    int status = parse_role(text, &role);
    if (status < 0) {
        return status;
    }

    bool is_shard = role == CADRE_ROLE_PS && reader->config.role == CADRE_ROLE_WORKER &&
                    reader->config.has_shards_beside_workers; /* its index is the worker's */
    if (is_first_worker(reader, role)) {
        reader->config.index = 0;
    } else if (is_shard) {
        reader->config.role = role;
    } else if (reader->has_role && reader->config.role != role) {
        return fail_role(reader, role);
    }

    reader->config.role = role;
    reader->has_role = true;
    return 0;
}

/* Applies the flags, which win over the description. */
static int
apply_flags(reader_t *reader, const cadre_cluster_sources_t *sources)
{
    int status = given(sources->role) ? apply_role(reader, sources->role) : 0;
    if (status < 0) {
        return status;
    }

    if (given(sources->index)) {
        status = parse_index(sources->index, &reader->config.index);
        if (status < 0) {
            return status;
        }
    }

    if (given(sources->coordinator)) {
        reader->coordinators = 1;
        status = parse_address(sources->coordinator, &reader->config.coordinator);
        if (status < 0) {
            return cadre_fail_within(status, "coordinator");
        }
    }

    return 0;
}

/* Returns how many tasks of this task's role the description lists; 0 when it leaves them open. */
static size_t
listed(const reader_t *reader)
{
    switch (reader->config.role) {
    case CADRE_ROLE_COORDINATOR:
        return 1;
    case CADRE_ROLE_PS:
        return reader->config.ps.count;
    case CADRE_ROLE_WORKER:
        return reader->config.workers.count;
    case CADRE_ROLE_EVALUATOR:
        return reader->config.evaluators.count;
    case CADRE_ROLE_CLIENT:
        break;
    }

    return 0;
}

/* Checks that the description names a coordinator and says which task this is, and that the task's
 * index is in the list of its role. */
static int
check_task(reader_t *reader)
{
    if (reader->coordinators == 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: the cluster has no coordinator (chief)",
                          reader->source);
    }

    if (!reader->has_role) {
        return cadre_fail(CADRE_ECONFIG, "%s: nothing says which task this is: 'task' is missing",
                          reader->source);
    }

    size_t count = listed(reader);
    const char *role = cadre_role_text(reader->config.role);

    if (reader->config.index == CADRE_INDEX_ANY) {
        /* The list has only this task of its role: its index is 0. Without a list any index will
         * do. */
        reader->config.index = count == 1 ? 0 : CADRE_INDEX_ANY;
        if (count > 1) {
            return cadre_fail(CADRE_ECONFIG,
                              "%s lists %zu tasks of role %s, but no index says which one this is",
                              reader->source, count, role);
        }
        return 0;
    }

    if (count > 0 && reader->config.index >= count) {
        return cadre_fail(CADRE_ECONFIG, "%s: index %" PRIu32 " is beyond the list: %s has %zu",
                          reader->source, reader->config.index, role, count);
    }

    return 0;
}

static void
reader_fini(reader_t *self)
{
    json_decref(self->root);
    cadre_cluster_config_fini(&self->config);
}

/* Reads the cluster's description from the first source that has one, CADRE_CLUSTER or TF_CONFIG,
 * then applies the flags, which win over both, and checks the whole. */
int
cadre_cluster_config_read(const cadre_cluster_sources_t *sources, cadre_cluster_config_t *config)
{
    cadre_auto(reader_fini)
        reader_t reader = {.source = "command line", .config.index = CADRE_INDEX_ANY};

    const char *text = NULL;
    if (given(sources->cadre_cluster)) {
        reader.source = "CADRE_CLUSTER";
        text = sources->cadre_cluster;
    } else if (given(sources->tf_config)) {
        reader.source = "TF_CONFIG";
        text = sources->tf_config;
    } else if (!given(sources->coordinator)) {
        return cadre_fail(CADRE_ENOTFOUND, "nothing names a cluster: no coordinator's address, no "
                                           "CADRE_CLUSTER, no TF_CONFIG");
    }

    int status = text ? read_description(&reader, text) : 0;
    if (status < 0) {
        return status;
    }

    status = apply_flags(&reader, sources);
    if (status < 0) {
        return status;
    }

    status = check_task(&reader);
    if (status < 0) {
        return status;
    }

    *config = reader.config;
    reader.config = (cadre_cluster_config_t){0};
    return 0;
}

void
cadre_cluster_config_fini(cadre_cluster_config_t *self)
{
    free(self->ps.items);
    free(self->workers.items);
    free(self->evaluators.items);
    *self = (cadre_cluster_config_t){0};
}
