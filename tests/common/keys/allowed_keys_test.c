#include "common/keys/allowed_keys.h"

#include "tests/common/key_files.h"

TestSuite(allowed_keys, .timeout = 240, .init = fake_tree_make, .fini = fake_tree_remove);

/* A new public certificate in the tree. */
static cadre_certificate_t
put(const char *name, cadre_key_role_t role)
{
    cadre_auto(cadre_free) char *path = key_file_path(name);
    return key_file_make(path, role, false);
}

static void
take_away(const char *name)
{
    cadre_auto(cadre_free) char *path = key_file_path(name);
    cr_assert_eq(unlink(path), 0);
}

static cadre_allowed_keys_t *
open_tree(void)
{
    cadre_allowed_keys_t *keys = NULL;
    cr_assert_eq(cadre_allowed_keys_open(fake_tree, &keys), 0, "%s", cadre_error_text());
    return keys;
}

static void
expect_not_opened(int status, const char *wanted)
{
    cadre_allowed_keys_t *keys = NULL;
    cr_expect_eq(cadre_allowed_keys_open(fake_tree, &keys), status, "%s", cadre_error_text());
    cr_expect_null(keys);
    expect_error(wanted);
}

Test(allowed_keys, say_whose_a_key_is)
{
    static const char *const names[] = {"coordinator.pub", "ps.pub", "worker.pub", "client.pub"};
    cadre_certificate_t made[CADRE_KEY_ROLES];
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        made[role] = put(names[role], role);
    }
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    cr_expect_eq(cadre_allowed_keys_count(keys), CADRE_KEY_ROLES);
    for (cadre_key_role_t role = 0; role < CADRE_KEY_ROLES; role++) {
        const cadre_certificate_t *found = cadre_allowed_keys_find(keys, made[role].public_key);
        cr_assert_not_null(found);
        cr_expect_eq(found->role, role);
        cr_expect_str_eq(found->name, cadre_key_role_text(role));
        cr_expect_str_empty(found->secret_key);
    }
    cadre_certificate_t other;
    cr_assert_eq(cadre_certificate_make(CADRE_KEY_WORKER, "other", &other), 0);
    cr_expect_null(cadre_allowed_keys_find(keys, other.public_key));
    cr_expect_null(cadre_allowed_keys_find(keys, ""));
    made[0].public_key[CADRE_KEY_TEXT_LENGTH - 1] = '\0';
    cr_expect_null(cadre_allowed_keys_find(keys, made[0].public_key));
}

Test(allowed_keys, stand_in_order)
{
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d.pub", i);
        put(name, CADRE_KEY_WORKER);
    }
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    cr_assert_eq(cadre_allowed_keys_count(keys), 20);
    for (size_t i = 1; i < 20; i++) {
        cr_expect_lt(strcmp(cadre_allowed_keys_item(keys, i - 1)->public_key,
                            cadre_allowed_keys_item(keys, i)->public_key),
                     0);
    }
}

