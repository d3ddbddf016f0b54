#include "common/checkpoint/btree_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/checkpoint/disk.h"

/* LMDB's format (mdb.c): byte offsets in a page, in a meta page, in the description of a tree, and
 * in a node. */
enum {
    AT_PAGE_NUMBER = 0,
    AT_FLAGS = 10,
    AT_LOWER =
        12, /* end of the offsets of nodes; of a run of overflow pages: how many, in 4 bytes */
    PAGE_HEADER_SIZE = 16,

    AT_MAGIC = PAGE_HEADER_SIZE,
    AT_VERSION = AT_MAGIC + 4,
    AT_FREE_TREE =
        AT_MAGIC + 24, /* its first field holds the page size, its second the file's flags */
    TREE_SIZE = 48,
    AT_MAIN_TREE = AT_FREE_TREE + TREE_SIZE,
    AT_LAST_PAGE = AT_MAIN_TREE + TREE_SIZE,
    AT_TRANSACTION = AT_LAST_PAGE + 8,
    META_END = AT_TRANSACTION + 8,

    AT_TREE_FLAGS = 4,
    AT_TREE_DEPTH = 6,
    AT_TREE_ROOT = 40,

    AT_NODE_FLAGS = 4,
    AT_KEY_SIZE = 6,
    NODE_HEADER_SIZE = 8,
};

enum {
    PAGE_SIZE_MIN = 4096,
    PAGE_SIZE_MAX = 32768,
    DEPTH_MAX = 32, /* CURSOR_STACK */
    FIRST_PAGE = 2, /* the first page after the two meta pages */
    VERSION = 1,

    PAGE_BRANCH = 0x01,
    PAGE_LEAF = 0x02,
    PAGE_OVERFLOW = 0x04,
    PAGE_META = 0x08,
    /* All kinds of pages, with those for duplicate keys, which our files do not have. */
    PAGE_KINDS = 0x6f,

    FILE_NOSUBDIR = 0x4000,
    FILE_INTEGER_KEYS = 0x08, /* flag of the tree of free pages */

    NODE_BIG = 0x01, /* the value is in overflow pages */
};

static const uint32_t MAGIC = 0xbeefc0de;
static const uint64_t NO_PAGE = UINT64_MAX;

typedef struct {
    int fd;
    const char *path;
    uint64_t size_bytes;
    uint64_t page_size;
    uint64_t page_count; /* pages that lie in the file and belong to the tree's transaction */
    unsigned depth;      /* depth at which every leaf must lie */
    uint8_t *seen;       /* one bit for each page: it was reached */
} check_t;

/* Reads a number of `size_bytes` bytes, little-endian. */
static uint64_t
number(const uint8_t *bytes, size_t size_bytes)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size_bytes); /* little-endian, as shard_file.c asserts */
    return value;
}

/* Fails with a text that names the page and says what is wrong with it. */
static int
refuse(const check_t *self, uint64_t page, const char *what)
{
    return cadre_fail(CADRE_ECORRUPT, "%s: page %llu: %s", self->path, (unsigned long long)page,
                      what);
}

/* Reads bytes at an offset of the file; `page` is for error texts. */
static int
read_bytes(const check_t *self, uint64_t page, uint64_t offset, uint8_t *bytes, size_t size_bytes)
{
    ssize_t count;
    do {
        count = pread(self->fd, bytes, size_bytes, (off_t)offset);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return cadre_disk_fail(errno, "cannot read %s", self->path);
    }
    return (size_t)count == size_bytes ? 0 : refuse(self, page, "lies outside the file");
}

/* --- meta pages --- */

/* Reads meta page 0 or 1 where LMDB looks for it: page 1 lies one page size, which page 0 says,
 * after page 0. */
