#include "common/net/endpoint.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(endpoint, .timeout = 240);

Test(endpoint, reads_and_writes_addresses)
{
    static const char *const cases[][2] = {
        {"tcp://10.0.0.7:2222", "tcp://10.0.0.7:2222"},
        {"ps-0.job.svc:2222", "tcp://ps-0.job.svc:2222"},
        {"localhost:65535", "tcp://localhost:65535"},
        {"tcp://*:*", "tcp://*:*"},
        {"tcp://0.0.0.0:0", "tcp://0.0.0.0:*"},
        {"tcp://[::1]:80", "tcp://[::1]:80"},
        {"ipc:///run/user/1/cadre-x/c", "ipc:///run/user/1/cadre-x/c"},
        {"inproc://cadre-job-ps", "inproc://cadre-job-ps"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_endpoint_t endpoint = {0};
        char text[CADRE_ENDPOINT_TEXT_SIZE];
        cr_assert_eq(cadre_endpoint_parse(cases[i][0], &endpoint), 0, "%s", cases[i][0]);
        cr_assert_str_eq(cadre_endpoint_text(&endpoint, text), cases[i][1]);
    }
}

Test(endpoint, refuses_what_is_no_address)
{
    static const char *const cases[] = {"",
                                        "host",
                                        ":2222",
                                        "host:",
                                        "host:65536",
                                        "host:99999999999999999999",
                                        "host:12x",
                                        "host:-1",
                                        "host:+1",
                                        "host name:1",
                                        "host/path:1",
                                        "-host:1",
                                        "tcp://",
                                        "tcp://::1:80",
                                        "tcp://[::g]:80",
                                        "tcp://[]:80",
                                        "tcp://eth0;1.2.3.4:80",
                                        "udp://host:1",
                                        "ipc://",
                                        "ipc://*",
                                        "ipc://@abstract",
                                        "ipc://relative/path",
                                        "inproc://",
                                        "inproc://cadre-pipe-0x7f00",
                                        "inproc://cadre-job-",
                                        "inproc://cadre-job-PS"};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_endpoint_t endpoint = {.port = 7};
        cr_assert_eq(cadre_endpoint_parse(cases[i], &endpoint), CADRE_EINVALID, "%s", cases[i]);
        cr_assert_not_null(strstr(cadre_error_text(), cases[i]), "%s", cadre_error_text());
        cr_assert_eq(endpoint.port, 7);
    }
}

Test(endpoint, bounds_hosts_and_paths)
{
    for (int over = -1; over <= 1; over++) {
        cadre_endpoint_t endpoint = {0};
        char text[CADRE_ENDPOINT_TEXT_SIZE];
        char letters[CADRE_HOST_SIZE_MAX + 2] = {0};
        memset(letters, 'a', (size_t)(CADRE_HOST_SIZE_MAX + over));
        cadre_auto(cadre_free) char *tcp = cadre_asprintf("tcp://%s:65535", letters);
        cr_assert_eq(cadre_endpoint_parse(tcp, &endpoint), over > 0 ? CADRE_EINVALID : 0);
        if (over <= 0) {
            cr_assert_str_eq(cadre_endpoint_text(&endpoint, text), tcp);
        }
        letters[CADRE_IPC_PATH_SIZE_MAX + over - 1] = '\0';
        cadre_auto(cadre_free) char *ipc = cadre_asprintf("ipc:///%s", letters);
        cr_assert_eq(cadre_endpoint_parse(ipc, &endpoint), over > 0 ? CADRE_ETOOLARGE : 0);
        if (over <= 0) {
            cr_assert_str_eq(cadre_endpoint_text(&endpoint, text), ipc);
        }
    }
}

Test(endpoint, knows_what_only_this_machine_reaches_and_what_names_a_peer)
{
    static const struct {
        const char *text;
        bool local;
        bool concrete;
    } cases[] = {
        {"127.0.0.1:1", true, true},     {"127.9.9.9:*", true, false},
        {"localhost:1", true, true},     {"LOCALHOST:1", true, true},
        {"tcp://[::1]:1", true, true},   {"ipc:///tmp/x", true, true},
        {"0.0.0.0:1", false, false},     {"*:1", false, false},
        {"tcp://[::]:1", false, false},  {"128.0.0.1:1", false, true},
        {"10.0.0.1:0", false, false},    {"worker-0:1", false, true},
        {"127.evil.com:1", false, true},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_endpoint_t endpoint = {0};
        cr_assert_eq(cadre_endpoint_parse(cases[i].text, &endpoint), 0);
        cr_assert_eq(cadre_endpoint_is_local(&endpoint), cases[i].local, "%s", cases[i].text);
        cr_assert_eq(cadre_endpoint_is_concrete(&endpoint), cases[i].concrete, "%s", cases[i].text);
    }
}

Test(endpoint, makes_a_private_directory_and_removes_it)
{
    char parent[] = "/tmp/cadre-test-XXXXXX";
    cr_assert_not_null(mkdtemp(parent));
    char *path = NULL;
    cr_assert_eq(cadre_ipc_directory_new(parent, &path), 0);
    cr_assert_eq(strncmp(path, parent, strlen(parent)), 0);
    struct stat about = {0};
    cr_assert_eq(stat(path, &about), 0);
    cr_assert_eq(about.st_mode & 07777, 0700);
    cadre_ipc_directory_remove(&path);
    cr_assert_null(path);
    cr_assert_eq(rmdir(parent), 0, "the directory was not removed");
}

Test(endpoint, falls_back_to_tmp_when_the_runtime_directory_is_of_no_use)
{
    char longish[120];
    memset(longish, '/', sizeof(longish));
    longish[sizeof(longish) - 1] = '\0';
    const char *const parents[] = {NULL, "", "/nonexistent", "relative", longish};
    for (size_t i = 0; i < CADRE_COUNT_OF(parents); i++) {
        char *path = NULL;
        cr_assert_eq(cadre_ipc_directory_new(parents[i], &path), 0);
        cr_assert_eq(strncmp(path, "/tmp/cadre-", 11), 0, "%s", path);
        cadre_ipc_directory_remove(&path);
    }
}

Test(endpoint, of_one_process_is_local_and_concrete)
{
    cadre_endpoint_t endpoint = {0};
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_inproc_endpoint("coordinator", &endpoint);
    cr_expect_eq(endpoint.kind, CADRE_ENDPOINT_INPROC);
    cr_expect_str_eq(cadre_endpoint_text(&endpoint, text), "inproc://cadre-job-coordinator");
    cr_expect(cadre_endpoint_is_local(&endpoint));
    cr_expect(cadre_endpoint_is_concrete(&endpoint));
    cr_expect_not(cadre_endpoint_is_name(&endpoint));
}
