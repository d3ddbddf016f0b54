#include "common/checkpoint/shard_file.h"

#include <string.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "elements are stored as they lie in memory");
_Static_assert(CADRE_SHARD_KEY_SIZE_MAX < 256, "facts: LMDB keys stay under 256 bytes");

/* Byte offsets in a chunk's header and in the state. */
enum {
    AT_MAGIC = 0,
    AT_FORMAT = 8,
    AT_DTYPE = 12,
    AT_RANK = 16,
    AT_OTHERS = 20, /* changes that were no optimizer steps: version - steps, at most UINT32_MAX */
    AT_SHAPE = 24,
    AT_FIRST = AT_SHAPE + 8 * CADRE_RANK_MAX,
    AT_COUNT = AT_FIRST + 8,
    AT_VERSION = AT_COUNT + 8,
    AT_SIZE = AT_VERSION + 8,
    AT_HASH = AT_SIZE + 8,

    AT_STATE_FIELDS = 16,
    AT_STATE_HASH = CADRE_SHARD_STATE_SIZE - 8,
};
_Static_assert(AT_HASH + 8 == CADRE_SHARD_HEADER_SIZE, "the header is full");

#define STATE_COUNT_ONE(name) +1
_Static_assert(AT_STATE_FIELDS + 8 * (2 CADRE_SHARD_COUNTER_LIST(STATE_COUNT_ONE)) == AT_STATE_HASH,
               "the state is full");

static const uint64_t CHUNK_MAGIC = 0x4b48434552444143; /* "CADRECHK" */
static const uint64_t STATE_MAGIC = 0x5453434552444143; /* "CADRECST" */
static const uint64_t FORMAT = 1;

/* Writes a number of `size_bytes` bytes, little-endian. */
static void
put(uint8_t *at, uint64_t number, int size_bytes)
{
    for (int i = 0; i < size_bytes; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
}

/* Reads a number of `size_bytes` bytes, little-endian. */
static uint64_t
get(const uint8_t *at, int size_bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < size_bytes; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

/* Returns whether a name has 1 to `size_max` letters, digits and ._-, the first of them a letter or
 * digit. */
bool
cadre_checkpoint_name_valid(const char *name, size_t size_max)
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t size = strnlen(name, size_max + 1);
    if (size == 0 || size > size_max || !strchr(LETTERS, name[0])) {
        return false;
    }

    for (size_t i = 1; i < size; i++) {
        if (!strchr(LETTERS, name[i]) && !strchr("._-", name[i])) {
            return false;
        }
    }

    return true;
}

/* Checks the names of a chunk's variable and kind (value or slot), which are parts of its key. */
static int
check_names(const cadre_shard_chunk_t *chunk)
{
    if (!cadre_checkpoint_name_valid(chunk->variable, CADRE_NAME_SIZE_MAX)) {
        return cadre_fail(CADRE_EINVALID, "a chunk's variable has a bad name");
    }
    if (!cadre_checkpoint_name_valid(chunk->kind, CADRE_CHECKPOINT_KIND_SIZE_MAX)) {
        return cadre_fail(CADRE_EINVALID, "%s: a chunk's kind has a bad name", chunk->variable);
    }
    return 0;
}

/* Checks everything about a chunk but its bytes: names, shape, size, counters, and that its
 * elements lie in the variable. */
int
cadre_shard_chunk_check(const cadre_shard_chunk_t *chunk)
{
    int status = check_names(chunk);
    if (status != 0) {
        return status;
    }

    int64_t total = 0;
    status = cadre_shape_size(chunk->dtype, chunk->shape, chunk->rank, &total, NULL);
    if (status != 0) {
        return cadre_fail_within(CADRE_EINVALID, "%s %s", chunk->variable, chunk->kind);
    }

    if (chunk->size_bytes > CADRE_CHECKPOINT_CHUNK_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%s %s: a chunk of %zu bytes is larger than %d",
                          chunk->variable, chunk->kind, chunk->size_bytes,
                          CADRE_CHECKPOINT_CHUNK_SIZE_MAX);
    }

    if (chunk->steps > chunk->version) {
        return cadre_fail(CADRE_EINVALID, "%s %s: a chunk of more steps than changes",
                          chunk->variable, chunk->kind);
    }

    int64_t count = cadre_shard_chunk_count(chunk);
    if (chunk->size_bytes % cadre_dtype_size(chunk->dtype) != 0 || chunk->first_element < 0 ||
        chunk->first_element > total || count > total - chunk->first_element ||
        (count == 0) != (total == 0)) {
        return cadre_fail(
            CADRE_EINVALID,
            "%s %s: a chunk of %zu bytes from element %lld does not fit %lld elements",
            chunk->variable, chunk->kind, chunk->size_bytes, (long long)chunk->first_element,
            (long long)total);
    }

    return 0;
}

