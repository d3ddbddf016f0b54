#include "common/system/cpu_quota.h"

#include <criterion/criterion.h>
#include <sched.h>

#include "common/base/memory.h"
#include "tests/common/fake_tree.h"

TestSuite(cpu_quota, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

Test(cpu_quota, is_none_without_files_or_with_odd_ones)
{
    cr_assert_eq(cadre_cpu_quota(fake_tree), 0);
    fake_tree_put("proc/self/cgroup", "nonsense\n0:\n:::\n0::relative\n0::/../../x\n0::/a\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 0);
    static const char *const none[] = {"max 100000\n", "",         "\n",          "x y\n",
                                       "100000 0\n",   "100000\n", "-1 100000\n", "0 100000\n"};
    for (size_t i = 0; i < CADRE_COUNT_OF(none); i++) {
        fake_tree_put("sys/fs/cgroup/a/cpu.max", none[i]);
        cr_assert_eq(cadre_cpu_quota(fake_tree), 0, "%s", none[i]);
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
    fake_tree_put("proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        fake_tree_put("sys/fs/cgroup/cpu.max", cases[i].line);
        cr_assert_eq(cadre_cpu_quota(fake_tree), cases[i].cpus, "%s", cases[i].line);
    }
}

Test(cpu_quota, is_the_smallest_of_the_groups_around)
{
    fake_tree_put("proc/self/cgroup", "0::/kubepods/pod1/box\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/cpu.max", "300000 100000\n");
    fake_tree_put("sys/fs/cgroup/kubepods/cpu.max", "1600000 100000\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod2/cpu.max", "100000 100000\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 3);
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "200000 100000\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 2);
}

Test(cpu_quota, is_found_where_only_the_own_group_is_mounted)
{
    fake_tree_put("proc/self/cgroup",
                  "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
    fake_tree_put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    fake_tree_put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 4);
}

Test(cpu_quota, is_read_from_version_1_of_the_cpu_controller_only)
{
    fake_tree_put("proc/self/cgroup", "2:cpuacct:/x\n1:cpu:/x\n0::/\n");
    fake_tree_put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    fake_tree_put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 0);
    fake_tree_put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "250000\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 2);
    fake_tree_put("proc/self/cgroup", "2:cpuacct:/x\n");
    cr_assert_eq(cadre_cpu_quota(fake_tree), 0);
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
