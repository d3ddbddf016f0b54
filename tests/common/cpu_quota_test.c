#include "common/cpu_quota.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"

static char root[] = "/tmp/cadre-quota-XXXXXX";

static void
make_root(void)
{
    cr_assert_not_null(mkdtemp(root));
}

static int
remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void
remove_root(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cpu_quota, .timeout = 240, .init = make_root, .fini = remove_root);

/* Writes a file of the fake tree, with its directories. */
static void
put(const char *path, const char *content)
{
    cadre_auto(cadre_free) char *full = cadre_asprintf("%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *stream = fopen(full, "w");
    cr_assert_not_null(stream, "%s", full);
    fputs(content, stream);
    fclose(stream);
}

Test(cpu_quota, is_none_without_files_or_with_odd_ones)
{
    cr_assert_eq(cadre_cpu_quota(root), 0);
    put("proc/self/cgroup", "nonsense\n0:\n:::\n0::relative\n0::/../../x\n0::/a\n");
    cr_assert_eq(cadre_cpu_quota(root), 0);
    static const char *const none[] = {"max 100000\n", "",         "\n",          "x y\n",
                                       "100000 0\n",   "100000\n", "-1 100000\n", "0 100000\n"};
    for (size_t i = 0; i < CADRE_COUNT_OF(none); i++) {
        put("sys/fs/cgroup/a/cpu.max", none[i]);
        cr_assert_eq(cadre_cpu_quota(root), 0, "%s", none[i]);
    }
}

Test(cpu_quota, rounds_down_but_not_to_nothing)
{
    static const struct {
        const char *line;
        int cpus;
    } cases[] = {{"50000 100000\n", 1},  {"99999 100000\n", 1},  {"100000 100000\n", 1},
                 {"199999 100000\n", 1}, {"200000 100000\n", 2}, {"200001 100000\n", 2},
                 {"350000 50000\n", 7}};
    put("proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        put("sys/fs/cgroup/cpu.max", cases[i].line);
        cr_assert_eq(cadre_cpu_quota(root), cases[i].cpus, "%s", cases[i].line);
    }
}

Test(cpu_quota, is_the_smallest_of_the_groups_around)
{
    put("proc/self/cgroup", "0::/kubepods/pod1/box\n");
    put("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/kubepods/pod1/cpu.max", "300000 100000\n");
    put("sys/fs/cgroup/kubepods/cpu.max", "1600000 100000\n");
    put("sys/fs/cgroup/kubepods/pod2/cpu.max", "100000 100000\n");
    cr_assert_eq(cadre_cpu_quota(root), 3);
    put("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "200000 100000\n");
    cr_assert_eq(cadre_cpu_quota(root), 2);
}

Test(cpu_quota, is_found_where_only_the_own_group_is_mounted)
{
    put("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(cadre_cpu_quota(root), 4);
}

Test(cpu_quota, is_read_from_version_1_of_the_cpu_controller_only)
{
    put("proc/self/cgroup", "2:cpuacct:/x\n1:cpu:/x\n0::/\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(cadre_cpu_quota(root), 0);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n");
    cr_assert_eq(cadre_cpu_quota(root), 2);
    put("proc/self/cgroup", "2:cpuacct:/x\n");
    cr_assert_eq(cadre_cpu_quota(root), 0);
}

Test(cpu_quota, count_obeys_the_affinity_mask)
{
    cr_assert_geq(cadre_cpu_count(), 1);
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    cr_assert_leq(cadre_cpu_count(), CPU_COUNT(&set));
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    cr_assert_eq(cadre_cpu_count(), 1);
}
