#include "tests/worker/data/files.h"

TestSuite(npy_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define NPY(more) "{'format':'npy','path':'a','labels_path':'b'" more "}"

enum { BYTES_MAX = 512 };

/* Puts a file of version 1 with this header, and these elements behind it, into `bytes`; returns
 * its size. Elements begin at a multiple of 64, as numpy.save has it. */
static size_t
npy(uint8_t bytes[BYTES_MAX], const char *header, const void *elements, size_t size)
{
    static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    const size_t begin = 128;
    memset(bytes, ' ', begin);
    memcpy(bytes, magic, sizeof(magic));
    bytes[8] = (uint8_t)(begin - 10);
    bytes[9] = 0;
    memcpy(bytes + 10, header, strlen(header));
    bytes[begin - 1] = '\n';
    memcpy(bytes + begin, elements, size);
    return begin + size;
}

static void
write_npy(const char *name, const char *header, const void *elements, size_t size)
{
    uint8_t bytes[BYTES_MAX];
    files_write(name, bytes, npy(bytes, header, elements, size));
}

#define HEADER(type, shape) "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }"

static void
write_two_labels(void)
{
    write_npy("b", HEADER("<i8", "(2,)"), (int64_t[]){3, 1}, 16);
}

Test(npy_reader, reads_rows_and_labels)
{
    write_npy("a", HEADER("<f4", "(2, 3)"), (float[]){1, 2, 3, -4, 0.5F, 6}, 24);
    write_two_labels();
    cadre_source_t *dataset = files_open_well(NPY(), 2, 3);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 2, 3}), 3);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){-4, 0.5F, 6}), 1);
    cr_expect_eq(cadre_source_info(dataset)->classes, 4);
    cr_expect_eq(cadre_source_info(dataset)->row_rank, 1);
    cadre_source_close(&dataset);
    dataset = files_open_well(NPY(",'scale':2,'first_row':1,'label_kind':'value'"), 1, 3);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){-8, 1, 12}), 1);
    cadre_source_close(&dataset);
}

Test(npy_reader, reads_images_as_bytes_also_from_gzip)
{
    uint8_t bytes[BYTES_MAX];
    files_write("c.gz", bytes,
                npy(bytes, HEADER("|u1", "(2, 2, 2)"), (uint8_t[]){1, 2, 3, 4, 5, 6, 7, 255}, 8));
    files_write("d.gz", bytes, npy(bytes, HEADER("|b1", "(2, 1)"), (uint8_t[]){1, 0}, 2));
    cadre_source_t *dataset =
        files_open_well("{'format':'npy','path':'c.gz','labels_path':'d.gz'}", 2, 4);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 2, 3, 4}), 1);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){5, 6, 7, 255}), 0);
    cr_expect_eq(cadre_source_info(dataset)->row_rank, 2);
    cr_expect_eq(cadre_source_info(dataset)->size_bytes, 2 * (4 + 4), "bytes stay bytes");
    cadre_source_close(&dataset);
}

Test(npy_reader, reads_every_type_in_both_byte_orders)
{
    static const struct {
        const char *header;
        uint8_t bytes[16];
        size_t size;
        float expected[2];
    } cases[] = {
        {HEADER("|i1", "(1, 2)"), {0x80, 0x7f}, 2, {-128, 127}},
        {HEADER("<u2", "(1, 2)"), {1, 2, 0xff, 0xff}, 4, {513, 65535}},
        {HEADER(">i2", "(1, 2)"), {1, 2, 0xff, 0xfe}, 4, {258, -2}},
        {HEADER("<u4", "(1, 2)"), {0, 0, 0, 0x80, 1, 0, 0, 0}, 8, {2147483648.0F, 1}},
        {HEADER(">i4", "(1, 2)"), {0x80, 0, 0, 0, 0, 0, 0, 1}, 8, {-2147483648.0F, 1}},
        {HEADER("<i8", "(1, 2)"),
         {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 1},
         16,
         {-1, 65536}},
        {HEADER(">u8", "(1, 2)"), {0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 16, {256, 2}},
        {HEADER(">f4", "(1, 2)"), {0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, 8, {1.5F, -2}},
        {HEADER("<f8", "(1, 2)"),
         {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0},
         16,
         {1.5F, -2}},
    };
    write_npy("b", HEADER("<f4", "(1,)"), (float[]){4}, 4);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        write_npy("a", cases[i].header, cases[i].bytes, cases[i].size);
        cadre_source_t *dataset = files_open_well(NPY(), 1, 2);
        cr_expect_eq(files_check_row(dataset, 0, cases[i].expected), 4, "%s", cases[i].header);
        cadre_source_close(&dataset);
    }
}

Test(npy_reader, takes_headers_of_other_writers)
{
    static const char *const headers[] = {
        "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "{ 'fortran_order' : False , 'descr' : '<f4' , 'shape' : ( 2 , 3 , ) }",
    };
    write_two_labels();
    for (size_t i = 0; i < CADRE_COUNT_OF(headers); i++) {
        write_npy("a", headers[i], (float[]){1, 2, 3, 4, 5, 6}, 24);
        cadre_source_t *dataset = files_open_well(NPY(), 2, 3);
        cr_expect_eq(files_check_row(dataset, 1, (float[]){4, 5, 6}), 1);
        cadre_source_close(&dataset);
    }

    /* One number for each row; its order of axes is nothing. */
    write_npy("a", "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", (float[]){7, 8}, 8);
    cadre_source_t *dataset = files_open_well(NPY(), 2, 1);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){8}), 1);
    cadre_source_close(&dataset);

    /* Version 2 has the header's size in four bytes. */
    uint8_t bytes[BYTES_MAX];
    size_t size = npy(bytes, "??" HEADER("<f4", "(2,)"), (float[]){7, 8}, 8);
    bytes[6] = 2;
    memcpy(bytes + 8, (uint8_t[]){116, 0, 0, 0}, 4);
    files_write("a", bytes, size);
    dataset = files_open_well(NPY(), 2, 1);
    cadre_source_close(&dataset);
}

