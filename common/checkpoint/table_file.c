#include "common/checkpoint/table_file.h"

#include <string.h>

#include <xxhash.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/checkpoint/shard_file.h"
#include "common/tensor/dtype.h"

/* Byte offsets in a description and in the header of a page. */
enum {
    AT_MAGIC = 0,
    AT_FORMAT = 8,
    AT_FIELDS = 16,
    AT_RECORD_HASH = CADRE_TABLE_RECORD_SIZE - 8,
    AT_SIZE = 16,
    AT_PAGE_HASH = CADRE_PAGE_HEADER_SIZE - 8,

    WORD_BITS = 64,
};

static const uint64_t TABLE_MAGIC = 0x4254455244434143; /* "CACDRETB" */
static const uint64_t PAGE_MAGIC = 0x4750455244434143;  /* "CACDREPG" */
static const uint64_t FORMAT = 2;

static void
put(uint8_t *at, uint64_t number)
{
    memcpy(at, &number, sizeof(number)); /* shard_file.c asserts little-endian */
}

static uint64_t
get(const uint8_t *at)
{
    uint64_t number = 0;
    memcpy(&number, at, sizeof(number));
    return number;
}

/* Returns where the kind of a key begins; NULL when it has none. */
static const char *
kind_of(const void *key, size_t key_size)
{
    const char *end = memchr(key, 0, key_size);
    const size_t variable_size = end ? (size_t)(end + 1 - (const char *)key) : key_size;
    return variable_size < key_size ? end + 1 : NULL;
}

bool
cadre_table_key_is(const void *key, size_t key_size)
{
    const char *kind = kind_of(key, key_size);
    return kind && kind != (const char *)key + 1 && *kind == '.';
}

/* Returns the hash of a record but for its last field, chained through the seed. */
static uint64_t
hash_of(const void *key, size_t key_size, const void *header, size_t header_size, const void *bytes,
        size_t size_bytes)
{
    uint64_t hash = XXH3_64bits(key, key_size);
    hash = XXH3_64bits_withSeed(header, header_size, hash);
    return XXH3_64bits_withSeed(bytes, size_bytes, hash);
}

static int
fail_damaged(void)
{
    return cadre_fail(CADRE_ECORRUPT, "a record of a table is damaged");
}

/* --- descriptions --- */

uint64_t
cadre_table_record_pages(const cadre_table_record_t *self)
{
    return (self->end + self->page_rows - 1) / self->page_rows;
}

void
cadre_table_record_encode(const cadre_table_record_t *self, const void *key, size_t key_size,
                          uint8_t *value)
{
    uint8_t *at = value + AT_FIELDS;
    put(value + AT_MAGIC, TABLE_MAGIC);
    put(value + AT_FORMAT, FORMAT);
#define PUT_FIELD(name)                                                                            \
    put(at, self->name);                                                                           \
    at += 8;
    CADRE_TABLE_RECORD_LIST(PUT_FIELD)
#undef PUT_FIELD
    put(value + AT_RECORD_HASH, hash_of(key, key_size, value, AT_RECORD_HASH, NULL, 0));
}

/* Checks that pages of this description are possible, and that keys, bits and values lie in
 * them. */
static bool
is_possible(const cadre_table_record_t *self)
{
    const uint64_t value_size = self->dim * (self->storage == CADRE_BF16 ? 2 : 4);
    return self->dim >= 1 && self->dim <= CADRE_TABLE_DIM_MAX &&
           (self->storage == CADRE_F32 || self->storage == CADRE_BF16) &&
           self->slots <= CADRE_OPTIMIZER_SLOTS_MAX && self->slot_width <= CADRE_TABLE_DIM_MAX &&
           self->page_rows >= 1 && self->page_rows <= CADRE_CHECKPOINT_CHUNK_SIZE_MAX &&
           self->page_size <= CADRE_CHECKPOINT_CHUNK_SIZE_MAX - CADRE_PAGE_HEADER_SIZE &&
           self->page_rows * sizeof(uint64_t) <= self->used_offset &&
           self->used_offset <= self->page_size &&
           (self->page_rows + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t) <=
               self->page_size - self->used_offset &&
           self->value_offset <= self->page_size &&
           self->page_rows * value_size <= self->page_size - self->value_offset &&
           self->end <= (uint64_t)CADRE_TABLE_ROWS_MAX + 1 && self->free_row <= self->end &&
           self->rows <= self->end && self->checkpoint <= INT64_MAX &&
           (self->base == 0 || self->base < self->checkpoint) && self->shard < self->shards &&
           self->shards <= CADRE_SHARDS_MAX;
}

