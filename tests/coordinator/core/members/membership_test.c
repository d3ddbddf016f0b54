#include "coordinator/core/members/membership.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"

TestSuite(membership, .timeout = 240);

static cadre_task_t
worker(uint32_t index, uint64_t incarnation)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, index, incarnation};
}

static cadre_hello_message_t
hello_of(const cadre_task_t *task, uint64_t index)
{
    return (cadre_hello_message_t){.role = task->role,
                                   .index = index,
                                   .host = "here",
                                   .address = "ipc:///tmp/a",
                                   .devices = "cpu",
                                   .process = 12,
                                   .slots = 3};
}

/* HELLO of `task`, asking for `index`. */
static int
join_as(cadre_membership_t *self, cadre_task_t task, uint64_t index, cadre_member_t **member)
{
    cadre_hello_message_t hello = hello_of(&task, index);
    return cadre_membership_join(self, &task, &hello, 1000, member);
}

static int
join(cadre_membership_t *self, cadre_task_t task, cadre_member_t **member)
{
    return join_as(self, task, task.index, member);
}

static cadre_member_t *
occupant_of(const cadre_membership_t *self, cadre_task_t task, uint64_t index)
{
    cadre_hello_message_t hello = hello_of(&task, index);
    return cadre_membership_occupant(self, &task, &hello);
}

Test(membership, takes_a_ps_and_a_worker_with_what_they_say_of_themselves)
{
    cadre_membership_t self;
    cadre_member_t *ps = NULL;
    cadre_member_t *member = NULL;
    char name[32];
    cadre_membership_init(&self, 2);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 1, 5}, &ps), 0);
    cr_assert_eq(join(&self, worker(3, 6), &member), 0);
    cr_assert_eq(self.ps[1], ps);
    cr_assert_null(self.ps[0]);
    cr_assert_eq(self.ps_joined, 1);
    cr_assert_eq(self.workers[3], member);
    cr_assert_eq(self.worker_count, 1);
    cr_assert_eq(cadre_membership_find(&self, 6), member);
    cr_assert_null(cadre_membership_find(&self, 7));
    cr_assert_str_eq(member->host, "here");
    cr_assert_str_eq(ps->address, "ipc:///tmp/a");
    cr_assert_eq(member->slots, 3);
    cr_assert_eq(member->heard_ms, 1000);
    cr_assert_str_eq(cadre_member_name(ps, name), "ps 1");
    cr_assert_str_eq(cadre_member_name(member, name), "worker 3");
    cadre_membership_fini(&self);
}

Test(membership, gives_workers_without_an_index_the_lowest_that_is_free)
{
    cadre_membership_t self;
    cadre_member_t *members[4];
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 1), &members[0]), 0);
    cr_assert_eq(join(&self, worker(1, 2), &members[1]), 0);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 3), &members[2]), 0);
    cr_assert_eq(members[0]->index, 0);
    cr_assert_eq(members[2]->index, 2);
    cadre_membership_remove(&self, members[1]);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 4), &members[3]), 0);
    cr_assert_eq(members[3]->index, 1);
    cr_assert_eq(self.worker_count, 3);
    cadre_membership_fini(&self);
}

Test(membership, gives_a_ps_without_an_index_a_place_that_is_free_and_refuses_one_too_many)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 3);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 1, 1}, &member), 0);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, CADRE_INDEX_ANY, 2}, &member), 0);
    cr_assert_eq(member->index, 0);
    cr_assert_eq(join_as(&self, (cadre_task_t){CADRE_ROLE_PS, CADRE_INDEX_ANY, 3}, 1, &member), 0);
    cr_assert_eq(member->index, 2, "the one that it had is taken");
    cr_assert_eq(self.ps_joined, 3);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, CADRE_INDEX_ANY, 4}, &member),
                 CADRE_EFULL);
    cr_assert(strstr(cadre_error_text(), "all 3 ps of the job are there"));
    cadre_membership_fini(&self);
}