Test(npy_reader, names_the_byte_of_a_bad_header)
{
    static const struct {
        const char *header;
        const char *reason;
    } cases[] = {
        {HEADER("<f2", "(2,)"), "@/a:20: type '<f2' is not read: of bool, int, uint and float64 or "
                                "float32 are those of 8 to 64 bits"},
        {HEADER("f4", "(2,)"), "@/a:20: type 'f4' is not read: of bool, int, uint and float64 or "
                               "float32 are those of 8 to 64 bits"},
        {HEADER("", "(2,)"), "@/a:20: type '' is not read: of bool, int, uint and float64 or "
                             "float32 are those of 8 to 64 bits"},
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }",
         "@/a:20: a structured type: save each field as an array"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
         "@/a:44: the array is in Fortran order, column by column: save numpy.ascontiguousarray of "
         "it"},
        {HEADER("<f4", "()"), "@/a:60: 0 dimensions, allowed are 1 to 8"},
        {HEADER("<f4", "(1,1,1,1,1,1,1,1,1)"), "@/a:60: 9 dimensions, allowed are 1 to 8"},
        {HEADER("<f4", "(2, 0)"), "@/a:64: dimension 1 is 0"},
        {HEADER("<f4", "(2, 16777217)"), "@/a:64: more than 16777216 elements in a row"},
        {HEADER("<f4", "(2, 4096, 8192)"), "@/a:70: more than 16777216 elements in a row"},
        {HEADER("<f4", "(2 3)"), "@/a:63: this is no header as numpy.save writes it"},
        {HEADER("<f4", "(-2,)"), "@/a:61: this is no header as numpy.save writes it"},
        {HEADER("<f4", "[2]"), "@/a:60: this is no header as numpy.save writes it"},
        {HEADER("<f4", "(9223372036854775807,)"),
         "@/a:152: the file ends too early: the header promises 18446744073709551615 bytes"},
        {"{'descr': '<f4', 'shape': (2,), }", "@/a:128: this is no header as numpy.save writes it"},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (2,), }",
         "@/a:44: this is no header as numpy.save writes it"},
        {"{'descr': '<f4', 'order': False}", "@/a:34: this is no header as numpy.save writes it"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (2,), }",
         "@/a:26: this is no header as numpy.save writes it"},
        {"{'descr: <f4, fortran_order, a key that is longer than any",
         "@/a:11: this is no header as numpy.save writes it"},
        {HEADER("<f4", "(2,)") "}", "@/a:67: this is no header as numpy.save writes it"},
        {"", "@/a:128: this is no header as numpy.save writes it"},
    };
    write_two_labels();
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        write_npy("a", cases[i].header, (float[]){1, 2, 3, 4, 5, 6}, 24);
        files_check_refused(NPY(), CADRE_EDATA, cases[i].reason);
    }
}

Test(npy_reader, checks_the_preamble_and_the_size)
{
    uint8_t bytes[BYTES_MAX];
    size_t size = npy(bytes, HEADER("<f4", "(2, 3)"), (float[]){1, 2, 3, 4, 5, 6}, 24);
    write_two_labels();
    static const struct {
        size_t at;
        uint8_t byte;
        int size; /* bytes more or less */
        const char *reason;
    } cases[] = {
        {1, 'n', 0, "@/a:0: not a .npy file: it does not begin with \\x93NUMPY"},
        {6, 4, 0, "@/a:6: version 4 of the format, known are 1 to 3"},
        {9, 17, 0, "@/a:8: a header of 4470 bytes, over 4096"},
        {0, 0x93, -1, "@/a:151: the file ends too early: the header promises 152 bytes"},
        {0, 0x93, 1, "@/a:152: more bytes than the header promises"},
        {0, 0x93, -100, "@/a:52: the file ends too early"},
        {0, 0x93, -143, "@/a:9: the file ends too early"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        uint8_t changed[BYTES_MAX] = {0};
        memcpy(changed, bytes, size);
        changed[cases[i].at] = cases[i].byte;
        files_write("a", changed, (size_t)((int)size + cases[i].size));
        files_check_refused(NPY(), CADRE_EDATA, cases[i].reason);
    }
    files_write("a", bytes, size);
    write_npy("b", HEADER("<i8", "(3,)"), (int64_t[]){3, 1, 1}, 24);
    files_check_refused(NPY(), CADRE_EDATA, "@/b:61: 3 labels for 2 rows of @/a");
    write_npy("b", HEADER("<i8", "(2, 2)"), (int64_t[]){3, 1, 1, 1}, 32);
    files_check_refused(NPY(), CADRE_EDATA, "@/b:60: 2 dimensions, but labels have one");
    write_npy("b", HEADER("<f4", "(2,)"), (float[]){3, 0.5F}, 8);
    files_check_refused(NPY(), CADRE_EDATA, "@/b:132: label 0.5 is no class from 0 to 16777215");
}

Test(npy_reader, survives_random_changes)
{
    uint8_t bytes[BYTES_MAX];
    size_t size = npy(bytes, HEADER("<f4", "(2, 3)"), (float[]){1, 2, 3, 4, 5, 6}, 24);
    write_two_labels();
    int opened = files_mutate(NPY(), "a", bytes, size, 3000);
    cr_assert_gt(opened, 50, "%d", opened);
}
