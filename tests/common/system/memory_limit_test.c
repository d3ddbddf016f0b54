#include "common/system/memory_limit.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/common/fake_tree.h"
#include "tests/sanitizer.h"

TestSuite(memory_limit, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

Test(memory_limit, is_none_without_files_or_with_odd_ones)
{
    cr_assert_eq(cadre_memory_limit(fake_tree), UINT64_MAX);
    fake_tree_put("proc/self/cgroup",
                  "nonsense\n0:\n:::\n0::relative\n0::/../../x\n0::/a\n3:memory:/a\n");
    static const char *const none[] = {"max\n", "",    "\n",    "x\n",
                                       "-1\n",  "0\n", "12x\n", "99999999999999999999\n"};
    for (size_t i = 0; i < CADRE_COUNT_OF(none); i++) {
        fake_tree_put("sys/fs/cgroup/a/memory.max", none[i]);
        cr_assert_eq(cadre_memory_limit(fake_tree), UINT64_MAX, "%s", none[i]);
    }
    fake_tree_put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), UINT64_MAX, "what version 1 has without a limit");
}

Test(memory_limit, is_the_smallest_of_the_groups_around)
{
    fake_tree_put("proc/self/cgroup", "0::/kubepods/pod1/box\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/box/memory.max", "max\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/memory.max", "3000000\n");
    fake_tree_put("sys/fs/cgroup/kubepods/memory.max", "16000000\n");
    fake_tree_put("sys/fs/cgroup/kubepods/pod2/memory.max", "1000\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), 3000000);
    fake_tree_put("sys/fs/cgroup/kubepods/pod1/box/memory.max", "2000000\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), 2000000);
}

Test(memory_limit, is_read_from_version_1_also_where_only_the_own_group_is_mounted)
{
    fake_tree_put("proc/self/cgroup",
                  "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
    fake_tree_put("sys/fs/cgroup/cpu,cpuacct/memory.limit_in_bytes", "1000\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), UINT64_MAX, "another controller's");
    fake_tree_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), 4000000);
    fake_tree_put("sys/fs/cgroup/unified/docker/abc/memory.max", "5000000\n");
    cr_assert_eq(cadre_memory_limit(fake_tree), 4000000);
}

Test(memory_limit, of_this_process_is_no_more_than_the_machine_or_the_address_space)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    cr_assert_gt(cadre_memory_size(), 0);
    cr_assert_leq(cadre_memory_size(), machine);
    if (SANITIZER) {
        return; /* its shadow takes more */
    }
    struct rlimit space = {.rlim_cur = (rlim_t)1 << 30, .rlim_max = (rlim_t)1 << 30};
    cr_assert_eq(setrlimit(RLIMIT_AS, &space), 0);
    cr_assert_leq(cadre_memory_size(), (uint64_t)1 << 30);
}
