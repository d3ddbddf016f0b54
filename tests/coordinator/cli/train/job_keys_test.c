#include "coordinator/cli/train/job_keys.h"

#include "tests/common/key_files.h"

TestSuite(job_keys, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

static cadre_job_keys_t
make(void)
{
    cadre_job_keys_t keys;
    cr_assert_eq(cadre_job_keys_make(&keys), 0, "%s", cadre_error_text());
    return keys;
}

static mode_t
mode_of(const char *path)
{
    struct stat about;
    cr_assert_eq(stat(path, &about), 0, "%s", path);
    return about.st_mode & 07777;
}

Test(job_keys, stand_in_files_of_their_own)
{
    umask(022);
    cadre_auto(cadre_free) char *directory = key_file_path("keys");
    cadre_auto(cadre_free) char *allowed = key_file_path("keys/allowed");
    cadre_job_keys_t keys = make();
    cr_assert_eq(cadre_job_keys_write(&keys, directory), 0, "%s", cadre_error_text());
    cr_expect_eq(mode_of(directory), 0700);
    cr_expect_eq(mode_of(allowed), 0755);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        cadre_auto(cadre_free) char *secret = cadre_job_keys_path(directory, role, true);
        cadre_auto(cadre_free) char *public = cadre_job_keys_path(directory, role, false);
        cadre_certificate_t pair;
        cr_assert_eq(cadre_certificate_file_read(secret, true, &pair), 0, "%s", cadre_error_text());
        cr_expect_eq(mode_of(secret), 0600);
        cr_expect_eq(pair.role, role);
        cr_expect_str_eq(pair.secret_key, keys.certificates[role].secret_key);
        cr_assert_eq(cadre_certificate_file_read(public, false, &pair), 0, "%s",
                     cadre_error_text());
        cr_expect_eq(mode_of(public), 0644);
        cr_expect_eq(pair.role, role);
        cr_expect_str_eq(pair.public_key, keys.certificates[role].public_key);
    }
    cadre_job_keys_fini(&keys);
    cr_expect_arr_eq(&keys, &(cadre_job_keys_t){0}, sizeof(keys));
}

Test(job_keys, are_never_written_over)
{
    cadre_auto(cadre_free) char *directory = key_file_path("keys");
    cadre_auto(cadre_free) char *path = key_file_path("keys/ps.key");
    cadre_job_keys_t keys = make();
    cr_assert_eq(mkdir(directory, 0700), 0);
    cr_assert_eq(cadre_job_keys_write(&keys, directory), 0, "an empty directory");
    cadre_job_keys_t others = make();
    cr_expect_eq(cadre_job_keys_write(&others, directory), CADRE_EEXISTS);
    expect_error("keys is not empty, and keys are never written over: name a directory that is not "
                 "there yet");
    cadre_certificate_t pair;
    cr_assert_eq(cadre_certificate_file_read(path, true, &pair), 0, "%s", cadre_error_text());
    cr_expect_str_eq(pair.secret_key, keys.certificates[CADRE_KEY_PS].secret_key);
    cr_expect_eq(cadre_job_keys_write(&others, path), CADRE_EEXISTS, "a file");
}

Test(job_keys, are_for_a_directory_of_ones_own)
{
    cadre_auto(cadre_free) char *directory = key_file_path("keys");
    cadre_job_keys_t keys = make();
    cr_assert_eq(mkdir(directory, 0700), 0);
    cr_assert_eq(chmod(directory, 0777), 0);
    cr_expect_eq(cadre_job_keys_write(&keys, directory), CADRE_EREFUSED);
    expect_error("others may write to it");
    cr_assert_eq(rmdir(directory), 0, "nothing was made");
    cadre_auto(cadre_free) char *below = key_file_path("none/keys");
    cr_expect_eq(cadre_job_keys_write(&keys, below), CADRE_ENOTFOUND);
}

/* The text of one entry of the Secret, as YAML reads it. */
static void
read_entry(const char *yaml, const char *key, char *text)
{
    cadre_auto(cadre_free) char *start = cadre_asprintf("\n  %s: |\n", key);
    const char *line = strstr(yaml, start);
    cr_assert_not_null(line, "%s", key);
    line += strlen(start);
    size_t size = 0;
    for (; strncmp(line, "    ", 4) == 0 || *line == '\n'; line += strcspn(line, "\n") + 1) {
        const char *content = *line == '\n' ? line : line + 4;
        size_t length = strcspn(content, "\n") + 1;
        memcpy(text + size, content, length);
        size += length;
    }
    text[size] = '\0';
}

/* The pairs and the public keys are two objects, so that a pod can mount all public keys as a
 * folder. */
Test(job_keys, are_a_secret_and_a_config_map_of_kubernetes)
{
    cadre_job_keys_t keys = make();
    char yaml[4 * CADRE_CERTIFICATE_SIZE_MAX] = {0};
    FILE *stream = fmemopen(yaml, sizeof(yaml), "w");
    cadre_job_keys_print_kubernetes(&keys, "cadre-keys", stream);
    fclose(stream);
    static const char head[] = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: \"cadre-keys\"\n"
                               "type: Opaque\nstringData:\n";
    static const char second[] = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n"
                                 "  name: \"cadre-keys-allowed\"\ndata:\n";
    cr_expect_eq(strncmp(yaml, head, strlen(head)), 0, "%s", yaml);
    const char *public = strstr(yaml, second);
    cr_assert_not_null(public, "%s", yaml);
    cr_expect_null(strstr(public, "secret-key"), "%s", public);
    for (int file = 0; file < 2 * CADRE_KEY_ROLES; file++) {
        cadre_key_role_t role = file / 2;
        bool secret = file % 2;
        cadre_auto(cadre_free) char *key =
            cadre_asprintf(secret ? "%s.key" : "%s.pub", cadre_key_role_text(role));
        char text[CADRE_CERTIFICATE_SIZE_MAX];
        read_entry(secret ? yaml : public, key, text);
        cadre_certificate_t pair;
        cr_assert_eq(cadre_certificate_parse(text, strlen(text), &pair), 0, "%s",
                     cadre_error_text());
        cr_expect_eq(pair.role, role);
        cr_expect_str_eq(pair.public_key, keys.certificates[role].public_key);
        cr_expect_str_eq(pair.secret_key, secret ? keys.certificates[role].secret_key : "");
    }
}

Test(job_keys, have_a_name_that_kubernetes_takes)
{
    static const char *const good[] = {"a", "0", "cadre-keys", "a.b", "a-1.b--c.d9"};
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        cr_expect(cadre_kubernetes_name_valid(good[i]), "%s", good[i]);
    }
    static const char *const bad[] = {"",  "-a",  "a-",  ".a",  "a.",  "a..b", "a-.b",    "a.-b",
                                      "A", "a_b", "a b", "a\"", "a\n", "a/b",  "\xc3\xa4"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_expect_not(cadre_kubernetes_name_valid(bad[i]), "%s", bad[i]);
    }
    char name[255];
    memset(name, 'a', sizeof(name));
    name[246] = '\0'; /* with "-allowed" one more than 253 */
    cr_expect_not(cadre_kubernetes_name_valid(name));
    name[245] = '\0';
    cr_expect(cadre_kubernetes_name_valid(name));
}
