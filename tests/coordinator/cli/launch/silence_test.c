#include "coordinator/cli/launch/silence.h"

#include <criterion/criterion.h>

TestSuite(silence, .timeout = 240);

/* What ps write is not given up because workers have left. */
Test(silence, a_checkpoint_needs_workers_until_what_had_begun_has_ended)
{
    static const struct {
        const char *status;
        bool needs;
    } cases[] = {
        {"{\"checkpoints\": {\"committed\": 1}}", true},
        {"{\"checkpoints\": {\"under_way\": {\"ms\": 5, \"closures\": 2}}}", true},
        {"{\"checkpoints\": {\"under_way\": {\"ms\": 5, \"closures\": 0}}}", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *status = json_loads(cases[i].status, 0, NULL);
        cr_expect_eq(cadre_silence_needs_worker(status), cases[i].needs, "%s", cases[i].status);
        json_decref(status);
    }
    cr_expect(cadre_silence_needs_worker(NULL));
}
