/*
 * group - closures that fail, are waited for and are cancelled together, apart from others.
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
    /* It cancels its others. The error is raised, once, by the next cadre_group_join or call of
     * cadre_coordinator_schedule with the group, when nothing of the group runs any more; it is
     * usable again afterwards. */
    CADRE_GROUP_STOPS = 0,
    /* Nothing is cancelled, and closures can be scheduled as before. Failures are counted, and
     * cadre_group_join raises the first, once. */
    CADRE_GROUP_GOES_ON = 1,
} cadre_after_error_t;

/* Options of a group. 0 is the default of every field. */
typedef struct {
    /* sizeof(cadre_group_options_t), as cadre_group_options sets it. */
    size_t size;

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

/* Closures of a group. Those that have not ended are what is left of `scheduled`. It cannot grow.
 */
typedef struct {
    uint64_t scheduled;
    uint64_t finished;
    uint64_t failed; /* those included that failed because one did whose result they take */
    uint64_t cancelled;
} cadre_group_totals_t;

/* Makes an empty group. A call names it in its `group`; closures of cadre_coordinator_schedule_on
 * can be of a group, too. A failure in a group cancels nothing outside of it, and a failure outside
 * of it nothing in it, but for closures that take a result of one that failed or was cancelled:
 * they end as that one did, which is a failure of their own group. Everything else is as without
 * groups: updates count exactly once, the cut of a checkpoint does not look at groups,
 * cadre_coordinator_join and cadre_coordinator_is_done wait for closures of groups, and
 * cadre_coordinator_cancel cancels them. With CADRE_SYNC closures of several groups are part of one
 * step.
 *
 * A closure that has ended well and fails when it runs again for a lost ps is a failure of its
 * group, or of those without a group when the group was destroyed.
 *
 * CADRE_EINVALID: no such `after_error`. */
CADRE_API int cadre_group_create(cadre_coordinator_t *self, const cadre_group_options_t *options,
                                 cadre_group_t **group);

/* Waits until every closure of the group that was scheduled before this call has ended, those of
 * cadre_coordinator_schedule_on too, and what it pushed is on its shards. Raises the group's first
 * error, once: the text names function, closure, attempt and worker, and counts further failures.
 * That of CADRE_ETIMEOUT names closures of the group that have not ended, as
 * cadre_coordinator_join does. */
CADRE_API int cadre_group_join(cadre_group_t *self, int64_t timeout_ms);

/* Cancels what is queued and in flight of the group, as cadre_coordinator_cancel does everything,
 * and returns when none of it runs any more. */
CADRE_API int cadre_group_cancel(cadre_group_t *self, int64_t timeout_ms);

/* Returns how many closures were scheduled and have ended, as of now; zeros for NULL. */
CADRE_API cadre_group_totals_t cadre_group_totals(cadre_group_t *self);

/* Destroys the group and nulls the pointer. Its closures go on, and only their futures tell how
 * they end. A group may be destroyed after its coordinator was closed. */
CADRE_API void cadre_group_destroy(cadre_group_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
