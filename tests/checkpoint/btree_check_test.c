#include "common/checkpoint/btree_check.h"

#include <lmdb.h>

#include "tests/checkpoint/sample.h"

TestSuite(btree_check, .timeout = 240);

/* A file with a tree of several levels, and values of all sizes; `salt` chooses them. */
static char *
write_tree(const char *directory, unsigned entries)
{
    char *path = cadre_asprintf("%s/tree.mdb", directory);
    MDB_env *env = NULL;
    MDB_txn *transaction = NULL;
    MDB_dbi dbi;
    static uint8_t bytes[9500];
    cr_assert_eq(mdb_env_create(&env), 0);
    cr_assert_eq(mdb_env_set_mapsize(env, 1 << 28), 0);
    cr_assert_eq(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS | MDB_NOSYNC, 0600),
                 0);
    for (unsigned i = 0; i < entries; i++) {
        if (i % 500 == 0) {
            cr_assert(i == 0 || mdb_txn_commit(transaction) == 0);
            cr_assert_eq(mdb_txn_begin(env, NULL, 0, &transaction), 0);
            cr_assert_eq(mdb_dbi_open(transaction, NULL, 0, &dbi), 0);
        }
        char name[64];
        MDB_val key = {(size_t)snprintf(name, sizeof(name), "variable/%u/value", i * 7919 % 10007),
                       name};
        MDB_val value = {i % 50 == 0 ? 9000 + i % 500 : i % 7 == 0 ? 3000 : i % 300, bytes};
        cr_assert_eq(mdb_put(transaction, dbi, &key, &value, 0), 0);
    }
    cr_assert(entries == 0 || mdb_txn_commit(transaction) == 0);
    mdb_env_close(env);
    return path;
}

static int
check(const char *path)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &about) == 0);
    int status = cadre_btree_check(fd, path, (uint64_t)about.st_size);
    close(fd);
    return status;
}

Test(btree_check, passes_what_lmdb_writes)
{
    static const unsigned ENTRIES[] = {0, 1, 2, 50, 499, 501, 5000};
    for (size_t i = 0; i < CADRE_COUNT_OF(ENTRIES); i++) {
        cadre_auto(sample_directory_remove) char *directory = sample_directory();
        cadre_auto(cadre_free) char *path = write_tree(directory, ENTRIES[i]);
        ok(check(path));
    }
}

/* Reads everything through LMDB, as the shard's reader does. */
static void
read_all(const char *path)
{
    MDB_env *env = NULL;
    MDB_txn *transaction = NULL;
    MDB_cursor *cursor = NULL;
    MDB_dbi dbi;
    MDB_val key;
    MDB_val value;
    volatile uint8_t sum = 0;
    cr_assert_eq(mdb_env_create(&env), 0);
    if (mdb_env_set_mapsize(env, 1 << 20) == 0 &&
        mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0) == 0 &&
        mdb_txn_begin(env, NULL, MDB_RDONLY, &transaction) == 0) {
        if (mdb_dbi_open(transaction, NULL, 0, &dbi) == 0 &&
            mdb_cursor_open(transaction, dbi, &cursor) == 0) {
            for (int way = 0; way < 2; way++) {
                int code = mdb_cursor_get(cursor, &key, &value, way == 0 ? MDB_FIRST : MDB_LAST);
                for (; code == 0;
                     code = mdb_cursor_get(cursor, &key, &value, way == 0 ? MDB_NEXT : MDB_PREV)) {
                    for (size_t i = 0; i < key.mv_size; i++) {
                        sum = (uint8_t)(sum + ((uint8_t *)key.mv_data)[i]);
                    }
                    for (size_t i = 0; i < value.mv_size; i += 512) {
                        sum = (uint8_t)(sum + ((uint8_t *)value.mv_data)[i]);
                    }
                }
            }
            key = (MDB_val){8, (void *)"variable"};
            mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
            mdb_cursor_close(cursor);
        }
        mdb_txn_abort(transaction);
    }
    mdb_env_close(env);
}

/* Changes a few bytes where pages keep what LMDB trusts: headers, offsets, nodes, meta pages. */
static void
spoil(int fd, off_t size, uint64_t seed)
{
    static const uint8_t TELLING[] = {0, 1, 2, 4, 8, 16, 0x10, 0x7f, 0x80, 0xff};
    uint64_t state = seed;
    for (uint64_t edits = 1 + seed % 3; edits > 0; edits--) {
        uint64_t drawn = state =
            state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t page = (drawn >> 40) % (uint64_t)(size / 4096);
        uint64_t within = (drawn >> 33) % 3 == 0 ? (drawn >> 20) % 4096 : (drawn >> 20) % 160;
        uint8_t bytes[2] = {TELLING[(drawn >> 12) % sizeof(TELLING)],
                            TELLING[(drawn >> 16) % sizeof(TELLING)]};
        size_t count = 1 + (drawn >> 50) % 2;
        cr_assert_eq(pwrite(fd, bytes, count, (off_t)(page * 4096 + within)), (ssize_t)count);
    }
}

