#include "common/checkpoint/table_file.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/status.h"
#include "common/checkpoint/shard_file.h"
#include "common/tensor/dtype.h"

/* A description that can be, encoded. */
typedef struct {
    cadre_table_record_t record;
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t key_size;
    uint8_t value[CADRE_TABLE_RECORD_SIZE];
} encoded_t;

static encoded_t
encode(void)
{
    encoded_t self = {.record = {.dim = 4,
                                 .storage = CADRE_F32,
                                 .optimizer = 1,
                                 .page_rows = 64,
                                 .page_size = 64 * 8 + 8 + 64 * 16,
                                 .used_offset = 64 * 8,
                                 .value_offset = 64 * 8 + 8,
                                 .sighting_layers = 2,
                                 .sighting_keys = 77,
                                 .shards = 1}};
    self.key_size = cadre_shard_key_encode("table", CADRE_CHECKPOINT_KIND_TABLE, 0, self.key);
    cadre_table_record_encode(&self.record, self.key, self.key_size, self.value);
    return self;
}

Test(table_file, reads_a_description_and_finds_any_byte_that_is_another)
{
    encoded_t self = encode();
    cadre_table_record_t found;
    cr_assert_eq(
        cadre_table_record_decode(self.key, self.key_size, self.value, sizeof(self.value), &found),
        0);
    cr_expect_arr_eq(&found, &self.record, sizeof(found));
    for (size_t i = 0; i < sizeof(self.value); i++) {
        self.value[i] ^= 1;
        cr_expect_eq(cadre_table_record_decode(self.key, self.key_size, self.value,
                                               sizeof(self.value), &found),
                     CADRE_ECORRUPT, "byte %zu", i);
        self.value[i] ^= 1;
    }
}

/* Form 1 had fewer fields. */
Test(table_file, refuses_a_description_of_another_form_by_its_number)
{
    enum { FORMAT_OFFSET = 8, FORM_1_SIZE = 232 };
    encoded_t self = encode();
    cadre_table_record_t found;
    self.value[FORMAT_OFFSET] = 1;
    cr_expect_eq(
        cadre_table_record_decode(self.key, self.key_size, self.value, FORM_1_SIZE, &found),
        CADRE_EPROTOCOL);
    cr_expect(strstr(cadre_error_text(), "form 1, and form 2 is read"), "%s", cadre_error_text());
    cr_expect_eq(cadre_table_record_decode(self.key, self.key_size, self.value, 7, &found),
                 CADRE_ECORRUPT);
}
