#include "coordinator/cli/terminal/command_text.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"

TestSuite(command_text, .timeout = 240);

static void
expect(char *const *command, const char *text)
{
    cadre_auto(cadre_free) char *found =
        cadre_command_text(command, &(cadre_command_flag_t){"--resume", "auto"}, 1);
    cr_expect_str_eq(found, text);
}

Test(command_text, adds_a_flag_or_replaces_it)
{
    expect((char *[]){"cadre", "run", "j.json", NULL}, "cadre run j.json --resume auto");
    expect((char *[]){"cadre", "run", "--resume", "never", "j.json", NULL},
           "cadre run j.json --resume auto");
    expect((char *[]){"cadre", "run", "--resume=never", "j.json", "--ps", "2", NULL},
           "cadre run j.json --ps 2 --resume auto");
    expect((char *[]){"cadre", "run", "--resumed", NULL}, "cadre run --resumed --resume auto");
}

Test(command_text, replaces_several_flags)
{
    const cadre_command_flag_t flags[] = {{"--resume", "auto"}, {"--epochs", "9"}};
    char *command[] = {"cadre", "run", "--epochs", "3", "j.json", "--resume", NULL};
    cadre_auto(cadre_free) char *found = cadre_command_text(command, flags, 2);
    cr_expect_str_eq(found, "cadre run j.json --resume auto --epochs 9");
}

Test(command_text, quotes_what_a_shell_would_read_otherwise)
{
    expect((char *[]){"cadre", "run", "my job.json", "it's", "", "$X", NULL},
           "cadre run 'my job.json' 'it'\\''s' '' '$X' --resume auto");
}