Test(allowed_keys, are_those_that_kubernetes_mounts)
{
    cadre_auto(cadre_free) char *folder = key_file_path("..2026");
    cadre_auto(cadre_free) char *data = key_file_path("..data");
    cadre_auto(cadre_free) char *link = key_file_path("ps.pub");
    cr_assert_eq(mkdir(folder, 0755), 0);
    cadre_certificate_t made = put("..2026/ps.pub", CADRE_KEY_PS);
    cr_assert_eq(symlink("..2026", data), 0);
    cr_assert_eq(symlink("..data/ps.pub", link), 0);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    cr_expect_eq(cadre_allowed_keys_count(keys), 1);
    cr_expect_not_null(cadre_allowed_keys_find(keys, made.public_key));
    cr_expect_not(cadre_allowed_keys_changed(keys));

    /* The folder behind ..data is replaced as a whole. */
    cadre_auto(cadre_free) char *next = key_file_path("..2027");
    cadre_auto(cadre_free) char *next_data = key_file_path("..data_tmp");
    cr_assert_eq(mkdir(next, 0755), 0);
    cadre_certificate_t other = put("..2027/ps.pub", CADRE_KEY_PS);
    cr_assert_eq(symlink("..2027", next_data), 0);
    cr_assert_eq(rename(next_data, data), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_assert_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect_null(cadre_allowed_keys_find(keys, made.public_key));
    cr_expect_not_null(cadre_allowed_keys_find(keys, other.public_key));
}

Test(allowed_keys, of_nobody_are_an_error)
{
    expect_not_opened(CADRE_ENOTFOUND, ": no certificate in it");
    fake_tree_put(".hidden", "no certificate");
    expect_not_opened(CADRE_ENOTFOUND, ": no certificate in it");
    cadre_auto(cadre_free) char *path = key_file_path("away");
    cadre_allowed_keys_t *keys = NULL;
    cr_expect_eq(cadre_allowed_keys_open(path, &keys), CADRE_ENOTFOUND);
    expect_error("away: No such file or directory");
    cr_expect_null(keys);
}

Test(allowed_keys, with_one_bad_file_are_refused)
{
    put("good.pub", CADRE_KEY_WORKER);
    fake_tree_put("bad.pub", "metadata\n    role = boss\n");
    expect_not_opened(CADRE_EDATA, "/bad.pub: line 2: metadata.role is none of");
    take_away("bad.pub");
    cadre_auto(cadre_free) char *secret = key_file_path("ps.key");
    key_file_make(secret, CADRE_KEY_PS, true);
    expect_not_opened(CADRE_EDATA, "/ps.key: it holds a secret key");
    take_away("ps.key");
    cadre_auto(cadre_free) char *pipe = key_file_path("pipe");
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    expect_not_opened(CADRE_EREFUSED, "/pipe: not a regular file");
    take_away("pipe");
    cr_assert_eq(mkdir(pipe, 0700), 0);
    expect_not_opened(CADRE_EREFUSED, "/pipe: not a regular file");
    cr_assert_eq(rmdir(pipe), 0);
    cr_assert_eq(symlink("nowhere", pipe), 0);
    expect_not_opened(CADRE_ENOTFOUND, "/pipe: No such file or directory");
    take_away("pipe");
    cadre_auto(cadre_free) char *open_file = key_file_path("good.pub");
    cr_assert_eq(chmod(open_file, 0666), 0);
    expect_not_opened(CADRE_EREFUSED, "/good.pub: others may write to it");
}

/* "TREE/keys/allowed" with one key; freed by the caller. */
static char *
make_folders(void)
{
    cadre_auto(cadre_free) char *keys = key_file_path("keys");
    char *allowed = key_file_path("keys/allowed");
    cr_assert_eq(mkdir(keys, 0700), 0);
    cr_assert_eq(mkdir(allowed, 0700), 0);
    put("keys/allowed/a.pub", CADRE_KEY_WORKER);
    return allowed;
}

static void
expect_folder(const char *path, int status, const char *wanted)
{
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = NULL;
    cr_expect_eq(cadre_allowed_keys_open(path, &keys), status, "%s", cadre_error_text());
    if (status < 0) {
        expect_error(wanted);
    }
}

Test(allowed_keys, are_in_folders_that_nobody_else_may_write_to)
{
    static const mode_t refused[] = {0777, 0775, 0702};
    cadre_auto(cadre_free) char *keys = key_file_path("keys");
    cadre_auto(cadre_free) char *allowed = make_folders();
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        cr_assert_eq(chmod(allowed, refused[i]), 0);
        expect_folder(allowed, CADRE_EREFUSED, "/keys/allowed: others may write to the folder");
        cr_assert_eq(chmod(allowed, 0755), 0);
        cr_assert_eq(chmod(keys, refused[i]), 0);
        expect_folder(allowed, CADRE_EREFUSED, "/keys: others may write to the folder");
        cr_assert_eq(chmod(keys, 0755), 0);
        expect_folder(allowed, 0, "");
    }
}

/* As kubelet mounts them with fsGroup: sticky, of root and open to the group. */
Test(allowed_keys, may_be_in_sticky_folders_of_root)
{
    cadre_auto(cadre_free) char *keys = key_file_path("keys");
    cadre_auto(cadre_free) char *allowed = make_folders();
    cr_assert_eq(chmod(keys, 03777), 0);
    cr_assert_eq(chmod(allowed, 02755), 0);
    expect_folder(allowed, 0, "");
    cr_assert_eq(chmod(allowed, 03777), 0);
    bool is_root = geteuid() == 0;
    expect_folder(allowed, is_root ? 0 : CADRE_EREFUSED, "/allowed: others may write");
    if (is_root) {
        cadre_auto(cadre_free) char *key = key_file_path("keys/allowed/a.pub");
        cr_assert_eq(chown(key, KEY_FILES_USER, 0), 0);
        cr_assert_eq(chown(allowed, KEY_FILES_USER, 0), 0);
        cr_assert_eq(chmod(fake_tree, 0755), 0);
        expect_folder(allowed, CADRE_EREFUSED, "/allowed: the folder belongs to user 12345");
        key_files_leave_root();
        expect_folder(allowed, CADRE_EREFUSED, "/allowed: others may write");
    }
}