static int
read_meta(const check_t *self, unsigned index, uint8_t *meta)
{
    int status = read_bytes(self, index, index * self->page_size, meta, META_END);
    if (status != 0) {
        return status;
    }
    if (!(number(meta + AT_FLAGS, 2) & PAGE_META) || number(meta + AT_MAGIC, 4) != MAGIC ||
        number(meta + AT_VERSION, 4) != VERSION) {
        return refuse(self, index, "is no meta page of an LMDB file");
    }
    return 0;
}

static bool
page_size_valid(uint64_t size)
{
    return size >= PAGE_SIZE_MIN && size <= PAGE_SIZE_MAX && (size & (size - 1)) == 0;
}

/* Reads both meta pages, checks them, and gives that of the newest transaction, as LMDB picks
 * it. */
static int
read_newest(check_t *self, uint8_t *newest)
{
    uint8_t other[META_END];
    int status = read_meta(self, 0, newest);
    if (status != 0) {
        return status;
    }

    self->page_size = number(newest + AT_FREE_TREE, 4);
    if (!page_size_valid(self->page_size)) {
        return refuse(self, 0, "has an odd page size");
    }

    status = read_meta(self, 1, other);
    if (status != 0) {
        return status;
    }
    if (number(other + AT_FREE_TREE, 4) != self->page_size) {
        return refuse(self, 1, "has another page size");
    }
    if (number(other + AT_TRANSACTION, 8) > number(newest + AT_TRANSACTION, 8)) {
        memcpy(newest, other, META_END);
    }

    return 0;
}

/* Checks the meta pages, and gives the number of the root page of the main tree (NO_PAGE: empty).
 * */
static int
check_meta(check_t *self, uint64_t *root)
{
    uint8_t meta[META_END];
    int status = read_newest(self, meta);
    if (status != 0) {
        return status;
    }

    uint64_t flags = number(meta + AT_FREE_TREE + AT_TREE_FLAGS, 2);
    if ((flags & ~(uint64_t)FILE_NOSUBDIR) != FILE_INTEGER_KEYS ||
        number(meta + AT_MAIN_TREE + AT_TREE_FLAGS, 2) != 0) {
        return refuse(self, 0, "has flags that our files do not have");
    }

    uint64_t last = number(meta + AT_LAST_PAGE, 8);
    uint64_t in_file = self->size_bytes / self->page_size;
    /* The file may end earlier: pages that a transaction took and gave back need not be in it. */
    self->page_count = last < in_file ? last + 1 : in_file;
    self->depth = (unsigned)number(meta + AT_MAIN_TREE + AT_TREE_DEPTH, 2);
    *root = number(meta + AT_MAIN_TREE + AT_TREE_ROOT, 8);
    if (*root != NO_PAGE && (self->depth == 0 || self->depth > DEPTH_MAX)) {
        return refuse(self, 0, "has an odd depth");
    }

    return 0;
}

/* --- the tree --- */

/* Marks a run of pages as reached; refuses pages outside the file, or reached before. */
static int
take(check_t *self, uint64_t first, uint64_t count)
{
    if (first < FIRST_PAGE || first >= self->page_count || count > self->page_count - first) {
        return refuse(self, first, "lies outside the file");
    }

    for (uint64_t page = first; page < first + count; page++) {
        uint8_t bit = (uint8_t)(1U << (page % 8));
        if (self->seen[page / 8] & bit) {
            return refuse(self, page, "is reached twice");
        }
        self->seen[page / 8] |= bit;
    }

    return 0;
}

/* Checks the run of overflow pages at `first` that holds a value of `size_bytes` bytes. */
static int
check_overflow(check_t *self, uint64_t first, uint64_t size_bytes)
{
    uint8_t header[PAGE_HEADER_SIZE];
    if (first < FIRST_PAGE || first >= self->page_count) {
        return refuse(self, first, "lies outside the file");
    }

    int status = read_bytes(self, first, first * self->page_size, header, sizeof(header));
    if (status != 0) {
        return status;
    }

    uint64_t count = number(header + AT_LOWER, 4);
    if (number(header + AT_PAGE_NUMBER, 8) != first ||
        (number(header + AT_FLAGS, 2) & PAGE_KINDS) != PAGE_OVERFLOW ||
        size_bytes > count * self->page_size - PAGE_HEADER_SIZE || count == 0) {
        return refuse(self, first, "does not hold the value that it should");
    }

    return take(self, first, count);
}

