#include "common/net/cluster_config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(cluster_config, .timeout = 240);

static int
read_tf(const char *json, cadre_cluster_config_t *config)
{
    return cadre_cluster_config_read(&(cadre_cluster_sources_t){.tf_config = json}, config);
}

static void
assert_address(const cadre_endpoint_t *endpoint, const char *wanted)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cr_assert_str_eq(cadre_endpoint_text(endpoint, text), wanted);
}

#define CLUSTER                                                                                    \
    "\"cluster\": {\"chief\": [\"c0:2222\"], \"ps\": [\"p0:2222\", \"p1:2222\"], "                 \
    "\"worker\": [\"w0:2222\", \"w1:2222\", \"w2:2222\"]}"

Test(cluster_config, reads_what_tensorflow_writes)
{
    cadre_cluster_config_t config = {0};
    cr_assert_eq(read_tf("{" CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": \"2\"}, "
                         "\"environment\": \"cloud\", \"rpc_layer\": \"grpc\"}",
                         &config),
                 0, "%s", cadre_error_text());
    cr_assert_eq(config.role, CADRE_ROLE_WORKER);
    cr_assert_eq(config.index, 2);
    assert_address(&config.coordinator, "tcp://c0:2222");
    cr_assert_eq(config.ps.count, 2);
    assert_address(&config.ps.items[1], "tcp://p1:2222");
    cr_assert_eq(config.workers.count, 3);
    assert_address(&config.workers.items[2], "tcp://w2:2222");
    cr_assert_eq(config.evaluators.count, 0);
    cadre_cluster_config_fini(&config);
    cadre_cluster_config_fini(&config);
}

Test(cluster_config, knows_each_role_with_text_or_number_as_index)
{
    static const struct {
        const char *task;
        cadre_role_t role;
        uint32_t index;
    } cases[] = {
        {"{\"type\": \"chief\", \"index\": 0}", CADRE_ROLE_COORDINATOR, 0},
        {"{\"type\": \"coordinator\", \"index\": \"0\"}", CADRE_ROLE_COORDINATOR, 0},
        {"{\"type\": \"chief\"}", CADRE_ROLE_COORDINATOR, 0},
        {"{\"type\": \"ps\", \"index\": 1}", CADRE_ROLE_PS, 1},
        {"{\"type\": \"worker\", \"index\": 0, \"trial\": 3}", CADRE_ROLE_WORKER, 0},
        {"{\"type\": \"evaluator\", \"index\": 0}", CADRE_ROLE_EVALUATOR, 0},
        {"{\"type\": \"evaluator\"}", CADRE_ROLE_EVALUATOR, CADRE_INDEX_ANY},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_cluster_config_t config = {0};
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{" CLUSTER ", \"task\": %s}", cases[i].task);
        cr_assert_eq(read_tf(json, &config), 0, "%s: %s", json, cadre_error_text());
        cr_assert_eq(config.role, cases[i].role);
        cr_assert_eq(config.index, cases[i].index);
        cadre_cluster_config_fini(&config);
    }
}

Test(cluster_config, needs_no_list_of_those_who_dial_in)
{
    cadre_cluster_config_t config = {0};
    cr_assert_eq(read_tf("{\"cluster\": {\"coordinator\": [\"ipc:///tmp/x/control\"], "
                         "\"evaluator\": [\"e:1\"]}, \"task\": {\"type\": \"ps\"}}",
                         &config),
                 0, "%s", cadre_error_text());
    cr_assert_eq(config.role, CADRE_ROLE_PS);
    cr_assert_eq(config.index, CADRE_INDEX_ANY);
    assert_address(&config.coordinator, "ipc:///tmp/x/control");
    cr_assert_eq(config.ps.count + config.workers.count, 0);
    cr_assert_eq(config.evaluators.count, 1);
    cadre_cluster_config_fini(&config);

    cr_assert_eq(read_tf("{\"cluster\": {\"chief\": [\"c:1\"]}, "
                         "\"task\": {\"type\": \"worker\", \"index\": 4095}}",
                         &config),
                 0, "%s", cadre_error_text());
    cr_assert_eq(config.index, 4095);
    cadre_cluster_config_fini(&config);
}