void
cadre_shard_chunk_count_changes(const cadre_shard_chunk_t *chunk, cadre_change_counts_t *counts)
{
    counts->version = cadre_max_u64(counts->version, chunk->version);
    counts->steps = cadre_max_u64(counts->steps, chunk->steps);
}

bool
cadre_change_counts_fit(const cadre_change_counts_t *of_values, uint64_t steps)
{
    const uint64_t others = of_values->version - of_values->steps;
    const bool is_exact = others > 0 && others < UINT32_MAX; /* as the header can say */
    return is_exact ? steps == of_values->steps : steps <= of_values->steps;
}

int64_t
cadre_shard_chunk_count(const cadre_shard_chunk_t *chunk)
{
    return (int64_t)(chunk->size_bytes / cadre_dtype_size(chunk->dtype));
}

/* Writes the key of a chunk: variable, 0, kind, 0, first element (big-endian, so that keys sort by
 * it). */
size_t
cadre_shard_key_encode(const char *variable, const char *kind, int64_t first_element, uint8_t *key)
{
    size_t variable_size = strlen(variable) + 1;
    size_t kind_size = strlen(kind) + 1;

    cadre_assert(variable_size + kind_size + 8 <= CADRE_SHARD_KEY_SIZE_MAX);
    memcpy(key, variable, variable_size);
    memcpy(key + variable_size, kind, kind_size);
    uint8_t *at = key + variable_size + kind_size;
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)((uint64_t)first_element >> (8 * (7 - i)));
    }

    return variable_size + kind_size + 8;
}

/* Writes the key of the shard's state. It begins with a zero byte, so it sorts before every
 * chunk's. */
size_t
cadre_shard_state_key_encode(uint8_t *key)
{
    static const char NAME[] = "\0state";
    memcpy(key, NAME, sizeof(NAME));
    return sizeof(NAME);
}

/* Returns the hash of key, header and bytes, chained through the seed, so that a change in any of
 * the three changes it. */
static uint64_t
record_hash(const void *key, size_t key_size, const uint8_t *header, const void *bytes,
            size_t size_bytes)
{
    uint64_t hash = XXH3_64bits(key, key_size);
    hash = XXH3_64bits_withSeed(header, AT_HASH, hash);
    return XXH3_64bits_withSeed(bytes, size_bytes, hash);
}

/* Writes the header of a chunk's record; its last field is the hash of key, header and bytes. */
void
cadre_shard_header_encode(const cadre_shard_chunk_t *chunk, const void *key, size_t key_size,
                          uint8_t *header)
{
    memset(header, 0, CADRE_SHARD_HEADER_SIZE);
    put(header + AT_MAGIC, CHUNK_MAGIC, 8);
    put(header + AT_FORMAT, FORMAT, 4);
    put(header + AT_DTYPE, (uint64_t)chunk->dtype, 4);
    put(header + AT_RANK, (uint64_t)chunk->rank, 4);
    put(header + AT_OTHERS, cadre_min_u64(chunk->version - chunk->steps, UINT32_MAX), 4);
    for (int axis = 0; axis < chunk->rank; axis++) {
        put(header + AT_SHAPE + 8 * axis, (uint64_t)chunk->shape[axis], 8);
    }

    put(header + AT_FIRST, (uint64_t)chunk->first_element, 8);
    put(header + AT_COUNT, (uint64_t)cadre_shard_chunk_count(chunk), 8);
    put(header + AT_VERSION, chunk->version, 8);
    put(header + AT_SIZE, chunk->size_bytes, 8);
    put(header + AT_HASH, record_hash(key, key_size, header, chunk->bytes, chunk->size_bytes), 8);
}

/* Decodes a chunk's key; the chunk's names point into it. CADRE_ECORRUPT for a malformed key. */
static int
decode_key(const uint8_t *key, size_t key_size, cadre_shard_chunk_t *chunk)
{
    size_t names_size = key_size - 8;
    const uint8_t *end = key_size > 8 ? memchr(key, 0, names_size) : NULL;
    size_t variable_size = end ? (size_t)(end - key) + 1 : 0;
    const uint8_t *kind = key + variable_size;
    const uint8_t *kind_end = end ? memchr(kind, 0, names_size - variable_size) : NULL;
    if (!kind_end || kind_end + 1 != key + names_size) {
        return cadre_fail(CADRE_ECORRUPT, "a key is malformed");
    }

    uint64_t first = 0;
    for (size_t i = names_size; i < key_size; i++) {
        first = first << 8 | key[i];
    }

    chunk->variable = (const char *)key;
    chunk->kind = (const char *)kind;
    chunk->first_element = (int64_t)first;
    return 0;
}

/* Returns the number as an int; -1, which is refused later, if it does not fit, so that a damaged
 * number is not truncated to a good one. */
static int
small(uint64_t number)
{
    return number <= INT32_MAX ? (int)number : -1;
}

