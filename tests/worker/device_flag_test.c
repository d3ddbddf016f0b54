/* cadre-worker --device, on a copy of the program in a folder of its own: modules are found there
 * and nowhere else. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/copy_file.h"
#include "tests/system/process.h"

enum { CHECK_MS = 120000 };

static char folder[64];

static const char *const names[] = {"cadre-worker", "cadre_device_cuda.so", "libcuda.so.1"};

static void
copy(const char *from, const char *name)
{
    cadre_auto(cadre_free) char *source = cadre_asprintf("%s/%s", getenv("CADRE_BIN_DIR"), from);
    cadre_auto(cadre_free) char *to = cadre_asprintf("%s/%s", folder, name);
    copy_file(source, to);
}

static void
setup(void)
{
    snprintf(folder, sizeof(folder), "/tmp/cadre-device-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    unsetenv("CADRE_DEVICE");
    copy("cadre-worker", "cadre-worker");
}

static void
teardown(void)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(device_flag, .timeout = 240, .init = setup, .fini = teardown);

/* The driver is a file of the folder: any shared object that loads. */
static void
put_driver(void)
{
    copy("../tests/modules/cadre_device_no_symbol.so", "libcuda.so.1");
}

static void
put_module(const char *name)
{
    cadre_auto(cadre_free) char *from = cadre_asprintf("../tests/modules/cadre_device_%s.so", name);
    copy(from, "cadre_device_cuda.so");
}

/* Runs the copy with --check and gives its exit status and what it wrote. All but `output` may be
 * NULL. */
static int
run_check(const char *device, const char *variable, const char *more, char *output,
          size_t size_bytes)
{
    cadre_auto(cadre_free) char *worker = cadre_asprintf("%s/cadre-worker", folder);
    cadre_auto(cadre_free) char *libraries = cadre_asprintf("LD_LIBRARY_PATH=%s", folder);
    cadre_auto(cadre_free) char *named =
        cadre_asprintf("CADRE_DEVICE=%s", variable ? variable : "");
    const char *words[8] = {worker, "--check", "--coordinator", "tcp://127.0.0.1:1"};
    size_t count = 4;
    if (device) {
        words[count++] = "--device";
        words[count++] = device;
    }
    words[count] = more;
    return process_output(words, (const char *const[]){libraries, variable ? named : NULL, NULL},
                          CHECK_MS, output, size_bytes);
}

static int
check(const char *device, const char *variable, char *output, size_t size_bytes)
{
    return run_check(device, variable, NULL, output, size_bytes);
}

/* With one more argument. */
static int
check_more(const char *device, const char *more, char *output, size_t size_bytes)
{
    return run_check(device, NULL, more, output, size_bytes);
}

static void
expect(const char *device, int status, const char *text)
{
    char output[4096];
    cr_expect_eq(check(device, NULL, output, sizeof(output)), status, "%s", output);
    cr_expect_not_null(strstr(output, text), "%s is not in: %s", text, output);
}

Test(device_flag, without_a_module_auto_is_the_cpu_and_cuda_exits_78)
{
    char output[4096];
    cr_expect_eq(check("auto", NULL, output, sizeof(output)), 0, "%s", output);
    cr_expect_not_null(strstr(output, "\ndevice cpu "), "%s", output);
    cr_expect_null(strstr(output, "note "), "%s", output);
    expect(NULL, 0, "\ndevice cpu ");
    expect("cpu", 0, "\ndevice cpu ");
    expect("cuda:0", 78, "cuda:0: no cadre_device_cuda.so in ");
    expect("cuda", 78, "cuda:0: no cadre_device_cuda.so in ");
    expect("cuda", 78, "build it where nvcc is (docs/gpu.md); or take the device cpu or auto");
}

Test(device_flag, refuses_names_that_are_none)
{
    static const char *const bad[] = {"tpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1024", "CPU"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("--device: no device \"%s\"", bad[i]);
        expect(bad[i], 2, text);
    }
    expect("cuda:1023", 78, "cuda:1023: no cadre_device_cuda.so");
}

Test(device_flag, the_variable_counts_where_there_is_no_flag)
{
    char output[4096];
    cr_expect_eq(check(NULL, "cuda:3", output, sizeof(output)), 78);
    cr_expect_not_null(strstr(output, "cuda:3: "), "%s", output);
    cr_expect_eq(check("cpu", "cuda:3", output, sizeof(output)), 0);
    cr_expect_eq(check(NULL, "", output, sizeof(output)), 0);
    cr_expect_eq(check(NULL, "cuda:99999", output, sizeof(output)), 78);
    cr_expect_not_null(strstr(output, "CADRE_DEVICE: no device \"cuda:99999\": it is auto, cpu, "),
                       "%s", output);
    cr_expect_eq(check("cpu", "cuda:99999", output, sizeof(output)), 0);
}

