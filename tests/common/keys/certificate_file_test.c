#include "common/keys/certificate_file.h"

#include <czmq.h>

#include "tests/common/key_files.h"

TestSuite(certificate_file, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

Test(certificate_file, is_read_as_it_was_written)
{
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        for (int secret = 0; secret < 2; secret++) {
            cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%u-%d", fake_tree, role, secret);
            cadre_certificate_t made = key_file_make(path, role, secret);
            cadre_certificate_t found = {0};
            cr_assert_eq(cadre_certificate_file_read(path, secret, &found), 0, "%s",
                         cadre_error_text());
            cr_expect_eq(found.role, role);
            cr_expect_str_eq(found.name, made.name);
            cr_expect_str_eq(found.public_key, made.public_key);
            cr_expect_str_eq(found.secret_key, secret ? made.secret_key : "");
        }
    }
}

Test(certificate_file, is_read_by_zcert)
{
    cadre_auto(cadre_free) char *path = key_file_path("worker.key");
    cadre_certificate_t made = key_file_make(path, CADRE_KEY_WORKER, true);
    zcert_t *zcert = zcert_load(path);
    cr_assert_not_null(zcert);
    cr_expect_str_eq(zcert_public_txt(zcert), made.public_key);
    cr_expect_str_eq(zcert_secret_txt(zcert), made.secret_key);
    cr_expect_str_eq(zcert_meta(zcert, "role"), "worker");
    zcert_destroy(&zcert);
}

Test(certificate_file, of_zcert_is_read)
{
    cadre_auto(cadre_free) char *path = key_file_path("zcert");
    cadre_auto(cadre_free) char *secret = key_file_path("zcert_secret");
    zcert_t *zcert = zcert_new();
    zcert_set_meta(zcert, "name", "%s", "Ada Lovelace");
    zcert_set_meta(zcert, "role", "%s", "client");
    zcert_set_meta(zcert, "email", "%s", "ada@example.org");
    cr_assert_eq(zcert_save(zcert, path), 0);
    cadre_certificate_t found = {0};
    cr_assert_eq(cadre_certificate_file_read(path, false, &found), 0, "%s", cadre_error_text());
    cr_expect_str_eq(found.name, "Ada Lovelace");
    cr_expect_eq(found.role, CADRE_KEY_CLIENT);
    cr_expect_str_eq(found.public_key, zcert_public_txt(zcert));
    cr_assert_eq(cadre_certificate_file_read(secret, true, &found), 0, "%s", cadre_error_text());
    cr_expect_str_eq(found.secret_key, zcert_secret_txt(zcert));
    zcert_destroy(&zcert);
}

Test(certificate_file, has_a_limit)
{
    cadre_auto(cadre_free) char *path = key_file_path("long.pub");
    for (size_t more = 0; more < 2; more++) {
        char text[CADRE_CERTIFICATE_SIZE_MAX + 2];
        memset(text, '#', sizeof(text));
        cadre_certificate_t made;
        cr_assert_eq(cadre_certificate_make(CADRE_KEY_PS, "ps", &made), 0);
        size_t size = strlen(cadre_certificate_text(&made, false, text));
        memset(text + size, '#', sizeof(text) - size);
        text[CADRE_CERTIFICATE_SIZE_MAX + more] = '\0';
        fake_tree_put("long.pub", text);
        cadre_certificate_t certificate;
        cr_expect_eq(cadre_certificate_file_read(path, false, &certificate),
                     more ? CADRE_EDATA : 0);
    }
    expect_error("long.pub: longer than a certificate: at most 4096 bytes");
}

Test(certificate_file, is_for_its_purpose)
{
    cadre_auto(cadre_free) char *secret = key_file_path("ps.key");
    cadre_auto(cadre_free) char *public = key_file_path("ps.pub");
    key_file_make(secret, CADRE_KEY_PS, true);
    key_file_make(public, CADRE_KEY_PS, false);
    cadre_certificate_t certificate;
    cr_expect_eq(cadre_certificate_file_read(secret, false, &certificate), CADRE_EDATA);
    expect_error("ps.key: it holds a secret key, which is for its owner alone");
    cr_expect_eq(cadre_certificate_file_read(public, true, &certificate), CADRE_EDATA);
    expect_error("ps.pub: it holds no secret key");
}

Test(certificate_file, is_written_for_those_who_may_read_it)
{
    umask(0);
    cadre_auto(cadre_free) char *secret = key_file_path("ps.key");
    cadre_auto(cadre_free) char *public = key_file_path("ps.pub");
    struct stat about;
    key_file_make(secret, CADRE_KEY_PS, true);
    cr_assert_eq(stat(secret, &about), 0);
    cr_expect_eq(about.st_mode & 07777, 0600);
    key_file_make(public, CADRE_KEY_PS, false);
    cr_assert_eq(stat(public, &about), 0);
    cr_expect_eq(about.st_mode & 07777, 0644);
    char bytes[CADRE_CERTIFICATE_SIZE_MAX + 1] = {0};
    FILE *file = fopen(public, "r");
    cr_assert_gt(fread(bytes, 1, sizeof(bytes) - 1, file), 0);
    fclose(file);
    cr_expect_null(strstr(bytes, "secret"), "%s", bytes);
}