Test(membership, gives_a_worker_that_comes_back_its_index_unless_it_is_taken)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join_as(&self, worker(CADRE_INDEX_ANY, 1), 5, &member), 0);
    cr_assert_eq(member->index, 5);
    cr_assert_null(occupant_of(&self, worker(CADRE_INDEX_ANY, 2), 5), "it drives nobody out");
    cr_assert_eq(join_as(&self, worker(CADRE_INDEX_ANY, 2), 5, &member), 0);
    cr_assert_eq(member->index, 0);
    cadre_membership_fini(&self);
}

Test(membership, a_new_incarnation_of_an_index_takes_the_place_of_the_old)
{
    cadre_membership_t self;
    cadre_member_t *old = NULL;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(2, 10), &old), 0);
    cr_assert_null(occupant_of(&self, worker(2, 10), 2), "not its own");
    cr_assert_null(occupant_of(&self, worker(3, 11), 3));
    cr_assert_eq(occupant_of(&self, worker(2, 11), 2), old);
    cadre_membership_remove(&self, old);
    cr_assert_null(cadre_membership_find(&self, 10));
    cr_assert_eq(join(&self, worker(2, 11), &member), 0);
    cr_assert_eq(self.workers[2], member);
    cr_assert_eq(self.worker_count, 1);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 12}, &old), 0);
    cr_assert_eq(occupant_of(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 13}, 0), old);
    cadre_membership_fini(&self);
}

Test(membership, a_member_that_says_hello_again_keeps_its_place_and_drives_nobody_out)
{
    cadre_membership_t self;
    cadre_member_t *first = NULL;
    cadre_member_t *other = NULL;
    cadre_member_t *again = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 1), &first), 0);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 2), &other), 0);
    cr_assert_null(occupant_of(&self, worker(CADRE_INDEX_ANY, 1), 1));
    first->suspect = true;
    cr_assert_eq(join_as(&self, worker(CADRE_INDEX_ANY, 1), 1, &again), 0);
    cr_assert_eq(again, first);
    cr_assert_eq(first->index, 0);
    cr_assert_not(first->suspect);
    cr_assert_eq(self.worker_count, 2);
    cadre_membership_fini(&self);
}

Test(membership, marks_the_silent_as_suspect_and_finds_those_whose_lease_ran_out)
{
    enum { LEASE_MS = 10000 };
    cadre_membership_t self;
    cadre_member_t *quiet = NULL;
    cadre_member_t *loud = NULL;
    uint64_t due_ms = 0;
    cadre_membership_init(&self, 1);
    cr_assert_null(cadre_membership_expired(&self, 0, LEASE_MS, &due_ms));
    cr_assert_eq(due_ms, UINT64_MAX, "nobody to look after");
    cr_assert_eq(join(&self, worker(0, 1), &quiet), 0);
    cr_assert_eq(join(&self, worker(1, 2), &loud), 0);
    cr_assert_null(cadre_membership_expired(&self, 1000 + CADRE_SUSPECT_MS - 1, LEASE_MS, &due_ms));
    cr_assert_not(quiet->suspect);
    cr_assert_eq(due_ms, 1000 + CADRE_SUSPECT_MS);
    cadre_membership_heard(loud, 1000 + CADRE_SUSPECT_MS);
    cr_assert_null(cadre_membership_expired(&self, 1000 + CADRE_SUSPECT_MS, LEASE_MS, &due_ms));
    cr_assert(quiet->suspect);
    cr_assert_not(loud->suspect);
    cr_assert_eq(due_ms, 1000 + 2 * CADRE_SUSPECT_MS);
    cadre_membership_heard(loud, 1000 + LEASE_MS);
    cr_assert_null(cadre_membership_expired(&self, 1000 + LEASE_MS - 1, LEASE_MS, &due_ms));
    cr_assert_eq(due_ms, 1000 + LEASE_MS);
    cr_assert_eq(cadre_membership_expired(&self, 1000 + LEASE_MS, LEASE_MS, &due_ms), quiet);
    cadre_membership_heard(quiet, 1000 + LEASE_MS);
    cr_assert_not(quiet->suspect, "heard again");
    cr_assert_null(cadre_membership_expired(&self, 1000 + LEASE_MS, LEASE_MS, &due_ms));
    cadre_membership_fini(&self);
}

