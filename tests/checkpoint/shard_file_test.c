#include "common/checkpoint/shard_file.h"

#include "tests/checkpoint/sample.h"

TestSuite(shard_file, .timeout = 240);

static const float VALUES[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static cadre_shard_chunk_t
chunk_of_ten(void)
{
    return (cadre_shard_chunk_t){.variable = "w",
                                 .kind = "value",
                                 .dtype = CADRE_F32,
                                 .rank = 2,
                                 .shape = {5, 4},
                                 .first_element = 10,
                                 .version = 9,
                                 .steps = 7,
                                 .bytes = VALUES,
                                 .size_bytes = sizeof(VALUES)};
}

Test(shard_file, accepts_names_at_the_limit_and_refuses_odd_ones)
{
    char name[130];
    memset(name, 'x', sizeof(name));
    name[128] = '\0';
    cr_assert(cadre_checkpoint_name_valid(name, 128));
    name[128] = 'x', name[129] = '\0';
    cr_assert_not(cadre_checkpoint_name_valid(name, 128));
    cr_assert(cadre_checkpoint_name_valid("0", 128));
    cr_assert(cadre_checkpoint_name_valid("Fc1.weight_2-b", 128));
    const char *odd[] = {"", ".", "..", "-a", "_a", "a/b", "../a", "a b", "a\n", "\xc3\xa4", "a%s"};
    for (size_t i = 0; i < CADRE_COUNT_OF(odd); i++) {
        cr_assert_not(cadre_checkpoint_name_valid(odd[i], 128), "%s", odd[i]);
    }
}

Test(shard_file, checks_ranges_at_and_beyond_their_limits)
{
    cadre_shard_chunk_t chunk = chunk_of_ten();
    ok(cadre_shard_chunk_check(&chunk)); /* ends exactly at element 20 */
    chunk.first_element = 11;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk.first_element = -1;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk = chunk_of_ten();
    chunk.size_bytes = 39;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk.size_bytes = 0;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk = chunk_of_ten();
    chunk.steps = 9;
    ok(cadre_shard_chunk_check(&chunk));
    chunk.steps = 10;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk = chunk_of_ten();
    chunk.rank = 9;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk = chunk_of_ten();
    chunk.dtype = (cadre_dtype_t)77;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_EINVALID);
    chunk = chunk_of_ten();
    chunk.shape[0] = 1 << 20;
    chunk.size_bytes = CADRE_CHECKPOINT_CHUNK_SIZE_MAX;
    ok(cadre_shard_chunk_check(&chunk));
    chunk.size_bytes += 4;
    cr_assert_eq(cadre_shard_chunk_check(&chunk), CADRE_ETOOLARGE);
}

/* A record in one buffer: key, header, bytes. */
typedef struct {
    uint8_t bytes[CADRE_SHARD_KEY_SIZE_MAX + CADRE_SHARD_HEADER_SIZE + sizeof(VALUES)];
    size_t key_size;
    size_t value_size;
} record_t;

static record_t
record_of_ten(void)
{
    record_t record;
    cadre_shard_chunk_t chunk = chunk_of_ten();
    record.key_size =
        cadre_shard_key_encode(chunk.variable, chunk.kind, chunk.first_element, record.bytes);
    uint8_t *header = record.bytes + record.key_size;
    cadre_shard_header_encode(&chunk, record.bytes, record.key_size, header);
    memcpy(header + CADRE_SHARD_HEADER_SIZE, VALUES, sizeof(VALUES));
    record.value_size = CADRE_SHARD_HEADER_SIZE + sizeof(VALUES);
    return record;
}

static int
decode(const record_t *record, cadre_shard_chunk_t *chunk)
{
    return cadre_shard_record_decode(record->bytes, record->key_size,
                                     record->bytes + record->key_size, record->value_size, chunk);
}

Test(shard_file, decodes_what_it_encoded)
{
    record_t record = record_of_ten();
    cadre_shard_chunk_t chunk = {0};
    ok(decode(&record, &chunk));
    cr_assert_str_eq(chunk.variable, "w");
    cr_assert_str_eq(chunk.kind, "value");
    cr_assert_eq(chunk.first_element, 10);
    cr_assert_eq(chunk.version, 9);
    cr_assert_eq(chunk.steps, 7);
    cr_assert_eq(chunk.dtype, CADRE_F32);
    cr_assert(chunk.rank == 2 && chunk.shape[0] == 5 && chunk.shape[1] == 4);
    cr_assert_eq(cadre_shard_chunk_count(&chunk), 10);
    cr_assert_eq(memcmp(chunk.bytes, VALUES, sizeof(VALUES)), 0);
}

Test(shard_file, notices_every_flipped_bit_of_a_record_and_its_key)
{
    record_t good = record_of_ten();
    for (size_t bit = 0; bit < 8 * (good.key_size + good.value_size); bit++) {
        record_t record = good;
        record.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cadre_shard_chunk_t chunk;
        cr_assert_eq(decode(&record, &chunk), CADRE_ECORRUPT, "bit %zu", bit);
    }
}

Test(shard_file, notices_a_record_and_a_key_cut_short)
{
    record_t record = record_of_ten();
    cadre_shard_chunk_t chunk;
    for (size_t size = 0; size < record.value_size; size++) {
        cr_assert_eq(cadre_shard_record_decode(record.bytes, record.key_size,
                                               record.bytes + record.key_size, size, &chunk),
                     CADRE_ECORRUPT);
    }
    for (size_t size = 0; size < record.key_size; size++) {
        cr_assert_eq(cadre_shard_record_decode(record.bytes, size, record.bytes + record.key_size,
                                               record.value_size, &chunk),
                     CADRE_ECORRUPT);
    }
}

Test(shard_file, keeps_the_state_and_notices_every_flipped_bit_of_it)
{
    cadre_shard_state_t state = {
        .window_base = UINT64_MAX, .generation = 2, .applied = 3, .duplicate = 4, .refused = 5};
    cadre_shard_state_t again;
    uint8_t bytes[CADRE_SHARD_STATE_SIZE];
    cadre_shard_state_encode(&state, bytes);
    ok(cadre_shard_state_decode(bytes, sizeof(bytes), &again));
    cr_assert_eq(memcmp(&state, &again, sizeof(state)), 0);
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert_eq(cadre_shard_state_decode(bytes, sizeof(bytes), &again), CADRE_ECORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_assert_eq(cadre_shard_state_decode(bytes, sizeof(bytes) - 1, &again), CADRE_ECORRUPT);
}