/* Reads and checks the header of a chunk's record; the key was decoded into `chunk` before. */
static int
decode_header(const uint8_t *header, size_t value_size, cadre_shard_chunk_t *chunk)
{
    if (get(header + AT_MAGIC, 8) != CHUNK_MAGIC || get(header + AT_FORMAT, 4) != FORMAT ||
        get(header + AT_OTHERS, 4) > get(header + AT_VERSION, 8) ||
        get(header + AT_FIRST, 8) != (uint64_t)chunk->first_element ||
        get(header + AT_SIZE, 8) != value_size - CADRE_SHARD_HEADER_SIZE ||
        !cadre_dtype_valid(get(header + AT_DTYPE, 4))) {
        return cadre_fail(CADRE_ECORRUPT, "the header is damaged");
    }

    chunk->dtype = (cadre_dtype_t)get(header + AT_DTYPE, 4);
    chunk->rank = small(get(header + AT_RANK, 4));
    for (int axis = 0; axis < CADRE_RANK_MAX; axis++) {
        chunk->shape[axis] = (int64_t)get(header + AT_SHAPE + 8 * axis, 8);
    }

    chunk->version = get(header + AT_VERSION, 8);
    chunk->steps = chunk->version - get(header + AT_OTHERS, 4);
    chunk->bytes = header + CADRE_SHARD_HEADER_SIZE;
    chunk->size_bytes = value_size - CADRE_SHARD_HEADER_SIZE;
    if (cadre_shard_chunk_check(chunk) < 0) {
        return CADRE_ECORRUPT;
    }
    if (get(header + AT_COUNT, 8) != (uint64_t)cadre_shard_chunk_count(chunk)) {
        return cadre_fail(CADRE_ECORRUPT, "the header is damaged");
    }

    return 0;
}

/* Decodes the key and header of a chunk's record, and checks all but the hash. */
int
cadre_shard_record_peek(const void *key, size_t key_size, const void *value, size_t value_size,
                        cadre_shard_chunk_t *chunk)
{
    cadre_shard_chunk_t found = {0};
    int status = decode_key(key, key_size, &found);
    if (status != 0) {
        return status;
    }

    status = check_names(&found);
    if (status != 0) {
        return CADRE_ECORRUPT;
    }

    if (value_size < CADRE_SHARD_HEADER_SIZE) {
        status = cadre_fail(CADRE_ECORRUPT, "the record is cut short");
    } else {
        status = decode_header(value, value_size, &found);
    }

    if (status != 0) {
        return cadre_fail_within(status, "%s %s from element %lld", found.variable, found.kind,
                                 (long long)found.first_element);
    }

    *chunk = found;
    return 0;
}

/* Decodes the record of a chunk, and checks its hash. */
int
cadre_shard_record_decode(const void *key, size_t key_size, const void *value, size_t value_size,
                          cadre_shard_chunk_t *chunk)
{
    cadre_shard_chunk_t found;
    int status = cadre_shard_record_peek(key, key_size, value, value_size, &found);
    if (status != 0) {
        return status;
    }

    const uint8_t *header = value;
    if (record_hash(key, key_size, header, found.bytes, found.size_bytes) !=
        get(header + AT_HASH, 8)) {
        return cadre_fail(CADRE_ECORRUPT, "%s %s from element %lld: the hash does not match",
                          found.variable, found.kind, (long long)found.first_element);
    }

    *chunk = found;
    return 0;
}

/* Writes the record of a shard's state: magic number, format, fields, and the hash of all of these.
 * */
void
cadre_shard_state_encode(const cadre_shard_state_t *state, uint8_t *value)
{
    uint8_t *at = value + AT_STATE_FIELDS;
    put(value + AT_MAGIC, STATE_MAGIC, 8);
    put(value + AT_FORMAT, FORMAT, 8);
    put(at, state->window_base, 8);
    put(at += 8, state->generation, 8);
#define PUT_COUNTER(name) put(at += 8, state->name, 8);
    CADRE_SHARD_COUNTER_LIST(PUT_COUNTER)
#undef PUT_COUNTER
    put(value + AT_STATE_HASH, XXH3_64bits(value, AT_STATE_HASH), 8);
}

/* Reads and checks the record of a shard's state. */
int
cadre_shard_state_decode(const void *value, size_t value_size, cadre_shard_state_t *state)
{
    const uint8_t *bytes = value;
    if (value_size != CADRE_SHARD_STATE_SIZE || get(bytes + AT_MAGIC, 8) != STATE_MAGIC ||
        get(bytes + AT_FORMAT, 8) != FORMAT ||
        get(bytes + AT_STATE_HASH, 8) != XXH3_64bits(bytes, AT_STATE_HASH)) {
        return cadre_fail(CADRE_ECORRUPT, "the shard's state is damaged");
    }

    const uint8_t *at = bytes + AT_STATE_FIELDS;
    state->window_base = get(at, 8);
    state->generation = get(at += 8, 8);
#define GET_COUNTER(name) state->name = get(at += 8, 8);
    CADRE_SHARD_COUNTER_LIST(GET_COUNTER)
#undef GET_COUNTER
    return 0;
}
