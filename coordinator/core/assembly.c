#include "coordinator/core/assembly.h"

/* Links the objects that hand closures to workers and take their reports. */
static void
init_dispatch(cadre_core_t *self)
{
    cadre_apart_init(&self->apart, &self->membership);
    cadre_acks_init(&self->acks, &self->membership, &self->effects);
    cadre_closure_sender_init(&self->sender,
                              &(cadre_closure_sender_links_t){.options = &self->options,
                                                              .members = &self->membership,
                                                              .recovery = &self->recovery,
                                                              .checkpoint = &self->checkpoint,
                                                              .effects = &self->effects});

    cadre_attempts_init(&self->attempts, &(cadre_attempts_links_t){.options = &self->options,
                                                                   .members = &self->membership,
                                                                   .catalogue = &self->catalogue,
                                                                   .queue = &self->queue,
                                                                   .begun = &self->begun,
                                                                   .replay = &self->replay,
                                                                   .checkpoint = &self->checkpoint,
                                                                   .apart = &self->apart,
                                                                   .sender = &self->sender,
                                                                   .totals = &self->totals,
                                                                   .of_clients = &self->of_clients,
                                                                   .effects = &self->effects});
    cadre_reach_init(&self->reach, &(cadre_reach_links_t){.options = &self->options,
                                                          .members = &self->membership,
                                                          .catalogue = &self->catalogue,
                                                          .recovery = &self->recovery,
                                                          .effects = &self->effects});
    cadre_steps_init(&self->steps,
                     &(cadre_steps_links_t){.options = &self->options,
                                            .catalogue = &self->catalogue,
                                            .queue = &self->queue,
                                            .replay = &self->replay,
                                            .requests = &self->requests,
                                            .repairs = &self->recovery.repairs.requests,
                                            .recovery = &self->recovery,
                                            .attempts = &self->attempts,
                                            .effects = &self->effects});
    cadre_reports_init(&self->reports, &(cadre_reports_links_t){.options = &self->options,
                                                                .catalogue = &self->catalogue,
                                                                .recovery = &self->recovery,
                                                                .apart = &self->apart,
                                                                .attempts = &self->attempts,
                                                                .backups = &self->backups,
                                                                .dispatcher = &self->dispatcher,
                                                                .reach = &self->reach,
                                                                .steps = &self->steps,
                                                                .sender = &self->sender,
                                                                .totals = &self->totals,
                                                                .effects = &self->effects});
}

/* Links the objects that choose workers for closures, and watch the closures that run. */
static void
init_choices(cadre_core_t *self)
{
    cadre_pause_init(&self->pause, &self->begun, &self->queue.pace, &self->recovery);
    cadre_dispatcher_init(&self->dispatcher,
                          &(cadre_dispatcher_links_t){.members = &self->membership,
                                                      .queue = &self->queue,
                                                      .replay = &self->replay,
                                                      .windows = &self->windows,
                                                      .acks = &self->acks,
                                                      .reach = &self->reach,
                                                      .pause = &self->pause,
                                                      .attempts = &self->attempts,
                                                      .effects = &self->effects});

    cadre_overruns_init(&self->overruns, &(cadre_overruns_links_t){.members = &self->membership,
                                                                   .leases = &self->leases,
                                                                   .catalogue = &self->catalogue,
                                                                   .queue = &self->queue,
                                                                   .dispatcher = &self->dispatcher,
                                                                   .sender = &self->sender,
                                                                   .attempts = &self->attempts,
                                                                   .apart = &self->apart,
                                                                   .totals = &self->totals,
                                                                   .effects = &self->effects});
    cadre_backups_init(&self->backups, &(cadre_backups_links_t){.options = &self->options,
                                                                .members = &self->membership,
                                                                .catalogue = &self->catalogue,
                                                                .queue = &self->queue,
                                                                .replay = &self->replay,
                                                                .dispatcher = &self->dispatcher,
                                                                .attempts = &self->attempts,
                                                                .effects = &self->effects});
    cadre_trials_init(&self->trials, &(cadre_trials_links_t){.members = &self->membership,
                                                             .catalogue = &self->catalogue,
                                                             .dispatcher = &self->dispatcher,
                                                             .attempts = &self->attempts,
                                                             .apart = &self->apart,
                                                             .effects = &self->effects});
}

/* Links the objects that know what workers have, and what they lack. */
static void
init_admission(cadre_core_t *self)
{
    cadre_resources_init(&self->resources, &(cadre_resources_links_t){.options = &self->options,
                                                                      .members = &self->membership,
                                                                      .catalogue = &self->catalogue,
                                                                      .queue = &self->queue,
                                                                      .replay = &self->replay,
                                                                      .recovery = &self->recovery,
                                                                      .effects = &self->effects});
    cadre_worker_admission_init(
        &self->admission, &(cadre_worker_admission_links_t){.members = &self->membership,
                                                            .catalogue = &self->catalogue,
                                                            .replay = &self->replay,
                                                            .queue = &self->queue,
                                                            .announcements = &self->announcements,
                                                            .resources = &self->resources,
                                                            .rights = &self->rights,
                                                            .effects = &self->effects});
}