/* As in TensorFlow's own examples: the coordinator is at the address of worker 0. */
Test(cluster_config, finds_the_coordinator_at_worker_0_where_no_chief_is_listed)
{
    static const char cluster[] = "{\"cluster\": {\"worker\": [\"h1:1\", \"h2:2\"], \"ps\": "
                                  "[\"h4:4\"]}, \"task\": {\"type\": \"%s\", \"index\": %d}}";
    static const struct {
        const char *type;
        int index;
        const char *runs_as; /* NULL: nothing says so but the description */
        cadre_role_t role;
        const char *failure; /* NULL: none */
    } cases[] = {
        {"worker", 0, "coordinator", CADRE_ROLE_COORDINATOR, NULL},
        {"chief", 0, "coordinator", CADRE_ROLE_COORDINATOR, NULL},
        {"worker", 0, "worker", CADRE_ROLE_WORKER, NULL},
        {"worker", 1, NULL, CADRE_ROLE_WORKER, NULL},
        {"ps", 0, "ps", CADRE_ROLE_PS, NULL},
        {"worker", 1, "coordinator", CADRE_ROLE_COORDINATOR,
         "TF_CONFIG says that this task is a worker, but it runs as coordinator; without a chief "
         "the coordinator is worker 0"},
        {"ps", 0, "coordinator", CADRE_ROLE_COORDINATOR,
         "TF_CONFIG says that this task is a ps, but it runs as coordinator; without a chief the "
         "coordinator is worker 0"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf(cluster, cases[i].type, cases[i].index);
        cadre_cluster_sources_t sources = {.tf_config = text, .role = cases[i].runs_as};
        cadre_cluster_config_t config = {0};
        int status = cadre_cluster_config_read(&sources, &config);
        cr_assert_eq(status, cases[i].failure ? CADRE_ECONFIG : 0, "%s", cadre_error_text());
        if (cases[i].failure) {
            cr_expect_str_eq(cadre_error_text(), cases[i].failure);
        } else {
            cr_expect_eq(config.role, cases[i].role);
            cr_expect_eq(config.index, (uint32_t)cases[i].index);
            assert_address(&config.coordinator, "tcp://h1:1");
        }
        cadre_cluster_config_fini(&config);
    }
}

Test(cluster_config, lets_cadre_cluster_win_over_tf_config_and_flags_over_both)
{
    cadre_cluster_sources_t sources = {
        .tf_config = "not even JSON",
        .cadre_cluster = "{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": 1}}"};
    cadre_cluster_config_t config = {0};
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), 0, "%s", cadre_error_text());
    cr_assert_eq(config.index, 1);
    cadre_cluster_config_fini(&config);

    sources.role = "ps";
    sources.index = "0";
    sources.coordinator = "127.0.0.1:9";
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), 0, "%s", cadre_error_text());
    cr_assert_eq(config.index, 0);
    assert_address(&config.coordinator, "tcp://127.0.0.1:9");
    cadre_cluster_config_fini(&config);

    sources.role = "worker";
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), CADRE_ECONFIG);
    cr_assert_str_eq(cadre_error_text(),
                     "CADRE_CLUSTER says that this task is a ps, but it runs as worker");
}

Test(cluster_config, is_complete_with_flags_alone)
{
    cadre_cluster_sources_t sources = {
        .role = "worker", .coordinator = "tcp://h:1", .cadre_cluster = "", .tf_config = ""};
    cadre_cluster_config_t config = {0};
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), 0, "%s", cadre_error_text());
    cr_assert_eq(config.role, CADRE_ROLE_WORKER);
    cr_assert_eq(config.index, CADRE_INDEX_ANY);
    cadre_cluster_config_fini(&config);
    sources.coordinator = NULL;
    cr_assert_eq(cadre_cluster_config_read(&sources, &config), CADRE_ENOTFOUND);
}

/* As MultiWorkerMirroredStrategy has it: every task is a worker. */
Test(cluster_config, S5_of_workers_alone_has_a_shard_beside_each)
{
    static const char worker_1[] = "{\"cluster\": {\"worker\": [\"a:1\", \"b:2\", \"c:3\"]}, "
                                   "\"task\": {\"type\": \"worker\", \"index\": 1}}";
    static const char *const roles[] = {"ps", "worker"};
    for (size_t i = 0; i < CADRE_COUNT_OF(roles); i++) {
        cadre_cluster_sources_t sources = {.role = roles[i], .tf_config = worker_1};
        cadre_cluster_config_t config = {0};
        cr_assert_eq(cadre_cluster_config_read(&sources, &config), 0, "%s", cadre_error_text());
        cr_expect(config.has_shards_beside_workers);
        cr_expect_eq(config.index, 1);
        cr_expect_eq(config.ps.count, 3);
        assert_address(&config.coordinator, "tcp://a:1");
        assert_address(&config.ps.items[0], "tcp://a:*");
        assert_address(&config.ps.items[1], "tcp://b:2");
        assert_address(&config.ps.items[2], "tcp://c:3");
        cadre_cluster_config_fini(&config);
    }
}