Test(allowed_keys, are_no_links_of_other_users)
{
    cadre_auto(cadre_free) char *allowed = make_folders();
    cadre_auto(cadre_free) char *link = key_file_path("keys/allowed/b.pub");
    cadre_auto(cadre_free) char *linked = key_file_path("linked");
    cadre_certificate_t retired = put("retired.pub", CADRE_KEY_CLIENT);
    cr_assert_eq(symlink("../../retired.pub", link), 0);
    cr_assert_eq(symlink("keys/allowed", linked), 0);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = NULL;
    cr_assert_eq(cadre_allowed_keys_open(linked, &keys), 0, "%s", cadre_error_text());
    cr_expect_not_null(cadre_allowed_keys_find(keys, retired.public_key));
    if (geteuid() != 0) {
        cr_skip_test("only root can make links of other users");
    }
    cr_assert_eq(lchown(linked, KEY_FILES_USER, 0), 0);
    expect_folder(linked, CADRE_EREFUSED, "/linked: a symbolic link of user 12345");
    cr_assert_eq(lchown(link, KEY_FILES_USER, 0), 0);
    expect_folder(allowed, CADRE_EREFUSED, "/b.pub: a symbolic link of user 12345");
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_EREFUSED);
    cr_expect_null(cadre_allowed_keys_find(keys, retired.public_key));
}

Test(allowed_keys, are_not_added_while_others_may_write_to_the_folder)
{
    cadre_auto(cadre_free) char *allowed = make_folders();
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = NULL;
    cr_assert_eq(cadre_allowed_keys_open(allowed, &keys), 0, "%s", cadre_error_text());
    cr_assert_eq(chmod(allowed, 0777), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
    put("keys/allowed/b.pub", CADRE_KEY_CLIENT);
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_EREFUSED);
    cr_expect_eq(cadre_allowed_keys_count(keys), 1);
}

Test(allowed_keys, stand_in_one_file_each)
{
    cadre_certificate_t certificate = put("a.pub", CADRE_KEY_WORKER);
    cadre_auto(cadre_free) char *path = key_file_path("b.pub");
    certificate.role = CADRE_KEY_COORDINATOR;
    cr_assert_eq(cadre_certificate_file_write(&certificate, path, false), 0);
    expect_not_opened(CADRE_EDATA, ".pub: the same key as in ");
}

Test(allowed_keys, have_a_limit)
{
    put("0.pub", CADRE_KEY_WORKER);
    cadre_auto(cadre_free) char *target = key_file_path("0.pub");
    for (int i = 1; i <= CADRE_ALLOWED_KEYS_MAX; i++) {
        /* The same key again: what is told of it comes after the count. */
        char name[16];
        snprintf(name, sizeof(name), "%d.pub", i);
        cadre_auto(cadre_free) char *path = key_file_path(name);
        cr_assert_eq(symlink(target, path), 0);
        if (i == CADRE_ALLOWED_KEYS_MAX - 1) {
            expect_not_opened(CADRE_EDATA, ": the same key as in ");
        }
    }
    expect_not_opened(CADRE_ETOOLARGE, ": more than 4096 keys");
}

Test(allowed_keys, change_with_the_folder)
{
    cadre_certificate_t first = put("a.pub", CADRE_KEY_WORKER);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    cr_expect_not(cadre_allowed_keys_changed(keys));
    fake_tree_put(".b.pub", "a copy that is under way");
    cr_expect_not(cadre_allowed_keys_changed(keys));

    cadre_certificate_t second = put("b.pub", CADRE_KEY_PS);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_null(cadre_allowed_keys_find(keys, second.public_key));
    cr_assert_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect_not(cadre_allowed_keys_changed(keys));
    cr_expect_not_null(cadre_allowed_keys_find(keys, second.public_key));

    take_away("a.pub");
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_assert_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect_null(cadre_allowed_keys_find(keys, first.public_key));

    cadre_auto(cadre_free) char *path = key_file_path("b.pub");
    cr_assert_eq(chmod(path, 0600), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
}

static bool
is_allowed(const cadre_allowed_keys_t *keys, const cadre_certificate_t *key)
{
    return cadre_allowed_keys_find(keys, key->public_key) != NULL;
}

Test(allowed_keys, are_not_added_while_the_folder_is_bad)
{
    cadre_certificate_t first = put("a.pub", CADRE_KEY_WORKER);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    fake_tree_put("b.pub", "metadata\n");
    cadre_certificate_t second = put("c.pub", CADRE_KEY_WORKER);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_EDATA);
    expect_error("/b.pub: metadata.role is missing");
    cr_expect(is_allowed(keys, &first));
    cr_expect_not(is_allowed(keys, &second));
    cr_expect(cadre_allowed_keys_changed(keys), "it is tried again");

    take_away("b.pub");
    cr_expect_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect(is_allowed(keys, &second));
    cr_expect_not(cadre_allowed_keys_changed(keys));
}

