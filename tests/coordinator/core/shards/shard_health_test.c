#include "coordinator/core/shards/shard_health.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"

TestSuite(shard_health, .timeout = 240);

enum { LEASE_MS = 10000 };

static cadre_ps_condition_t
beat(cadre_shard_health_t *self, uint64_t now_ms, uint64_t progress, uint64_t generation)
{
    const cadre_heartbeat_message_t heartbeat = {
        .progress = progress, .shard = 2, .generation = generation};
    const cadre_shard_belief_t belief = {.is_served = true, .shard = 2, .generation = 7};
    return cadre_shard_health_on_heartbeat(self, &heartbeat, &belief, now_ms, LEASE_MS);
}

Test(shard_health, finds_a_shard_that_stands_still_for_a_lease)
{
    cadre_shard_health_t health = {.connected_ms = 0};
    cadre_shard_health_begin_anew(&health, 1000);
    for (uint64_t now_ms = 2000; now_ms < 12000; now_ms += 1000) {
        cr_expect_eq(beat(&health, now_ms, 5, 7), CADRE_PS_GOES_ON);
    }
    cr_expect_eq(beat(&health, 12000, 5, 7), CADRE_PS_STANDS_STILL);
    cr_expect_eq(beat(&health, 12001, 6, 7), CADRE_PS_GOES_ON);
}

Test(shard_health, wants_to_be_told_four_times_whatever_time_has_passed)
{
    cadre_shard_health_t health = {.connected_ms = 0};
    beat(&health, 0, 5, 7);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(beat(&health, 60000, 5, 7), CADRE_PS_GOES_ON);
    }
    cr_expect_eq(beat(&health, 60000, 5, 7), CADRE_PS_STANDS_STILL);
}

Test(shard_health, finds_a_ps_that_serves_another_generation)
{
    cadre_shard_health_t health = {.connected_ms = 0};
    uint64_t progress = 1;
    for (uint64_t now_ms = 1000; now_ms < 11000; now_ms += 1000) {
        cr_expect_eq(beat(&health, now_ms, progress++, 6), CADRE_PS_GOES_ON);
    }
    cr_expect_eq(beat(&health, 11000, progress++, 6), CADRE_PS_SERVES_ANOTHER);
    cr_expect_eq(beat(&health, 11001, progress++, 7), CADRE_PS_GOES_ON);
    cr_expect_eq(beat(&health, 11002, progress++, 6), CADRE_PS_GOES_ON, "it counts from here on");
}

Test(shard_health, is_patient_with_what_is_under_way)
{
    cadre_shard_health_t health = {.connected_ms = 0};
    cadre_shard_health_on_connected(&health, 1000);
    cr_expect_eq(cadre_shard_health_mute_at_ms(&health, 500, 0), 1000 + CADRE_MUTE_MS);
    cr_expect_eq(cadre_shard_health_mute_at_ms(&health, 2000, 3 * CADRE_LINK_RATE_MIN),
                 2000 + CADRE_MUTE_MS + 3000);
}

Test(shard_health, doubles_its_patience_until_a_connection_is_heard)
{
    cadre_shard_health_t health = {.connected_ms = 0};
    for (uint64_t k = 1; k <= 2; k++) {
        cadre_shard_health_on_mute(&health);
        cadre_shard_health_on_connected(&health, 1000 * k);
        cr_expect_eq(cadre_shard_health_mute_at_ms(&health, 0, 0), 1000 * k + (CADRE_MUTE_MS << k));
    }
    for (int i = 0; i < 50; i++) {
        cadre_shard_health_on_mute(&health);
    }
    cr_expect_lt(cadre_shard_health_mute_at_ms(&health, 0, 0), 2000 + 2 * CADRE_MUTE_MAX_MS);
    cr_expect_eq(cadre_shard_health_mute_at_ms(&health, 3000, 0), 3000 + CADRE_MUTE_MS);
}