Test(cluster_config, of_workers_and_a_chief_leaves_worker_0_its_address_for_its_shard)
{
    cadre_cluster_config_t config = {0};
    cr_assert_eq(read_tf("{\"cluster\": {\"chief\": [\"c:9\"], \"worker\": [\"a:1\"]}, "
                         "\"task\": {\"type\": \"chief\"}}",
                         &config),
                 0, "%s", cadre_error_text());
    cr_expect(config.has_shards_beside_workers);
    assert_address(&config.coordinator, "tcp://c:9");
    assert_address(&config.ps.items[0], "tcp://a:1");
    cadre_cluster_config_fini(&config);
}

Test(cluster_config, of_workers_alone_on_ipc_has_another_socket_for_the_first_shard)
{
    cadre_cluster_config_t config = {0};
    cr_assert_eq(read_tf("{\"cluster\": {\"worker\": [\"ipc:///x/a\", \"ipc:///x/b\"]}, "
                         "\"task\": {\"type\": \"worker\", \"index\": 0}}",
                         &config),
                 0, "%s", cadre_error_text());
    assert_address(&config.coordinator, "ipc:///x/a");
    assert_address(&config.ps.items[0], "ipc:///x/a-ps");
    assert_address(&config.ps.items[1], "ipc:///x/b");
    cadre_cluster_config_fini(&config);
}