/* Returns whether a description has other fields: a number that is damaged leaves the size. */
static bool
is_of_another_form(const uint8_t *value, size_t value_size)
{
    return value_size != CADRE_TABLE_RECORD_SIZE && value_size > AT_FIELDS &&
           get(value + AT_MAGIC) == TABLE_MAGIC && get(value + AT_FORMAT) != FORMAT;
}

int
cadre_table_record_decode(const void *key, size_t key_size, const void *value, size_t value_size,
                          cadre_table_record_t *out)
{
    const uint8_t *bytes = value;
    if (is_of_another_form(bytes, value_size)) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "another version of Cadre has written it: its record has "
                          "form %llu, and form %llu is read",
                          (unsigned long long)get(bytes + AT_FORMAT), (unsigned long long)FORMAT);
    }
    if (value_size != CADRE_TABLE_RECORD_SIZE || get(bytes + AT_MAGIC) != TABLE_MAGIC ||
        get(bytes + AT_FORMAT) != FORMAT ||
        get(bytes + AT_RECORD_HASH) != hash_of(key, key_size, bytes, AT_RECORD_HASH, NULL, 0)) {
        return fail_damaged();
    }

    const uint8_t *at = bytes + AT_FIELDS;
    cadre_table_record_t found;
#define GET_FIELD(name)                                                                            \
    found.name = get(at);                                                                          \
    at += 8;
    CADRE_TABLE_RECORD_LIST(GET_FIELD)
#undef GET_FIELD
    if (!is_possible(&found)) {
        return fail_damaged();
    }
    *out = found;
    return 0;
}

/* --- pages --- */

void
cadre_table_page_encode(const void *key, size_t key_size, const void *bytes, size_t size_bytes,
                        uint8_t *header)
{
    put(header + AT_MAGIC, PAGE_MAGIC);
    put(header + AT_FORMAT, FORMAT);
    put(header + AT_SIZE, size_bytes);
    put(header + AT_PAGE_HASH, hash_of(key, key_size, header, AT_PAGE_HASH, bytes, size_bytes));
}

/* Returns the last eight bytes of a key, big-endian. */
static uint64_t
position_of(const uint8_t *key, size_t key_size)
{
    uint64_t position = 0;
    for (size_t i = key_size - 8; i < key_size; i++) {
        position = position << 8 | key[i];
    }
    return position;
}

int
cadre_table_page_decode(const void *key, size_t key_size, const void *value, size_t value_size,
                        cadre_table_page_t *out)
{
    const uint8_t *header = value;
    const uint8_t *bytes = header + CADRE_PAGE_HEADER_SIZE;
    if (key_size < 8 || value_size < CADRE_PAGE_HEADER_SIZE ||
        get(header + AT_MAGIC) != PAGE_MAGIC || get(header + AT_FORMAT) != FORMAT ||
        get(header + AT_SIZE) != value_size - CADRE_PAGE_HEADER_SIZE ||
        position_of(key, key_size) > UINT32_MAX ||
        get(header + AT_PAGE_HASH) != hash_of(key, key_size, header, AT_PAGE_HASH, bytes,
                                              value_size - CADRE_PAGE_HEADER_SIZE)) {
        return fail_damaged();
    }
    *out = (cadre_table_page_t){.position = (uint32_t)position_of(key, key_size),
                                .bytes = bytes,
                                .size_bytes = value_size - CADRE_PAGE_HEADER_SIZE};
    return 0;
}

bool
cadre_table_page_row(const cadre_table_record_t *self, const void *bytes, uint32_t place,
                     uint64_t *key, const void **values)
{
    const uint8_t *page = bytes;
    const size_t value_size = self->dim * (self->storage == CADRE_BF16 ? 2 : 4);
    *key = get(page + place * sizeof(*key));
    *values = page + self->value_offset + place * value_size;
    return get(page + self->used_offset + place / WORD_BITS * 8) >> place % WORD_BITS & 1;
}

void
cadre_table_row_numbers(const cadre_table_record_t *self, const void *values, float *numbers)
{
    if (self->storage == CADRE_F32) {
        memcpy(numbers, values, self->dim * sizeof(*numbers));
        return;
    }
    const cadre_dtype_traits_t *traits = cadre_dtype_traits((cadre_dtype_t)self->storage);
    for (uint64_t i = 0; i < self->dim; i++) {
        uint16_t number = 0;
        memcpy(&number, (const char *)values + i * sizeof(number), sizeof(number));
        traits->to_f32(&number, &numbers[i], 1);
    }
}
