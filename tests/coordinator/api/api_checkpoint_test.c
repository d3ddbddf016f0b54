/* The public calls on checkpoints, as far as they need no cluster. */
#include <criterion/criterion.h>

#include "coordinator/coordinator.h"

TestSuite(api_checkpoint, .timeout = 240);

Test(api_checkpoint, what_was_resumed_is_told_to_whoever_asks_for_any_part_of_it)
{
    static char path_of[] = "/ckpt/ckpt-00000007";
    static char progress_of[] = "{\"epoch\":3}";
    const cadre_coordinator_t coordinator = {
        .resumed_path = path_of, .resumed_cut = 41, .resumed_progress = progress_of};
    const char *path = NULL;
    const char *progress = NULL;
    uint64_t cut = 0;
    cr_expect(cadre_checkpoint_resumed(&coordinator, NULL, NULL, NULL));
    cr_expect(cadre_checkpoint_resumed(&coordinator, &path, NULL, NULL));
    cr_expect(cadre_checkpoint_resumed(&coordinator, NULL, &cut, NULL));
    cr_expect(cadre_checkpoint_resumed(&coordinator, NULL, NULL, &progress));
    cr_expect_str_eq(path, path_of);
    cr_expect_eq(cut, 41);
    cr_expect_str_eq(progress, progress_of);
}

Test(api_checkpoint, where_nothing_was_resumed_no_output_is_touched)
{
    const cadre_coordinator_t coordinator = {.resumed_path = NULL};
    const char *path = "as before";
    cr_expect_not(cadre_checkpoint_resumed(&coordinator, &path, NULL, NULL));
    cr_expect_str_eq(path, "as before");
}
