#include "coordinator/checkpoint_manifest.h"

#include <criterion/criterion.h>
#include <jansson.h>

#include "common/status.h"

TestSuite(checkpoint_manifest, .timeout = 240);

Test(checkpoint_manifest, whose_progress_nobody_of_us_wrote_is_malformed)
{
    static const char *const bad[] = {"{}",
                                      "{\"user\": null}",
                                      "{\"user\": null, \"totals\": {}}",
                                      "{\"user\": null, \"totals\": 7}",
                                      "{\"user\": null, \"totals\": {\"scheduled\": \"1\"}}",
                                      "{\"user\": null, \"totals\": {\"scheduled\": -1}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_error_t error;
        cadre_manifest_t manifest = {.progress = json_loads(bad[i], 0, &error)};
        cadre_totals_t totals = {.scheduled = 77};
        char *progress = NULL;
        cr_assert_eq(cadre_checkpoint_totals(&manifest, &totals, &progress), CADRE_EMALFORMED);
        cr_assert_eq(totals.scheduled, 77, "untouched");
        cr_assert_null(progress);
        cadre_manifest_fini(&manifest);
    }
}
