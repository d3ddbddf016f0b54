/*
 * group - groups of closures: each has an error, a join and a cancel of its own.
 *
 * Names, errors, waiting and threads are as <cadre/coordinator.h> says.
 */
#ifndef CADRE_GROUP_H
#define CADRE_GROUP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For example, trials of which one may fail without ending the others:
 *
 *     cadre_group_options_t options = cadre_group_options();
 *     options.after_error = CADRE_GROUP_GOES_ON;
 *     s = cadre_group_create(job, &options, &trials);
 *     call.group = trials;
 *     for (int i = 0; i < 50 && !s; i++) {
 *         s = cadre_coordinator_schedule(job, trial, &call, -1, &futures[i]);
 *     }
 *     s = s ? s : cadre_group_join(trials, -1);
 *     cadre_group_destroy(&trials);
 */

/* What a group does when one of its closures fails. */
typedef enum {
    /* The group cancels its other closures. The error is raised, once, by the next cadre_group_join
     * or call of cadre_coordinator_schedule with the group, when none of its closures runs any
     * more. Afterwards the group is usable again. */
    CADRE_GROUP_STOPS = 0,
    /* Nothing is cancelled, and closures can be scheduled as before. cadre_group_join raises the
     * first failure, once, with the number of the others. */
    CADRE_GROUP_GOES_ON = 1,
} cadre_after_error_t;

/* Options of a group. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_group_options_t), as cadre_group_options sets it. */
    size_t size;

    /* What the group does when one of its closures fails. */
    cadre_after_error_t after_error;
} cadre_group_options_t;

/* Returns options with every default in place, as cadre_coordinator_options does. */
static inline cadre_group_options_t
cadre_group_options(void)
{
    cadre_group_options_t options;
    memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    return options;
}

/* How many closures of a group there were. The struct gets no more fields in later versions. */
typedef struct {
    uint64_t scheduled; /* all: `scheduled` less the next three have not ended */
    uint64_t finished;  /* ended well */
    uint64_t failed;    /* failed, also because a closure failed whose result they take */
    uint64_t cancelled;
} cadre_group_totals_t;

/* Makes an empty group. A call names it in its `group`; closures of cadre_coordinator_schedule_on
 * can be of a group, too. A failure cancels closures of its own group only. There is one exception:
 * a closure that takes a result of one that failed or was cancelled ends as that one did, in
 * whatever group, and its own group counts that as a failure. Everything else is as without groups:
 * updates count exactly once, the cut of a checkpoint does not look at groups,
 * cadre_coordinator_join and cadre_coordinator_is_done wait for closures of groups too, and
 * cadre_coordinator_cancel cancels them. With CADRE_SYNC closures of several groups may be part of
 * one step.
 *
 * A closure that ended well may run again when a ps is lost. If it fails then, its group gets the
 * error; when the group was destroyed, the closures without a group get it.
 *
 * CADRE_EINVALID: `after_error` is not one of cadre_after_error_t. */
CADRE_API int cadre_group_create(cadre_coordinator_t *self, const cadre_group_options_t *options,
                                 cadre_group_t **group);

/* Waits until every closure of the group that was scheduled before this call has ended, those of
 * cadre_coordinator_schedule_on too, and their updates are on the shards. Raises the group's first
 * error, once: the text names function, closure, attempt and worker, and counts further failures.
 * The text of CADRE_ETIMEOUT names closures of the group that have not ended, as that of
 * cadre_coordinator_join does. */
CADRE_API int cadre_group_join(cadre_group_t *self, int64_t timeout_ms);

/* Cancels the queued closures of the group and those in flight, and returns when none of them runs
 * any more. Otherwise as cadre_coordinator_cancel, which cancels all closures. */
CADRE_API int cadre_group_cancel(cadre_group_t *self, int64_t timeout_ms);

/* Returns how many closures of the group were scheduled and how they ended, up to now; zeros for
 * NULL. */
CADRE_API cadre_group_totals_t cadre_group_totals(cadre_group_t *self);

/* Destroys the group and nulls the pointer. Its closures go on; only their futures tell how they
 * end. A group may be destroyed after its coordinator was closed. */
CADRE_API void cadre_group_destroy(cadre_group_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