Test(certificate_file, is_never_written_over)
{
    cadre_auto(cadre_free) char *path = key_file_path("ps.key");
    cadre_auto(cadre_free) char *link = key_file_path("link.key");
    cadre_auto(cadre_free) char *away = key_file_path("no/ps.key");
    cadre_certificate_t first = key_file_make(path, CADRE_KEY_PS, true);
    cadre_certificate_t other;
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_PS, "ps", &other), 0);
    cr_expect_eq(cadre_certificate_file_write(&other, path, true), CADRE_EEXISTS);
    cr_assert_eq(symlink("nowhere", link), 0);
    cr_expect_eq(cadre_certificate_file_write(&other, link, true), CADRE_EEXISTS);
    cr_expect_eq(cadre_certificate_file_write(&other, away, true), CADRE_ENOTFOUND);
    cr_assert_eq(cadre_certificate_file_read(path, true, &other), 0);
    cr_expect_str_eq(other.secret_key, first.secret_key);
}

Test(certificate_file, is_a_regular_file)
{
    cadre_auto(cadre_free) char *path = key_file_path("special");
    cadre_certificate_t certificate;
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_ENOTFOUND);
    expect_error("special: No such file");
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_EREFUSED);
    expect_error("special: not a regular file");
    cr_expect_eq(cadre_certificate_file_read(path, true, &certificate), CADRE_EREFUSED);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_EREFUSED);
    expect_error("special: not a regular file");
    cr_expect_eq(cadre_certificate_file_read("/dev/zero", false, &certificate), CADRE_EREFUSED);
}

Test(certificate_file, that_others_may_open_is_refused)
{
    key_files_as_user();
    cadre_auto(cadre_free) char *path = key_file_path("ps.key");
    key_file_make(path, CADRE_KEY_PS, true);
    static const mode_t bad[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644, 0666};
    cadre_certificate_t certificate;
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_assert_eq(chmod(path, bad[i]), 0);
        cr_expect_eq(cadre_certificate_file_read(path, true, &certificate), CADRE_EREFUSED, "%o",
                     bad[i]);
        expect_error("chmod 600 ");
    }
    static const mode_t good[] = {0600, 0400, 0700};
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        cr_assert_eq(chmod(path, good[i]), 0);
        cr_expect_eq(cadre_certificate_file_read(path, true, &certificate), 0, "%s",
                     cadre_error_text());
    }
    cr_assert_eq(chmod(path, 0), 0);
    cr_expect_eq(cadre_certificate_file_read(path, true, &certificate), CADRE_EREFUSED);
    expect_error("Permission denied");
}

Test(certificate_file, that_others_may_write_is_refused)
{
    key_files_as_user();
    cadre_auto(cadre_free) char *path = key_file_path("ps.pub");
    key_file_make(path, CADRE_KEY_PS, false);
    cadre_certificate_t certificate;
    cr_assert_eq(chmod(path, 0664), 0);
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_EREFUSED);
    expect_error("chmod go-w ");
    cr_assert_eq(chmod(path, 0646), 0);
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_EREFUSED);
    cr_assert_eq(chmod(path, 0444), 0);
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), 0, "%s",
                 cadre_error_text());
}

/* As Kubernetes mounts a Secret for a pod with a fsGroup. Only root can make such files. */
Test(certificate_file, of_root_may_be_a_link_that_the_group_reads)
{
    if (geteuid() != 0) {
        cr_skip_test("needs root");
    }
    cadre_auto(cadre_free) char *path = key_file_path("..2026/ps.key");
    cadre_auto(cadre_free) char *link = key_file_path("ps.key");
    fake_tree_put("..2026/other", "");
    cr_assert_eq(chmod(fake_tree, 0755), 0);
    cadre_auto(cadre_free) char *folder = key_file_path("..2026");
    cr_assert_eq(chmod(folder, 0755), 0);
    key_file_make(path, CADRE_KEY_PS, true);
    cr_assert_eq(symlink("..2026/ps.key", link), 0);
    cr_assert_eq(chown(path, 0, KEY_FILES_USER), 0);
    cr_assert_eq(chmod(path, 0440), 0);
    key_files_leave_root();
    cadre_certificate_t certificate;
    cr_expect_eq(cadre_certificate_file_read(link, true, &certificate), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(chmod(path, 0444), 0);
    cr_expect_eq(cadre_certificate_file_read(link, true, &certificate), CADRE_EREFUSED);
    expect_error("defaultMode: 0400");
    cr_assert_eq(chmod(path, 0460), 0);
    cr_expect_eq(cadre_certificate_file_read(link, true, &certificate), CADRE_EREFUSED);
}

Test(certificate_file, of_another_user_is_refused)
{
    if (geteuid() != 0) {
        cr_skip_test("needs root");
    }
    cadre_auto(cadre_free) char *path = key_file_path("ps.pub");
    key_file_make(path, CADRE_KEY_PS, false);
    cr_assert_eq(chown(path, KEY_FILES_USER, 0), 0);
    cadre_certificate_t certificate;
    cr_expect_eq(cadre_certificate_file_read(path, false, &certificate), CADRE_EREFUSED);
    expect_error("it belongs to user 12345, neither to this user nor to root: chown 0 ");
}