Test(device_flag, math_is_checked_whatever_the_device)
{
    char output[4096];
    unsetenv("CADRE_MATH");
    cr_expect_eq(check_more("cpu", "--math=tf32", output, sizeof(output)), 0);
    cr_expect_eq(check_more("cpu", "--math=foo", output, sizeof(output)), 2);
    cr_expect_not_null(strstr(output, "--math: math \"foo\" is none of f32|tf32|bf16"), "%s",
                       output);
    setenv("CADRE_MATH", "foo", 1);
    cr_expect_eq(check("cpu", NULL, output, sizeof(output)), 78);
    cr_expect_not_null(strstr(output, "CADRE_MATH: math \"foo\" is none of"), "%s", output);
    cr_expect_eq(check_more("cpu", "--math=bf16", output, sizeof(output)), 0, "%s", output);
    unsetenv("CADRE_MATH");
}

Test(device_flag, a_trace_that_cannot_be_written_is_found_by_check_and_none_is_left)
{
    char output[4096];
    cadre_auto(cadre_free) char *flag = cadre_asprintf("--trace=%s/t.json", folder);
    const char *path = flag + strlen("--trace=");
    cr_expect_eq(check_more("cpu", flag, output, sizeof(output)), 0, "%s", output);
    cr_expect_not_null(strstr(output, "\ntrace "), "%s", output);
    cr_expect_neq(access(path, F_OK), 0);
    FILE *file = fopen(path, "w");
    fputs("kept", file);
    fclose(file);
    cr_expect_eq(check_more("cpu", flag, output, sizeof(output)), 0, "%s", output);
    struct stat info;
    cr_expect_eq(stat(path, &info), 0);
    cr_expect_eq(info.st_size, 4);
    unlink(path);
    cr_expect_eq(check_more("cpu", "--trace=/proc/nowhere/t.json", output, sizeof(output)), 73);
    cr_expect_not_null(strstr(output, "--trace: trace file /proc/nowhere/t.json: No such file"),
                       "%s", output);
    cr_expect_eq(check_more("cpu", "--trace=/proc", output, sizeof(output)), 73, "%s", output);
}

/* What --list-devices prints; nothing else is asked for. */
static void
expect_list(const char *wanted)
{
    char output[4096];
    cadre_auto(cadre_free) char *worker = cadre_asprintf("%s/cadre-worker", folder);
    cadre_auto(cadre_free) char *libraries = cadre_asprintf("LD_LIBRARY_PATH=%s", folder);
    const char *words[] = {worker, "--list-devices", NULL};
    cr_expect_eq(process_output(words, (const char *const[]){libraries, NULL}, CHECK_MS, output,
                                sizeof(output)),
                 0);
    cr_expect_str_eq(output, wanted);
}

Test(device_flag, auto_in_turn_goes_round_the_devices_that_there_are)
{
    expect_list("cpu\n");
    expect("auto:2", 0, "\ndevice cpu ");
    put_driver();
    put_module("three");
    expect_list("cuda:0\ncuda:1\ncuda:2\ncpu\n");
    expect("auto", 0, "\ndevice cuda:0 Made-up f32\n");
    expect("auto:1", 0, "\ndevice cuda:1 Made-up f32\n");
    expect("auto:2", 0, "\ndevice cuda:2 Made-up f32\n");
    expect("auto:4", 0, "\ndevice cuda:1 Made-up f32\n");
}

Test(device_flag, a_missing_driver_is_named)
{
    put_module("no_device");
    /* A file that is no library hides a driver that this machine may have. */
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/libcuda.so.1", folder);
    FILE *file = fopen(path, "w");
    fputs("none", file);
    fclose(file);
    expect("cuda:0", 78, "cuda:0: no NVIDIA driver: ");
    expect("cuda:0", 78, "; install NVIDIA's driver; nvidia-smi shows");
    expect("auto", 0, "\ndevice cpu ");
    expect("auto", 0, "\nnote cuda:0: no NVIDIA driver: ");
}

Test(device_flag, a_module_that_does_not_fit_is_named)
{
    put_driver();
    put_module("other_abi");
    expect("cuda:0", 78, "cadre_device_cuda.so has device ABI 3");
    expect("auto", 0, "\nnote cuda:0: /tmp/");
    put_module("no_symbol");
    expect("cuda:0", 78, "does not export cadre_device_module");
    put_module("no_device");
    expect("cuda:0", 78, "cuda:0: no such hardware");
    expect("auto", 0, "\nnote cuda:0: no such hardware");
}