Test(allowed_keys, are_withdrawn_while_the_folder_is_bad)
{
    cadre_certificate_t kept = put("kept.pub", CADRE_KEY_PS);
    cadre_certificate_t gone = put("gone.pub", CADRE_KEY_WORKER);
    cadre_certificate_t spoiled = put("spoiled.pub", CADRE_KEY_WORKER);
    cadre_certificate_t replaced = put("replaced.pub", CADRE_KEY_WORKER);
    cadre_certificate_t demoted = put("demoted.pub", CADRE_KEY_PS);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    fake_tree_put("bad.pub~", "metadata\n");
    take_away("gone.pub");
    take_away("spoiled.pub");
    fake_tree_put("spoiled.pub", "metadata\n");
    take_away("replaced.pub");
    cadre_certificate_t other = put("replaced.pub", CADRE_KEY_WORKER);
    cadre_certificate_t worker = demoted;
    worker.role = CADRE_KEY_WORKER;
    take_away("demoted.pub");
    cadre_auto(cadre_free) char *path = key_file_path("demoted.pub");
    cr_assert_eq(cadre_certificate_file_write(&worker, path, false), 0);
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_EDATA);
    cr_expect(is_allowed(keys, &kept));
    cr_expect_not(is_allowed(keys, &gone));
    cr_expect_not(is_allowed(keys, &spoiled));
    cr_expect_not(is_allowed(keys, &replaced));
    cr_expect_not(is_allowed(keys, &other));
    cr_expect_not(is_allowed(keys, &demoted));
    cr_expect_eq(cadre_allowed_keys_count(keys), 1);
}

Test(allowed_keys, of_an_empty_folder_are_withdrawn)
{
    cadre_certificate_t first = put("a.pub", CADRE_KEY_WORKER);
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
    take_away("a.pub");
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_ENOTFOUND);
    cr_expect_not(is_allowed(keys, &first));
}

/* `tree/allowed`, which a test can take away. */
static cadre_allowed_keys_t *
open_folder(cadre_certificate_t *certificate)
{
    cadre_allowed_keys_t *keys = NULL;
    cadre_auto(cadre_free) char *folder = key_file_path("allowed");
    cr_assert_eq(mkdir(folder, 0700), 0);
    *certificate = put("allowed/a.pub", CADRE_KEY_WORKER);
    cr_assert_eq(cadre_allowed_keys_open(folder, &keys), 0, "%s", cadre_error_text());
    return keys;
}

Test(allowed_keys, outlive_the_moment_in_which_the_folder_is_replaced)
{
    cadre_certificate_t key;
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_folder(&key);
    cadre_auto(cadre_free) char *folder = key_file_path("allowed");
    cadre_auto(cadre_free) char *aside = key_file_path("aside");
    cr_assert_eq(rename(folder, aside), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_ENOTFOUND);
    cr_expect(is_allowed(keys, &key));
    cr_assert_eq(rename(aside, folder), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect(is_allowed(keys, &key));
}

Test(allowed_keys, of_a_folder_that_stays_away_are_withdrawn)
{
    cadre_certificate_t key;
    cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_folder(&key);
    cadre_auto(cadre_free) char *folder = key_file_path("allowed");
    cadre_auto(cadre_free) char *aside = key_file_path("aside");
    cr_assert_eq(rename(folder, aside), 0);
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_ENOTFOUND);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), CADRE_ENOTFOUND);
    cr_expect_not(is_allowed(keys, &key));
    cr_assert_eq(rename(aside, folder), 0);
    cr_expect(cadre_allowed_keys_changed(keys));
    cr_expect_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
    cr_expect(is_allowed(keys, &key));
}

/* With no descriptor left the folder cannot be opened, with one its files cannot. */
Test(allowed_keys, that_cannot_be_read_just_now_are_read_at_the_next_look)
{
    for (int left = 0; left < 2; left++) {
        put("a.pub", CADRE_KEY_WORKER);
        put("b.pub", CADRE_KEY_PS);
        cadre_auto(cadre_allowed_keys_close) cadre_allowed_keys_t *keys = open_tree();
        take_away("a.pub");
        key_files_descriptors_t held = key_files_leave_descriptors(left);
        int status = cadre_allowed_keys_reload(keys);
        key_files_release_descriptors(&held);
        cr_expect_eq(status, CADRE_EIO, "%s", cadre_error_text());
        cr_expect_eq(cadre_allowed_keys_count(keys), left == 0 ? 2 : 1,
                     "who is seen to be gone is");
        cr_expect(cadre_allowed_keys_changed(keys));
        cr_expect_eq(cadre_allowed_keys_reload(keys), 0, "%s", cadre_error_text());
        cr_expect_eq(cadre_allowed_keys_count(keys), 1);
        take_away("b.pub");
    }
}
