#include "common/keys/certificate.h"

#include "tests/common/key_files.h"

TestSuite(certificate, .timeout = 240);

static int
parse(const char *text, cadre_certificate_t *out)
{
    return cadre_certificate_parse(text, strlen(text), out);
}

/* A pair that is in RFC 26 and in libzmq's manual. */
#define PUBLIC_KEY "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define SECRET_KEY "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"

#define METADATA "metadata\n    name = \"a\"\n    role = \"worker\"\n"
#define PUBLIC   METADATA "curve\n    public-key = \"" PUBLIC_KEY "\"\n"

/* Refused with such an error, and nothing is given. */
static void
expect_refused(const char *text, const char *wanted)
{
    cadre_certificate_t certificate = {.name = "untouched"};
    cr_expect_eq(parse(text, &certificate), CADRE_EDATA, "%s", text);
    expect_error(wanted);
    cr_expect_str_eq(certificate.name, "untouched");
    cr_expect_null(strstr(cadre_error_text(), "ahhC2ac"), "%s", cadre_error_text());
}

Test(certificate, is_a_pair_of_its_own)
{
    cadre_certificate_t left;
    cadre_certificate_t right;
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_PS, "p", &left), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_PS, "p", &right), 0);
    cr_expect_eq(strlen(left.public_key), CADRE_KEY_TEXT_LENGTH);
    cr_expect_eq(strlen(left.secret_key), CADRE_KEY_TEXT_LENGTH);
    cr_expect_str_neq(left.public_key, right.public_key);
    cr_expect_str_neq(left.secret_key, right.secret_key);
    cadre_certificate_fini(&left);
    cr_expect_arr_eq(&left, &(cadre_certificate_t){0}, sizeof(left));
}

Test(certificate, has_a_name_that_fits_a_line)
{
    char name[CADRE_NAME_SIZE_MAX + 2];
    memset(name, 'n', sizeof(name));
    cadre_certificate_t certificate;
    name[CADRE_NAME_SIZE_MAX + 1] = '\0';
    cr_expect_eq(cadre_certificate_make(CADRE_KEY_PS, name, &certificate), CADRE_EINVALID);
    name[CADRE_NAME_SIZE_MAX] = '\0';
    cr_expect_eq(cadre_certificate_make(CADRE_KEY_PS, name, &certificate), 0);
    static const char *const bad[] = {"", "a\"b", "a'b", "a\nb", "\xc3\xa4"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_eq(cadre_certificate_make(CADRE_KEY_PS, bad[i], &certificate), CADRE_EINVALID);
    }
}

Test(certificate, with_the_longest_name_fits_its_file)
{
    char name[CADRE_NAME_SIZE_MAX + 1];
    memset(name, 'n', CADRE_NAME_SIZE_MAX);
    name[CADRE_NAME_SIZE_MAX] = '\0';
    cadre_certificate_t certificate;
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_COORDINATOR, name, &certificate), 0);
    char text[CADRE_CERTIFICATE_SIZE_MAX];
    cr_expect_eq(parse(cadre_certificate_text(&certificate, true, text), &certificate), 0, "%s",
                 cadre_error_text());
}

Test(certificate, may_have_what_others_write)
{
    cadre_certificate_t certificate;
    static const char *const good[] = {
        PUBLIC,
        "\r\n# comment\r\n" PUBLIC "\r\n",
        "metadata # who\n    name = a # comment\n    role = 'worker'\n    email = \"x@y\"\n"
        "curve\n    public-key = '" PUBLIC_KEY "'   # comment",
        "other = 3\n    role = \"ps\"\n        deeper = 4\n" PUBLIC "more\n    secret-key = 1\n",
        "metadata\n    name = \"a\"\ncurve\n    public-key=\"" PUBLIC_KEY "\"\n"
        "metadata\n    role =\"worker\"\n",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        certificate = (cadre_certificate_t){0};
        cr_expect_eq(parse(good[i], &certificate), 0, "%zu: %s", i, cadre_error_text());
        cr_expect_str_eq(certificate.public_key, PUBLIC_KEY);
        cr_expect_str_eq(certificate.name, "a");
        cr_expect_eq(certificate.role, CADRE_KEY_WORKER);
    }
}

Test(certificate, lacks_nothing)
{
    expect_refused("", "metadata.role is missing");
    expect_refused("metadata\n    role = ps\n", "metadata.name is missing");
    expect_refused(METADATA, "curve.public-key is missing");
    expect_refused("metadata\n    name = a\ncurve\n    public-key = \"" PUBLIC_KEY "\"\n",
                   "metadata.role is missing");
}

Test(certificate, has_each_field_once_and_in_its_place)
{
    expect_refused(PUBLIC "metadata\n    role = ps\n",
                   "line 7: metadata.role is there already, in line 3");
    expect_refused(PUBLIC "    public-key = \"" PUBLIC_KEY "\"\n", "line 6: curve.public-key is");
    expect_refused(PUBLIC "    secret_key = x\n", "line 6: curve has public-key and secret-key");
    expect_refused("curve = x\n", "line 1: a section has no value");
    expect_refused("metadata\n    name\n", "line 2: metadata.name has 1 to");
    expect_refused("metadata\n    role = boss\n",
                   "line 2: metadata.role is none of coordinator, ps, worker and client");
    expect_refused("metadata\n    role = Worker\n", "line 2: metadata.role");
}

Test(certificate, has_keys_of_z85_that_belong_together)
{
    cadre_certificate_t certificate = {0};
    cr_assert_eq(parse(PUBLIC "    secret-key = \"" SECRET_KEY "\"\n", &certificate), 0, "%s",
                 cadre_error_text());
    cr_expect_str_eq(certificate.secret_key, SECRET_KEY);
    expect_refused(PUBLIC "    secret-key = \"" PUBLIC_KEY "\"\n",
                   "line 6: this secret key belongs to another public key");
    expect_refused(PUBLIC "    secret-key = \"\"\n", "line 6: curve.secret-key is not a key");
    static const char *const bad[] = {
        "short",
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%c",   /* 39 characters */
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%css", /* 41 */
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%c~",  /* no Z85 */
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%#####",  /* beyond 32 bits */
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%c\xff",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_auto(cadre_free) char *text =
            cadre_asprintf(METADATA "curve\n    public-key = \"%s\"\n", bad[i]);
        expect_refused(text, "line 5: curve.public-key is not a key: 40 characters of Z85");
    }
}

Test(certificate, is_zpl)
{
    expect_refused("metadata\n  name = a\n", "line 2: lines are indented by 4 spaces a level");
    expect_refused("metadata\n\tname = a\n", "line 2: lines are indented by 4 spaces a level");
    expect_refused("metadata\n    name = \"a\n", "line 2: the quote is not closed");
    expect_refused("metadata\n    name = \"a\" b\n", "line 2: neither NAME nor NAME = \"VALUE\"");
    expect_refused("metadata\n    = a\n", "line 2: neither NAME nor NAME = \"VALUE\"");
    expect_refused("-----BEGIN OPENSSH PRIVATE KEY-----\n", "line 1: neither NAME nor NAME");
    expect_refused("metadata\n    name = \"a\x1b[31m\"\n", "line 2: a control character");
}

Test(certificate, with_a_nul_is_refused)
{
    static const char text[] = METADATA "\0" PUBLIC;
    cadre_certificate_t certificate;
    cr_expect_eq(cadre_certificate_parse(text, sizeof(text) - 1, &certificate), CADRE_EDATA);
    expect_error("line 4: a control character");
}