/* A page that passes can be read: LMDB neither leaves the map nor stops at one of its asserts. */
Test(btree_check, lets_nothing_pass_that_lmdb_cannot_read)
{
    enum { ROUNDS = 4000 };
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = write_tree(directory, 300);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    cr_assert(fd >= 0 && fstat(fd, &about) == 0);
    cadre_auto(cadre_free) uint8_t *good = cadre_calloc(1, (size_t)about.st_size);
    cr_assert_eq(pread(fd, good, (size_t)about.st_size, 0), about.st_size);
    int refused = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        spoil(fd, about.st_size, seed * 2654435761U);
        if (check(path) == 0) {
            read_all(path);
        } else {
            cr_expect(strstr(cadre_error_text(), "tree.mdb"), "%s", cadre_error_text());
            refused++;
        }
        cr_assert_eq(pwrite(fd, good, (size_t)about.st_size, 0), about.st_size);
    }
    cr_expect_gt(refused, ROUNDS / 20, "%d", refused);
    cr_expect_lt(refused, ROUNDS, "keys and values are not looked at");
    close(fd);
}

/* What each refusal is about, at a place of its own. */
Test(btree_check, says_what_is_wrong_with_which_page)
{
    static const struct {
        off_t at;
        uint64_t value;
        size_t size;
        const char *text;
    } CASES[] = {
        {10, 0, 2, "page 0: is no meta page"},
        {16, 1, 4, "page 0: is no meta page"},
        {4096 + 20, 2, 4, "page 1: is no meta page"},
        {40, 4095, 4, "page 0: has an odd page size"},
        {40, 0, 4, "page 0: has an odd page size"},
        {4096 + 40, 8192, 4, "page 1: has another page size"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(CASES); i++) {
        cadre_auto(sample_directory_remove) char *directory = sample_directory();
        cadre_auto(cadre_free) char *path = write_tree(directory, 300);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        cr_assert_eq(pwrite(fd, &CASES[i].value, CASES[i].size, CASES[i].at),
                     (ssize_t)CASES[i].size);
        close(fd);
        cr_expect_eq(check(path), CADRE_ECORRUPT, "%zu", i);
        cr_expect(strstr(cadre_error_text(), CASES[i].text), "%zu: %s", i, cadre_error_text());
    }
}

/* The places that the newest meta page names, by page number: root, depth, a child, an overflow
 * run. */
Test(btree_check, refuses_pages_outside_the_file_and_pages_reached_twice)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path =
        write_tree(directory, 300); /* one transaction: meta page 1 */
    enum { AT_MAIN = 4096 + 16 + 24 + 48 };
    struct stat about;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(fd >= 0 && fstat(fd, &about) == 0);
    uint64_t root = 0;
    cr_assert_eq(pread(fd, &root, 8, AT_MAIN + 40), 8);
    uint64_t pages = (uint64_t)about.st_size / 4096;
    const uint64_t roots[] = {0, 1, pages, UINT64_MAX - 1, UINT64_MAX / 4096 + root};
    for (size_t i = 0; i < CADRE_COUNT_OF(roots); i++) {
        cr_assert_eq(pwrite(fd, &roots[i], 8, AT_MAIN + 40), 8);
        cr_expect_eq(check(path), CADRE_ECORRUPT, "%zu", i);
    }
    cr_assert_eq(pwrite(fd, &root, 8, AT_MAIN + 40), 8);
    ok(check(path));
    static const uint16_t depths[] = {0, 1, 3, 33, 65535};
    uint16_t depth = 0;
    cr_assert_eq(pread(fd, &depth, 2, AT_MAIN + 6), 2);
    cr_assert_eq(depth, 2);
    for (size_t i = 0; i < CADRE_COUNT_OF(depths); i++) {
        cr_assert_eq(pwrite(fd, &depths[i], 2, AT_MAIN + 6), 2);
        cr_expect_eq(check(path), CADRE_ECORRUPT, "%zu", i);
    }
    cr_assert_eq(pwrite(fd, &depth, 2, AT_MAIN + 6), 2);
    uint16_t
        first[2]; /* where the first two nodes of the root lie, which begin with a child's number */
    uint32_t child = 0;
    cr_assert_eq(pread(fd, first, 4, (off_t)root * 4096 + 16), 4);
    cr_assert_eq(pread(fd, &child, 4, (off_t)root * 4096 + first[0]), 4);
    cr_assert_eq(pwrite(fd, &child, 4, (off_t)root * 4096 + first[1]), 4);
    cr_expect_eq(check(path), CADRE_ECORRUPT);
    cr_expect(strstr(cadre_error_text(), "is reached twice"), "%s", cadre_error_text());
    close(fd);
}

Test(btree_check, refuses_a_file_that_was_cut_short)
{
    cadre_auto(sample_directory_remove) char *directory = sample_directory();
    cadre_auto(cadre_free) char *path = write_tree(directory, 300);
    struct stat about;
    cr_assert_eq(stat(path, &about), 0);
    for (off_t size = about.st_size - 4096; size >= 0; size -= 3 * 4096 + 1000) {
        cr_assert_eq(truncate(path, size), 0);
        cr_expect_eq(check(path), CADRE_ECORRUPT, "%lld", (long long)size);
    }
}
