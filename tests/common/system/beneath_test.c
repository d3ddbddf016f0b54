/* A folder is opened below another one through no link, by the kernel's own call and without it. */
#include "common/system/beneath.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/memory.h"

TestSuite(beneath, .timeout = 60);

/* A folder with a/b, a file a/file, and links: a/in to b, a/out to the folder's own name, out to
 * "/". */
typedef struct {
    char *path;
    int fd;
} tree_t;

static tree_t
open_tree(void)
{
    tree_t self = {.path = cadre_strdup("/tmp/cadre-beneath-XXXXXX")};
    cr_assert_not_null(mkdtemp(self.path));
    self.fd = open(self.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(self.fd, 0);
    cr_assert_eq(mkdirat(self.fd, "a", 0700), 0);
    cr_assert_eq(mkdirat(self.fd, "a/b", 0700), 0);
    cr_assert_eq(symlinkat("b", self.fd, "a/in"), 0);
    cr_assert_eq(symlinkat(self.path, self.fd, "a/out"), 0);
    cr_assert_eq(symlinkat("/", self.fd, "out"), 0);
    int file = openat(self.fd, "a/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(file, 0);
    close(file);
    return self;
}

static void
close_tree(tree_t *self)
{
    static const char *const names[] = {"out", "a/file", "a/out", "a/in"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_assert_eq(unlinkat(self->fd, names[i], 0), 0, "%s", names[i]);
    }
    cr_assert_eq(unlinkat(self->fd, "a/b", AT_REMOVEDIR), 0);
    cr_assert_eq(unlinkat(self->fd, "a", AT_REMOVEDIR), 0);
    cr_assert_eq(rmdir(self->path), 0);
    close(self->fd);
    free(self->path);
}

/* Whether `path` opened the folder that stat finds by the name `as`. */
static bool
opens(const tree_t *self, const char *path, const char *as)
{
    struct stat found, expected;
    int fd = cadre_beneath_open(self->fd, path);
    if (fd < 0) {
        return false;
    }
    cr_assert_eq(fstat(fd, &found), 0);
    cr_assert_eq(fstatat(self->fd, as, &expected, 0), 0);
    close(fd);
    return found.st_dev == expected.st_dev && found.st_ino == expected.st_ino;
}

static int
error_of(const tree_t *self, const char *path)
{
    int fd = cadre_beneath_open(self->fd, path);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    return errno;
}

static void
expect_all(void)
{
    tree_t tree = open_tree();
    cr_expect(opens(&tree, "", "."));
    cr_expect(opens(&tree, ".", "."));
    cr_expect(opens(&tree, "a", "a"));
    cr_expect(opens(&tree, "a/b", "a/b"));
    cr_expect(opens(&tree, "a//b/", "a/b"));
    cr_expect_eq(error_of(&tree, "a/in"), ELOOP, "where it leads does not matter");
    cr_expect_eq(error_of(&tree, "a/in/"), ELOOP);
    cr_expect_eq(error_of(&tree, "a/out"), ELOOP);
    cr_expect_eq(error_of(&tree, "a/out/a/b"), ELOOP, "a link on the way");
    cr_expect_eq(error_of(&tree, "out/tmp"), ELOOP);
    cr_expect_eq(error_of(&tree, "/tmp"), EXDEV);
    cr_expect_eq(error_of(&tree, ".."), EXDEV);
    cr_expect_eq(error_of(&tree, "a/../a"), EXDEV, "even where it stays below");
    cr_expect_eq(error_of(&tree, "a/b/../../.."), EXDEV);
    cr_expect_eq(error_of(&tree, "a/..b"), ENOENT, "a name like another");
    cr_expect_eq(error_of(&tree, "a/c/d"), ENOENT);
    cr_expect_eq(error_of(&tree, "a/file"), ENOTDIR);
    cr_expect_eq(error_of(&tree, "a/file/b"), ENOTDIR);
    close_tree(&tree);
}

/* Has the kernel answer openat2 with `error`, as a filter of a container does. */
static void
forbid_openat2(uint32_t error)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = CADRE_COUNT_OF(rules), .filter = rules};
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(beneath, opens_folders_below_and_follows_no_link)
{
    expect_all();
}

Test(beneath, does_so_where_the_kernel_knows_no_openat2)
{
    forbid_openat2(ENOSYS);
    expect_all();
}

Test(beneath, does_so_where_a_filter_forbids_openat2)
{
    forbid_openat2(EPERM);
    expect_all();
}

Test(beneath, stays_in_the_folder_that_was_opened)
{
    tree_t tree = open_tree();
    int fd = cadre_beneath_open(tree.fd, "a/b");
    cr_assert_geq(fd, 0);
    cr_assert_eq(renameat(tree.fd, "a/b", tree.fd, "b"), 0);
    cr_assert_eq(symlinkat("/", tree.fd, "a/b"), 0);
    cr_expect_eq(mkdirat(fd, "mine", 0700), 0);
    cr_expect_eq(faccessat(tree.fd, "b/mine", F_OK, 0), 0, "whatever its name leads to");
    cr_expect_eq(error_of(&tree, "a/b"), ELOOP);

    close(fd);
    cr_assert_eq(unlinkat(tree.fd, "b/mine", AT_REMOVEDIR), 0);
    cr_assert_eq(unlinkat(tree.fd, "a/b", 0), 0);
    cr_assert_eq(renameat(tree.fd, "b", tree.fd, "a/b"), 0);
    close_tree(&tree);
}