Test(cluster_config, P12_says_for_each_mistake_what_and_where)
{
    static const char *const cases[][2] = {
        {"{\"cluster\": {},\n \"task\": {\"type\": ]}",
         "TF_CONFIG: line 2, column 19: unexpected token near ']'"},
        {"[]", "TF_CONFIG is not a JSON object"},
        {"{}", "TF_CONFIG: 'cluster' is missing or not an object"},
        {"{\"cluster\": {}}", "TF_CONFIG: the cluster is empty"},
        {"{\"cluster\": {\"ps\": [], \"worker\": []}}", "TF_CONFIG: the cluster is empty"},
        {"{\"cluster\": {\"worker\": [\"w:1\", \"w:2\"]}, \"task\": {\"type\": \"ps\"}}",
         "TF_CONFIG lists 2 tasks of role ps, but no index says which one this is"},
        {"{\"cluster\": {\"chief\": [\"c:1\"], \"ps\": [\"p:1\"], \"worker\": []}}",
         "TF_CONFIG: the cluster lists 1 ps but no worker"},
        {"{\"cluster\": {\"evaluator\": [\"e:1\"]}}",
         "TF_CONFIG: the cluster has no coordinator (chief)"},
        {"{\"cluster\": {\"ps\": [\"p:1\"], \"worker\": [\"w:1\"]}}",
         "TF_CONFIG: nothing says which task this is: 'task' is missing"},
        {"{\"cluster\": {\"master\": [\"c:1\"]}}",
         "TF_CONFIG: cluster: unknown role 'master': it is none of coordinator (or chief), ps, "
         "worker, evaluator"},
        {"{\"cluster\": {\"chief\": [\"c:1\", \"c:2\"]}}",
         "TF_CONFIG: the cluster has 2 coordinators (chiefs), not one"},
        {"{\"cluster\": {\"chief\": [\"c:1\"], \"coordinator\": [\"c:1\"]}}",
         "TF_CONFIG: the cluster has 2 coordinators (chiefs), not one"},
        {"{\"cluster\": {\"chief\": \"c:1\"}}",
         "TF_CONFIG: cluster.chief is not a list of addresses"},
        {"{\"cluster\": {\"chief\": [7]}}",
         "TF_CONFIG: cluster.chief[0]: the address is not a string"},
        {"{\"cluster\": {\"chief\": [\"c:1\"], \"ps\": [\"p:1\", \"p\"]}}",
         "TF_CONFIG: cluster.ps[1]: address 'p' is not host:port"},
        {"{\"cluster\": {\"chief\": [\"c:*\"]}}",
         "TF_CONFIG: cluster.chief[0]: address 'c:*' names no host and port to connect to"},
        {"{" CLUSTER "}", "TF_CONFIG: nothing says which task this is: 'task' is missing"},
        {"{" CLUSTER ", \"task\": 3}", "TF_CONFIG: 'task' is not an object"},
        {"{" CLUSTER ", \"task\": {\"index\": 3}}",
         "TF_CONFIG: task.type is missing or not a string"},
        {"{" CLUSTER ", \"task\": {\"type\": \"boss\"}}",
         "TF_CONFIG: task.type: unknown role 'boss': it is none of coordinator (or chief), ps, "
         "worker, evaluator"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": \"1x\"}}",
         "TF_CONFIG: task: bad index '1x': it is not in 0..4095"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": -1}}",
         "TF_CONFIG: task: bad index '-1': it is not in 0..4095"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": 4096}}",
         "TF_CONFIG: task: bad index '4096': it is not in 0..4095"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": \"\"}}",
         "TF_CONFIG: task: bad index '': it is not in 0..4095"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": 1.5}}",
         "TF_CONFIG: task: bad index: it is no integer and no string"},
        {"{" CLUSTER ", \"task\": {\"type\": \"ps\", \"index\": 2}}",
         "TF_CONFIG: index 2 is beyond the list: ps has 2"},
        {"{" CLUSTER ", \"task\": {\"type\": \"chief\", \"index\": 1}}",
         "TF_CONFIG: index 1 is beyond the list: coordinator has 1"},
        {"{" CLUSTER ", \"task\": {\"type\": \"worker\"}}",
         "TF_CONFIG lists 3 tasks of role worker, but no index says which one this is"},
        {"{\"cluster\": {\"chief\": [\"c:1\"], \"chief\": [\"c:1\"]}}",
         "TF_CONFIG: line 1, column 38: duplicate object key near '\"chief\"'"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_cluster_config_t config = {.index = 77};
        cr_assert_eq(read_tf(cases[i][0], &config), CADRE_ECONFIG, "%s", cases[i][0]);
        cr_assert_str_eq(cadre_error_text(), cases[i][1]);
        cr_assert_eq(config.index, 77, "a failure wrote its output");
    }
}

static char *
cluster_of(size_t ps_count, size_t worker_count)
{
    size_t size = 256 + 8 * (ps_count + worker_count);
    char *json = cadre_calloc(size, 1);
    size_t at = (size_t)snprintf(json, size, "{\"cluster\":{\"chief\":[\"c:1\"],\"ps\":[");
    for (size_t i = 0; i < ps_count; i++) {
        at += (size_t)snprintf(json + at, size - at, "%s\"p:1\"", i ? "," : "");
    }
    at += (size_t)snprintf(json + at, size - at, "],\"worker\":[");
    for (size_t i = 0; i < worker_count; i++) {
        at += (size_t)snprintf(json + at, size - at, "%s\"w:1\"", i ? "," : "");
    }
    snprintf(json + at, size - at, "]},\"task\":{\"type\":\"chief\"}}");
    return json;
}

Test(cluster_config, bounds_the_lists)
{
    for (size_t over = 0; over <= 1; over++) {
        cadre_cluster_config_t config = {0};
        cadre_auto(cadre_free) char *ps = cluster_of(CADRE_SHARDS_MAX + over, 1);
        cr_assert_eq(read_tf(ps, &config), over ? CADRE_ECONFIG : 0);
        cadre_cluster_config_fini(&config);
        cadre_auto(cadre_free) char *workers = cluster_of(1, CADRE_TASKS_MAX + over);
        cr_assert_eq(read_tf(workers, &config), over ? CADRE_ECONFIG : 0);
        cadre_cluster_config_fini(&config);
    }
}

Test(cluster_config, takes_the_environment)
{
    setenv("CADRE_CLUSTER", "a", 1);
    unsetenv("TF_CONFIG");
    cadre_cluster_sources_t sources = {.role = "ps"};
    cadre_cluster_sources_from_environment(&sources);
    cr_assert_str_eq(sources.cadre_cluster, "a");
    cr_assert_null(sources.tf_config);
    cr_assert_str_eq(sources.role, "ps");
}