Test(membership, a_lease_shorter_than_the_time_to_become_suspect_is_kept)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    uint64_t due_ms = 0;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(0, 1), &member), 0);
    cr_assert_null(cadre_membership_expired(&self, 1499, 500, &due_ms));
    cr_assert_eq(due_ms, 1500);
    cr_assert_eq(cadre_membership_expired(&self, 1500, 500, &due_ms), member);
    cadre_membership_fini(&self);
}

Test(membership, refuses_roles_and_indices_that_have_no_place)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 2);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 1, 1}, &member), 0);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 2, 2}, &member), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "ps index 2 in a job of 2 ps"));
    cr_assert_eq(join_as(&self, (cadre_task_t){CADRE_ROLE_PS, CADRE_INDEX_ANY, 3}, 2, &member),
                 CADRE_EINVALID);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_EVALUATOR, 0, 4}, &member), CADRE_EINVALID);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 5}, &member),
                 CADRE_EINVALID);
    cr_assert_eq(join_as(&self, worker(1, 6), 2, &member), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "worker 1 says that it is worker 2"));
    cadre_task_t liar = worker(1, 7);
    cadre_hello_message_t hello = hello_of(&liar, 1);
    hello.role = CADRE_ROLE_PS;
    cr_assert_eq(cadre_membership_join(&self, &liar, &hello, 0, &member), CADRE_EINVALID);
    cr_assert_eq(self.members.count, 1, "who is refused leaves no trace");
    cadre_membership_fini(&self);
}

Test(membership, a_worker_index_is_below_the_number_of_tasks_there_can_be)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(CADRE_TASKS_MAX - 1, 1), &member), 0);
    cr_assert_eq(join(&self, worker(CADRE_TASKS_MAX, 2), &member), CADRE_EINVALID);
    cr_assert_eq(join(&self, worker(CADRE_TASKS_MAX + 1, 3), &member), CADRE_EINVALID);
    cr_assert_eq(join_as(&self, worker(CADRE_INDEX_ANY, 4), UINT32_MAX - 1, &member),
                 CADRE_EINVALID);
    cr_assert_eq(self.worker_count, 1);
    cadre_membership_fini(&self);
}

Test(membership, the_job_has_at_most_so_many_tasks)
{
    cadre_membership_t self;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 1}, &member), 0);
    for (uint64_t i = 2; i <= CADRE_TASKS_MAX; i++) {
        cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, i), &member), 0);
    }
    cr_assert_eq(self.members.count, CADRE_TASKS_MAX);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, CADRE_TASKS_MAX + 1), &member), CADRE_EFULL);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, 2), &member), 0, "a member is not one more");
    cadre_membership_remove(&self, member);
    cr_assert_eq(join(&self, worker(CADRE_INDEX_ANY, CADRE_TASKS_MAX + 1), &member), 0);
    cadre_membership_fini(&self);
}

Test(membership, a_process_whose_place_another_took_does_not_come_back)
{
    cadre_membership_t self;
    cadre_member_t *old = NULL;
    cadre_member_t *member = NULL;
    cadre_membership_init(&self, 1);
    cr_assert_eq(join(&self, worker(2, 10), &old), 0);
    cadre_membership_remove(&self, old);
    cr_assert_eq(join(&self, worker(2, 10), &old), 0, "it was away, and nobody took its place");
    cadre_membership_remove(&self, old);
    cr_assert_eq(join(&self, worker(2, 11), &member), 0);
    cr_assert_null(occupant_of(&self, worker(2, 10), 2));
    cr_assert_eq(join(&self, worker(2, 10), &old), CADRE_EFENCED);
    cr_assert_eq(self.workers[2], member);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 20}, &old), 0);
    cadre_membership_remove(&self, old);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 21}, &old), 0);
    cadre_membership_remove(&self, old);
    cr_assert_eq(join(&self, (cadre_task_t){CADRE_ROLE_PS, 0, 20}, &old), CADRE_EFENCED);
    cadre_membership_fini(&self);
}
