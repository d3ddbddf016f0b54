#include "coordinator/cli/train/training_records.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(training_records, .timeout = 240);

/* The records of a run over clicks whose words have ids below 100; without a coordinator. */
static cadre_training_records_t
records_of(double stop_seconds)
{
    cadre_job_t job = {.train = json_pack("{s:i}", "buckets", 100), .stop_seconds = stop_seconds};
    cadre_training_records_t records;
    cadre_training_records_init(&records, NULL, &job);
    json_decref(job.train);
    return records;
}

Test(training_records, of_a_checkpoint_are_where_the_next_run_begins)
{
    cadre_training_records_t first = records_of(0);
    cadre_training_place_t place = {.epoch = 7};
    cr_assert_eq(cadre_training_records_resume(&first, NULL, NULL, &place), 0);
    cr_expect_eq(place.epoch, 0, "without a record it begins at the begin");
    place.epoch = 3;
    place.pass = 3;
    place.closures = 30;
    cadre_auto(cadre_free) char *text = cadre_training_records_encode(&first, &place);
    cadre_training_records_fini(&first);

    cadre_training_records_t second = records_of(0);
    cr_assert_eq(cadre_training_records_resume(&second, "ckpt-1", text, &place), 0, "%s",
                 cadre_error_text());
    cr_expect(place.epoch == 3 && place.closures == 30);
    cr_expect(place.words && strcmp(place.words, "{\"buckets\":100}") == 0);
    cadre_training_records_fini(&second);
}

Test(training_records, with_other_ids_of_words_are_refused)
{
    cadre_training_place_t place;
    cadre_training_records_t records = records_of(0);
    cr_expect_eq(cadre_training_records_resume(&records, "ckpt-1", "{\"epoch\": 1}", &place),
                 CADRE_EMALFORMED);
    cr_expect_eq(cadre_training_records_resume(&records, "ckpt-1",
                                               "{\"epoch\": 1, \"position\": 0, \"closures\": 9, "
                                               "\"evaluations\": 0, \"words\": {\"buckets\": 9}}",
                                               &place),
                 CADRE_ECONFIG);
    cadre_training_records_fini(&records);
}

Test(training_records, say_how_long_all_runs_took_where_the_job_has_a_time_limit)
{
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        cadre_training_records_t records = records_of(is_timed ? 60 : 0);
        cadre_training_place_t place;
        cadre_training_watch_t watch = {.elapsed_ms = 5000};
        const cadre_training_place_t before = {.watch = watch};
        cadre_auto(cadre_free) char *text = cadre_training_place_encode(&before);
        cr_assert_eq(cadre_training_records_resume(&records, "ckpt-1", text, &place), 0, "%s",
                     cadre_error_text());
        cr_expect_eq(cadre_training_records_elapsed_ms(&records), 5000, "it has not begun");
        cadre_training_records_start(&records);
        records.start_ms -= 2000;
        cr_expect_geq(cadre_training_records_elapsed_ms(&records), 7000);
        cadre_auto(cadre_free) char *now = cadre_training_records_encode(&records, &place);
        cr_assert_eq(cadre_training_place_decode(now, &place), 0, "%s", now);
        cr_expect(is_timed ? place.watch.elapsed_ms >= 7000 : place.watch.elapsed_ms == 5000, "%s",
                  now);
        cadre_training_records_fini(&records);
    }
}