static int check_page(check_t *self, uint64_t page, unsigned level);

/* Checks the node at offset `at` of a page: in a branch page the number of a child, in a leaf a key
 * with its value. */
static int
check_node(check_t *self, uint64_t page, const uint8_t *bytes, size_t at, unsigned level)
{
    const uint8_t *node = bytes + at;
    uint64_t flags = number(node + AT_NODE_FLAGS, 2);
    uint64_t key_size = number(node + AT_KEY_SIZE, 2);
    uint64_t room = self->page_size - at - NODE_HEADER_SIZE;
    if (key_size > room) {
        return refuse(self, page, "has a key that leaves it");
    }
    if (level < self->depth) { /* a branch node's flags hold the upper bits of the child's number */
        return check_page(self, number(node, 4) | flags << 32, level + 1);
    }

    /* A value is in the node, or in overflow pages, of which the node has the number (8 bytes). */
    uint64_t value_size = number(node, 4);
    bool big = flags == NODE_BIG;
    if ((flags != 0 && !big) || (big ? 8 : value_size) > room - key_size) {
        return refuse(self, page, "has a value that leaves it, or is none of ours");
    }

    return big ? check_overflow(self, number(node + NODE_HEADER_SIZE + key_size, 8), value_size)
               : 0;
}

/* Checks all nodes of a page, and the pages below them. A branch page has at least two children, a
 * leaf at least one record. */
static int
check_nodes(check_t *self, uint64_t page, const uint8_t *bytes, unsigned level)
{
    size_t lower = number(bytes + AT_LOWER, 2);
    size_t count_min = level < self->depth ? 2 : 1;
    if (lower < PAGE_HEADER_SIZE + 2 * count_min || lower > self->page_size || lower % 2 != 0) {
        return refuse(self, page, "has an odd number of nodes");
    }

    for (size_t i = PAGE_HEADER_SIZE; i < lower; i += 2) {
        size_t at = number(bytes + i, 2);
        if (at < lower || at % 2 != 0 || at + NODE_HEADER_SIZE > self->page_size) {
            return refuse(self, page, "has a node that leaves it");
        }
        int status = check_node(self, page, bytes, at, level);
        if (status != 0) {
            return status;
        }
    }

    return 0;
}

/* Checks a page and the pages below it; level 1 is the root, and leaves must lie at self->depth. */
static int
check_page(check_t *self, uint64_t page, unsigned level)
{
    int status = take(self, page, 1);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_free) uint8_t *bytes = cadre_calloc(1, self->page_size);
    status = read_bytes(self, page, page * self->page_size, bytes, self->page_size);
    if (status != 0) {
        return status;
    }

    uint64_t kind = level < self->depth ? PAGE_BRANCH : PAGE_LEAF;
    if (number(bytes + AT_PAGE_NUMBER, 8) != page ||
        (number(bytes + AT_FLAGS, 2) & PAGE_KINDS) != kind) {
        return refuse(self, page, "is not the page that it should be");
    }

    return check_nodes(self, page, bytes, level);
}

/* Checks all pages that LMDB can reach from the main tree of the newest transaction. An empty tree
 * has no pages. */
int
cadre_btree_check(int fd, const char *path, uint64_t size_bytes)
{
    check_t self = {.fd = fd, .path = path, .size_bytes = size_bytes};
    uint64_t root = NO_PAGE;
    int status = check_meta(&self, &root);
    if (status != 0 || root == NO_PAGE) {
        return status;
    }
    cadre_auto(cadre_free) uint8_t *seen = cadre_calloc(self.page_count / 8 + 1, 1);
    self.seen = seen;
    return check_page(&self, root, 1);
}
