#include "worker/device/module.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(module, .timeout = 240);

/* Opens a module of tests/worker/device/modules. */
static int
open_module(const char *kind, const cadre_device_functions_t **functions)
{
    cadre_auto(cadre_free) char *folder =
        cadre_asprintf("%s/../tests/modules", getenv("CADRE_BIN_DIR"));
    char *const folders[] = {"/nonexistent", folder};
    return cadre_module_open(kind, folders, 2, functions);
}

static void
expect_refused(const char *kind, int status, const char *text)
{
    const cadre_device_functions_t *functions = NULL;
    cr_expect_eq(open_module(kind, &functions), status, "%s", kind);
    cr_expect_not_null(strstr(cadre_error_text(), text), "%s: %s", kind, cadre_error_text());
    cr_expect_null(functions);
}

Test(module, is_refused_when_it_is_none_of_ours)
{
    expect_refused("no_symbol", CADRE_EPROTOCOL,
                   "cadre_device_no_symbol.so does not export cadre_device_module");
    expect_refused("no_functions", CADRE_EPROTOCOL,
                   "cadre_device_no_functions.so describes no device");
}

Test(module, is_refused_when_it_is_of_another_build)
{
    expect_refused("other_abi", CADRE_EPROTOCOL, "has device ABI 3, this program 2");
    expect_refused("other_layout", CADRE_EPROTOCOL, "of another build");
}

Test(module, is_looked_for_in_all_folders_and_named_when_it_is_nowhere)
{
    expect_refused("nowhere", CADRE_ENOTFOUND, "no cadre_device_nowhere.so in /nonexistent or /");
    const cadre_device_functions_t *functions = NULL;
    cr_expect_eq(cadre_module_open("nowhere", NULL, 0, &functions), CADRE_ENOTFOUND);
    cr_expect_str_eq(cadre_error_text(), "no cadre_device_nowhere.so in no folder");
}

Test(module, that_cannot_be_loaded_is_told_by_its_file)
{
    char folder[] = "/tmp/cadre-module-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/cadre_device_text.so", folder);
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    cr_assert_eq(write(file, "no code", 7), 7);
    close(file);
    char *const folders[] = {folder};
    const cadre_device_functions_t *functions = NULL;
    cr_expect_eq(cadre_module_open("text", folders, 1, &functions), CADRE_EUNAVAILABLE);
    cr_expect_not_null(strstr(cadre_error_text(), path), "%s", cadre_error_text());
    unlink(path);
    rmdir(folder);
}

Test(module, says_why_its_device_does_not_open)
{
    const cadre_device_functions_t *functions = NULL;
    cr_assert_eq(open_module("no_device", &functions), 0, "%s", cadre_error_text());
    cadre_device_options_t options = {.name = "any", .threads = 1};
    cadre_device_t *device = NULL;
    cr_expect_eq(cadre_device_open_functions(functions, &options, &device), CADRE_EUNAVAILABLE);
    cr_expect_str_eq(cadre_error_text(), "no such hardware");
    cr_expect_null(device);
}

Test(module, folders_are_beside_the_program_and_where_an_installation_has_them)
{
    char *folders[CADRE_MODULE_FOLDERS] = {0};
    cr_assert_eq(cadre_module_folders(folders), 0);
    size_t length = strlen(folders[0]);
    cr_expect_str_eq(folders[0] + length - strlen("/tests"), "/tests");
    cr_expect_eq(strncmp(folders[1], folders[0], length), 0);
    cr_expect_eq(strncmp(folders[1] + length, "/../", 4), 0);
    cr_expect_str_eq(folders[1] + strlen(folders[1]) - strlen("/cadre"), "/cadre");
    free(folders[0]);
    free(folders[1]);
}

Test(module, names_a_library_that_is_missing)
{
    cr_expect_eq(cadre_module_probe("libno-such-driver.so.1", "driver"), CADRE_EUNAVAILABLE);
    cr_expect_not_null(strstr(cadre_error_text(), "no driver: libno-such-driver.so.1"));
    cr_expect_eq(cadre_module_probe("libm.so.6", "mathematics"), 0);
}
