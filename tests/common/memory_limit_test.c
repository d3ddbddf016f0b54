#include "common/memory_limit.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "tests/sanitizer.h"

static char root[] = "/tmp/cadre-limit-XXXXXX";

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

TestSuite(memory_limit, .timeout = 240, .init = make_root, .fini = remove_root);

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

Test(memory_limit, is_none_without_files_or_with_odd_ones)
{
    cr_assert_eq(cadre_memory_limit(root), UINT64_MAX);
    put("proc/self/cgroup", "nonsense\n0:\n:::\n0::relative\n0::/../../x\n0::/a\n3:memory:/a\n");
    static const char *const none[] = {"max\n", "",    "\n",    "x\n",
                                       "-1\n",  "0\n", "12x\n", "99999999999999999999\n"};
    for (size_t i = 0; i < CADRE_COUNT_OF(none); i++) {
        put("sys/fs/cgroup/a/memory.max", none[i]);
        cr_assert_eq(cadre_memory_limit(root), UINT64_MAX, "%s", none[i]);
    }
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(cadre_memory_limit(root), UINT64_MAX, "what version 1 has without a limit");
}

Test(memory_limit, is_the_smallest_of_the_groups_around)
{
    put("proc/self/cgroup", "0::/kubepods/pod1/box\n");
    put("sys/fs/cgroup/kubepods/pod1/box/memory.max", "max\n");
    put("sys/fs/cgroup/kubepods/pod1/memory.max", "3000000\n");
    put("sys/fs/cgroup/kubepods/memory.max", "16000000\n");
    put("sys/fs/cgroup/kubepods/pod2/memory.max", "1000\n");
    cr_assert_eq(cadre_memory_limit(root), 3000000);
    put("sys/fs/cgroup/kubepods/pod1/box/memory.max", "2000000\n");
    cr_assert_eq(cadre_memory_limit(root), 2000000);
}

Test(memory_limit, is_read_from_version_1_also_where_only_the_own_group_is_mounted)
{
    put("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
    put("sys/fs/cgroup/cpu,cpuacct/memory.limit_in_bytes", "1000\n");
    cr_assert_eq(cadre_memory_limit(root), UINT64_MAX, "another controller's");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
    cr_assert_eq(cadre_memory_limit(root), 4000000);
    put("sys/fs/cgroup/unified/docker/abc/memory.max", "5000000\n");
    cr_assert_eq(cadre_memory_limit(root), 4000000);
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