void
cadre_core_assemble(cadre_core_t *self)
{
    const cadre_core_options_t *options = &self->options;
    cadre_membership_init(&self->membership, options->ps_count);
    cadre_members_init(&self->members, &(cadre_members_links_t){.options = &self->options,
                                                                .membership = &self->membership,
                                                                .effects = &self->effects});
    cadre_rights_init(&self->rights, &self->membership, &self->effects);
    cadre_leases_init(&self->leases, &(cadre_leases_links_t){.options = &self->options,
                                                             .membership = &self->membership,
                                                             .effects = &self->effects});
    cadre_catalogue_init(&self->catalogue, options->ps_count, options->round_robin, options->seed);
    cadre_placement_set_fill(&self->catalogue.placement, options->fill_bytes);
    cadre_begun_init(&self->begun);
    cadre_closure_queue_init(&self->queue, options->queue_capacity);
    cadre_closure_queue_set_pace(&self->queue, options->consistency, options->step_closures,
                                 options->staleness_bound);
    if (options->is_serial) {
        cadre_pace_set_serial(&self->queue.pace, options->queue_capacity);
    }
    cadre_replay_init(&self->replay, options->recovery != CADRE_RECOVERY_RELAXED,
                      cadre_core_options_have_steps(options));
    cadre_shard_requests_init(&self->requests, options->ps_count, 0); /* ids from 1 on */
    cadre_drops_init(&self->drops, &self->queue, &self->replay);
    cadre_removals_init(&self->removals, &self->queue, &self->replay);
    cadre_recovery_init(&self->recovery, &(cadre_recovery_links_t){.options = &self->options,
                                                                   .members = &self->membership,
                                                                   .catalogue = &self->catalogue,
                                                                   .drops = &self->drops,
                                                                   .begun = &self->begun,
                                                                   .replay = &self->replay,
                                                                   .requests = &self->requests,
                                                                   .effects = &self->effects});
    cadre_announcements_init(&self->announcements,
                             &(cadre_announcements_links_t){.options = &self->options,
                                                            .members = &self->membership,
                                                            .catalogue = &self->catalogue,
                                                            .recovery = &self->recovery,
                                                            .effects = &self->effects});
    cadre_windows_init(&self->windows, &(cadre_windows_links_t){.catalogue = &self->catalogue,
                                                                .queue = &self->queue,
                                                                .begun = &self->begun,
                                                                .replay = &self->replay,
                                                                .recovery = &self->recovery,
                                                                .requests = &self->requests,
                                                                .effects = &self->effects});
    cadre_checkpoint_init(&self->checkpoint,
                          &(cadre_checkpoint_links_t){.options = &self->options,
                                                      .members = &self->membership,
                                                      .catalogue = &self->catalogue,
                                                      .drops = &self->drops,
                                                      .begun = &self->begun,
                                                      .pace = &self->queue.pace,
                                                      .replay = &self->replay,
                                                      .totals = &self->totals,
                                                      .recovery = &self->recovery,
                                                      .windows = &self->windows,
                                                      .requests = &self->requests,
                                                      .effects = &self->effects});
    cadre_restoration_init(&self->restoration,
                           &(cadre_restoration_links_t){.options = &self->options,
                                                        .catalogue = &self->catalogue,
                                                        .drops = &self->drops,
                                                        .queue = &self->queue,
                                                        .begun = &self->begun,
                                                        .replay = &self->replay,
                                                        .requests = &self->requests,
                                                        .recovery = &self->recovery,
                                                        .windows = &self->windows,
                                                        .checkpoint = &self->checkpoint,
                                                        .effects = &self->effects});
    cadre_operations_init(&self->operations,
                          &(cadre_operations_links_t){.options = &self->options,
                                                      .begun = &self->begun,
                                                      .checkpoint = &self->checkpoint,
                                                      .replay = &self->replay,
                                                      .recovery = &self->recovery,
                                                      .requests = &self->requests,
                                                      .effects = &self->effects});
    cadre_clients_init(&self->clients, &(cadre_clients_links_t){.options = &self->options,
                                                                .catalogue = &self->catalogue,
                                                                .queue = &self->queue,
                                                                .requests = &self->requests,
                                                                .totals = &self->totals,
                                                                .of_clients = &self->of_clients,
                                                                .effects = &self->effects});
    init_dispatch(self);
    init_choices(self);
    init_admission(self);
}
