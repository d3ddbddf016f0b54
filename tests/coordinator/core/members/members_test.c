/* Through the core: which place a task gets, where it and the coordinator disagree */
#include "coordinator/core/members/members.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(members, .timeout = 240);

/* One whose WELCOME was said twice, by this coordinator and an earlier one, may believe either. */
Test(members, a_ps_that_believes_it_serves_another_shard_is_taken_at_its_word)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000};
    fixture_hello(self, &ps);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 0);
    fixture_clear(self);
    fixture_hello_as(self, &ps, 1, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 1);
    cr_assert_null(self->core.membership.ps[0]);
    cr_assert_not_null(self->core.membership.ps[1]);
    cr_assert(fixture_logged(self, "ps_lost"));
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_AWAY);
    cr_assert_eq(self->core.recovery.places[1].state, CADRE_PLACE_RESTORING);
    fixture_destroy(&self);
}

/* What is on its way to the shard that it had must not be taken by the one that it has now. */
Test(members, a_ps_of_open_index_begins_above_the_generations_of_all_places)
{
    fixture_t *self = fixture_new(2);
    for (uint32_t i = 0; i < 3; i++) {
        cadre_task_t first = {CADRE_ROLE_PS, 0, 2000 + i};
        fixture_hello(self, &first);
        fixture_turn(self);
        if (i < 2) {
            fixture_gone(self, &first);
        }
    }
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 3000};
    fixture_hello(self, &ps);
    fixture_turn(self);
    const cadre_message_t *restore = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_eq(restore->restore.shard, 1);
    cr_assert_gt(self->core.recovery.places[0].generation, 1);
    cr_assert_gt(restore->restore.generation, self->core.recovery.places[0].generation);
    fixture_destroy(&self);
}

/* It held shard 1, was taken for shard 0 by a HELLO that came late, and a RESTORE of that one may
 * have reached it before it was taken for shard 1 again. */
Test(members, a_ps_that_was_taken_for_another_is_intact_nowhere)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t first = fixture_ps(0);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000 + 7};
    fixture_hello(self, &first);
    fixture_hello(self, &ps);
    fixture_turn(self);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    cr_assert_eq(self->core.recovery.places[1].state, CADRE_PLACE_READY);
    fixture_gone(self, &first);
    fixture_hello_as(self, &ps, 0, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_RESTORING);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_PS,
                                            .index = 1,
                                            .address = "tcp://127.0.0.1:5555",
                                            .session = 77,
                                            .generation = self->core.recovery.places[1].generation};
    fixture_clear(self);
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    cr_assert_eq(self->core.recovery.places[1].state, CADRE_PLACE_RESTORING);
    const cadre_message_t *restore = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_eq(restore->restore.shard, 1);
    fixture_destroy(&self);
}

Test(members, a_ps_that_says_hello_again_with_the_index_it_was_told_stays)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 2000};
    fixture_hello(self, &ps);
    fixture_turn(self);
    fixture_clear(self);
    fixture_hello_as(self, &ps, 0, (cadre_u64s_t){NULL, 0});
    fixture_hello_as(self, &ps, CADRE_INDEX_ANY, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, NULL, CADRE_MESSAGE_WELCOME, 1)->welcome.index, 0);
    cr_assert_not(fixture_logged(self, "ps_lost"));
    fixture_destroy(&self);
}

/* Its folders may be wrong all the same: that shows when a path is named. */
Test(members, a_ps_that_may_use_no_folder_is_refused_where_the_job_has_checkpoints)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HELLO);
    message.epoch = 0;
    message.hello = (cadre_hello_message_t){
        .role = CADRE_ROLE_PS, .address = "tcp://127.0.0.1:5555", .folderless = 1};
    self->core.checkpoint.enabled = true;
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    const cadre_message_t *answer = fixture_sent(self, &ps, CADRE_MESSAGE_REFUSED, 0);
    cr_assert_eq(answer->refused.status, (uint64_t)-CADRE_EREFUSED);
    cr_assert(strstr(answer->refused.text, "start cadre-ps with --checkpoint-dir DIR"), "%s",
              answer->refused.text);
    cr_assert(strstr(answer->refused.text, "without checkpoints"), "%s", answer->refused.text);
    cr_assert(fixture_logged(self, "hello_refused"));
    cr_assert_eq(self->core.membership.ps_joined, 0);
    self->core.checkpoint.enabled = false;
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    cr_assert_eq(self->core.membership.ps_joined, 1);
    fixture_destroy(&self);
}

/* --- places that are held --- */

static size_t
answers(const fixture_t *self, const cadre_task_t *to)
{
    return fixture_count(self, to, CADRE_MESSAGE_WELCOME) +
           fixture_count(self, to, CADRE_MESSAGE_REFUSED) +
           fixture_count(self, to, CADRE_MESSAGE_UNKNOWN_PEER);
}

/* Heartbeats of ps 0 for `ms`, one each half second, while the newcomer asks as often. */
static void
both_live(fixture_t *self, const cadre_task_t *holder, const cadre_task_t *newcomer, uint64_t ms)
{
    static uint64_t sequence = 1;
    for (uint64_t passed = 0; passed < ms; passed += 500) {
        self->now_ms += 500;
        fixture_heartbeat(self, holder, ++sequence, (cadre_u64s_t){NULL, 0});
        fixture_hello(self, newcomer);
        fixture_turn(self);
    }
}

Test(members, a_place_whose_holder_is_heard_is_not_given_away)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    const cadre_task_t holders[] = {fixture_ps(0), fixture_worker(0)};
    for (size_t i = 0; i < CADRE_COUNT_OF(holders); i++) {
        const cadre_task_t *holder = &holders[i];
        cadre_task_t newcomer = {holder->role, 0, 666 + i};
        fixture_heartbeat(self, holder, 1, (cadre_u64s_t){NULL, 0});
        fixture_hello(self, &newcomer);
        fixture_turn(self);
        cr_assert_eq(answers(self, &newcomer), 0, "it is not known yet");
        cr_assert_eq(fixture_count(self, holder, CADRE_MESSAGE_WELCOME), 1, "is it there?");
        both_live(self, holder, &newcomer, CADRE_SUSPECT_MS);
        const cadre_message_t *refused = fixture_sent(self, &newcomer, CADRE_MESSAGE_REFUSED, 0);
        cr_assert_not_null(refused);
        cr_assert_eq(refused->refused.status, (uint64_t)-CADRE_EREFUSED);
        cr_assert(strstr(refused->refused.text, "is process 4711 on here, which is heard"));
        cr_assert(fixture_logged(self, "hello_refused"));
        cr_assert_not_null(cadre_membership_find(&self->core.membership, holder->incarnation));
        fixture_clear(self);
    }
    cr_assert_eq(self->core.totals.ps_lost + self->core.totals.workers_lost, 0);
    fixture_destroy(&self);
}

Test(members, a_place_whose_holder_is_silent_goes_to_who_asks_for_it)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t newcomer = {CADRE_ROLE_PS, 0, 666};
    self->now_ms += CADRE_SUSPECT_MS - 1;
    fixture_hello(self, &newcomer);
    cr_assert_eq(answers(self, &newcomer), 0);
    self->now_ms += 1;
    fixture_hello(self, &newcomer);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(self->core.membership.ps[0]->task.incarnation, 666);
    fixture_destroy(&self);
}

/* It was killed, and the process that takes its place is quicker than the news of that. */
Test(members, who_waits_for_a_place_is_told_when_it_is_free)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t holder = fixture_ps(0);
    cadre_task_t newcomers[] = {{CADRE_ROLE_PS, 0, 666}, {CADRE_ROLE_PS, CADRE_INDEX_ANY, 667}};
    fixture_hello(self, &newcomers[0]);
    fixture_hello(self, &newcomers[1]);
    fixture_turn(self);
    cr_assert_eq(answers(self, &newcomers[0]) + answers(self, &newcomers[1]), 0);
    fixture_gone(self, &holder);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &newcomers[0], CADRE_MESSAGE_UNKNOWN_PEER), 1);
    cr_assert_eq(fixture_count(self, &newcomers[1], CADRE_MESSAGE_UNKNOWN_PEER), 1);
    fixture_hello(self, &newcomers[1]);
    fixture_turn(self);
    cr_assert_eq(self->core.membership.ps[0]->task.incarnation, 667);
    cr_assert_eq(self->core.members.contests.count, 0);
    fixture_destroy(&self);
}

Test(members, a_ps_too_many_is_refused_once_all_the_others_are_known_to_live)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t holder = fixture_ps(0);
    cadre_task_t newcomer = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 666};
    fixture_hello(self, &newcomer);
    cr_assert_eq(answers(self, &newcomer), 0);
    both_live(self, &holder, &newcomer, CADRE_SUSPECT_MS);
    const cadre_message_t *refused = fixture_sent(self, &newcomer, CADRE_MESSAGE_REFUSED, 0);
    cr_assert_not_null(refused);
    cr_assert_eq(refused->refused.status, (uint64_t)-CADRE_EFULL);
    fixture_destroy(&self);
}

/* --- members that are kept after an own stall --- */

/* A heartbeat that says all that one must say for its shard to count as alive. */
static void
beat(fixture_t *self, const cadre_task_t *from)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat =
        (cadre_heartbeat_message_t){.sequence = self->now_ms,
                                    .progress = self->now_ms,
                                    .generation = self->core.recovery.places[0].generation};
    fixture_say(self, from, &message);
}

/* A shell that comes in time, for `ms`. */
static void
attend(fixture_t *self, uint64_t ms)
{
    uint64_t until_ms = self->now_ms + ms;
    while (self->now_ms < until_ms) {
        self->now_ms =
            self->core.leases.tick_due_ms < until_ms ? self->core.leases.tick_due_ms : until_ms;
        cadre_core_tick(&self->core, self->now_ms, false);
    }
    fixture_collect(self);
}

/* The newcomer says HELLO each half second until it has an answer, for `ms`; `living` is heard. */
static void
ask_for(fixture_t *self, const cadre_task_t *newcomer, const cadre_task_t *living, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms && answers(self, newcomer) == 0; passed += 500) {
        attend(self, 500);
        beat(self, living);
        fixture_hello(self, newcomer);
        attend(self, 1);
    }
}

/* A stall, and just after it the connection to the task closes, which may only dial anew. */
static void
stall_and_close(fixture_t *self, const cadre_task_t *task)
{
    self->core.options.lease_ms = CADRE_LOCAL_LEASE_MS;
    fixture_turn(self);
    self->now_ms += 12000;
    cadre_core_tick(&self->core, self->now_ms, false);
    self->now_ms += 100;
    fixture_gone(self, task);
    cadre_core_tick(&self->core, self->now_ms, false);
    fixture_collect(self);
    cr_assert_not_null(cadre_membership_find(&self->core.membership, task->incarnation));
}

/* The launcher started it at once. Who dials anew is back when CADRE_MUTE_MS have passed. */
Test(members, the_successor_of_a_task_that_died_just_after_an_own_stall_gets_its_place)
{
    const cadre_task_t tasks[] = {fixture_ps(0), fixture_worker(0)};
    for (size_t i = 0; i < CADRE_COUNT_OF(tasks); i++) {
        fixture_t *self = fixture_new_cluster(1, 1);
        cadre_task_t newcomer = {tasks[i].role, 0, 666};
        stall_and_close(self, &tasks[i]);
        ask_for(self, &newcomer, &tasks[1 - i], CADRE_MUTE_MS - 1000);
        cr_assert_eq(answers(self, &newcomer), 0, "the holder may come back");
        ask_for(self, &newcomer, &tasks[1 - i], 1500);
        cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_REFUSED), 0);
        cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_WELCOME), 1);
        fixture_destroy(&self);
    }
}

Test(members, a_ps_of_open_index_waits_for_the_place_of_one_that_died_just_after_an_own_stall)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    const cadre_task_t dead = fixture_ps(0);
    const cadre_task_t worker = fixture_worker(0);
    cadre_task_t newcomer = {CADRE_ROLE_PS, CADRE_INDEX_ANY, 666};
    stall_and_close(self, &dead);
    ask_for(self, &newcomer, &worker, CADRE_MUTE_MS + CADRE_LOCAL_LEASE_MS + 1000);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_REFUSED), 0);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(self->core.membership.ps[0]->task.incarnation, newcomer.incarnation);
    fixture_destroy(&self);
}

/* Its host is gone, so nobody says that its connection has closed. */
Test(members, an_own_stall_shows_nobody_that_the_holder_of_a_place_lives)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    const cadre_task_t worker = fixture_worker(0);
    cadre_task_t newcomer = {CADRE_ROLE_PS, 0, 666};
    ask_for(self, &newcomer, &worker, 1000);
    self->now_ms += 12000;
    cadre_core_tick(&self->core, self->now_ms, false);
    cr_assert_gt(self->core.leases.stalled_ms, 0);
    ask_for(self, &newcomer, &worker, CADRE_SUSPECT_MS);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_REFUSED), 0);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_WELCOME), 1);
    fixture_destroy(&self);
}

Test(members, a_task_that_comes_back_after_an_own_stall_keeps_its_place)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    const cadre_task_t ps = fixture_ps(0);
    const cadre_task_t worker = fixture_worker(0);
    cadre_task_t newcomer = {CADRE_ROLE_PS, 0, 666};
    stall_and_close(self, &ps);
    ask_for(self, &newcomer, &worker, CADRE_MUTE_MS - 1000);
    cr_assert_eq(answers(self, &newcomer), 0);
    fixture_hello(self, &ps);
    ask_for(self, &newcomer, &ps, 500);
    cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_REFUSED), 1, "it is heard");
    cr_assert_eq(self->core.totals.ps_lost, 0);
    fixture_destroy(&self);
}

/* --- versions --- */

static const cadre_message_t *
hello_of(fixture_t *self, uint64_t lowest, uint64_t highest, uint64_t schema)
{
    cadre_task_t worker = fixture_worker(0);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_HELLO);
    message.epoch = 0;
    message.hello = (cadre_hello_message_t){.lowest = lowest,
                                            .highest = highest,
                                            .schema = schema,
                                            .build = "9.9",
                                            .role = CADRE_ROLE_WORKER,
                                            .slots = 1};
    fixture_clear(self);
    fixture_say(self, &worker, &message);
    fixture_turn(self);
    const cadre_message_t *refused = fixture_sent(self, &worker, CADRE_MESSAGE_REFUSED, 0);
    return refused ? refused : fixture_sent(self, &worker, CADRE_MESSAGE_WELCOME, 0);
}

Test(members, a_task_whose_protocols_are_others_is_refused_with_both_ranges)
{
    fixture_t *self = fixture_new(1);
    self->core.options.build = "1.0";
    const uint64_t schema = cadre_message_schema_hash();
    const uint64_t mine = CADRE_PROTOCOL_VERSION;
    static const char *const wanted = "build 9.9 speaks protocol 2 to 7, the coordinator's build "
                                      "1.0 protocol 1 to 1: run the same release";
    const cadre_message_t *answer = hello_of(self, mine + 1, mine + 6, schema);
    cr_assert_eq(answer->type, CADRE_MESSAGE_REFUSED);
    cr_assert_eq(answer->refused.status, (uint64_t)-CADRE_EPROTOCOL);
    cr_assert_eq(answer->refused.lowest, CADRE_PROTOCOL_LOWEST);
    cr_assert_eq(answer->refused.highest, mine);
    cr_assert_str_eq(answer->refused.text, wanted);
    cr_assert(fixture_logged(self, "hello_refused"));
    cr_assert_eq(hello_of(self, mine + 1, mine, schema)->type, CADRE_MESSAGE_REFUSED);
    answer = hello_of(self, mine, mine, schema + 1);
    cr_assert_eq(answer->type, CADRE_MESSAGE_REFUSED, "it would misread us");
    cr_assert(strstr(answer->refused.text, "lay out the messages of protocol 1 differently"));
    cr_assert_eq(self->core.membership.worker_count, 0);
    fixture_destroy(&self);
}

Test(members, the_highest_protocol_that_both_speak_is_chosen)
{
    fixture_t *self = fixture_new(1);
    const cadre_message_t *answer =
        hello_of(self, CADRE_PROTOCOL_VERSION, CADRE_PROTOCOL_VERSION + 5, 1234);
    cr_assert_eq(answer->type, CADRE_MESSAGE_WELCOME, "which lays out that one as we do");
    cr_assert_eq(answer->welcome.protocol, CADRE_PROTOCOL_VERSION);
    fixture_destroy(&self);
}

/* Those of the ps are kept for them, and who is there stays. */
Test(members, workers_beyond_the_descriptors_are_refused_in_words)
{
    enum { LIMIT = 2 };
    fixture_t *self = fixture_new(1);
    self->core.options.workers_max = LIMIT;
    self->core.options.workers_why = "RLIMIT_NOFILE is 80";
    for (uint32_t i = 0; i <= LIMIT; i++) {
        cadre_task_t worker = {CADRE_ROLE_WORKER, i, 3000 + i};
        fixture_hello(self, &worker);
    }
    fixture_turn(self);
    cr_assert_eq(self->core.membership.worker_count, LIMIT);
    const cadre_message_t *refused = fixture_sent(self, NULL, CADRE_MESSAGE_REFUSED, 0);
    cr_assert_eq(refused->refused.status, (uint64_t)-CADRE_EFULL);
    cr_expect_str_eq(refused->refused.text,
                     "the coordinator has descriptors for 2 workers: RLIMIT_NOFILE is 80");
    fixture_clear(self);

    cadre_task_t ps = fixture_ps(0);
    cadre_task_t known = {CADRE_ROLE_WORKER, 1, 3001};
    cadre_task_t further = {CADRE_ROLE_WORKER, 2, 3002};
    fixture_hello(self, &ps);
    fixture_hello(self, &known);
    cadre_core_gone(&self->core, &(cadre_task_t){CADRE_ROLE_WORKER, 0, 3000}, self->now_ms);
    fixture_hello(self, &further);
    fixture_turn(self);
    cr_expect_eq(fixture_sent(self, &ps, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 0);
    cr_expect_eq(fixture_sent(self, &further, CADRE_MESSAGE_WELCOME, 0)->welcome.index, 2);
    fixture_destroy(&self);
}

/* It was killed without a word from its host, say, and is started again. */
/* A second one would run closures beside the first, whose one slot is to run them in order. */
Test(members, a_job_in_series_takes_one_worker)
{
    fixture_t *self = fixture_new(1);
    self->core.options.is_serial = true;
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t worker = {CADRE_ROLE_WORKER, i, 3000 + i};
        fixture_hello(self, &worker);
    }
    fixture_turn(self);
    cr_assert_eq(self->core.membership.worker_count, 1);
    const cadre_message_t *refused = fixture_sent(self, NULL, CADRE_MESSAGE_REFUSED, 0);
    cr_assert_eq(refused->refused.status, (uint64_t)-CADRE_EFULL);
    cr_expect(strstr(refused->refused.text, "takes no further worker"));
    fixture_destroy(&self);
}

Test(members, a_worker_waits_for_the_room_of_one_that_is_silent)
{
    enum { LIMIT = 2 };
    const bool closes[] = {false, true}; /* its connection, after an own stall */
    for (size_t i = 0; i < CADRE_COUNT_OF(closes); i++) {
        fixture_t *self = fixture_new_cluster(1, LIMIT);
        const cadre_task_t silent = fixture_worker(0);
        const cadre_task_t living = fixture_worker(1);
        const cadre_task_t newcomer = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 666};
        self->core.options.workers_max = LIMIT;
        self->core.options.workers_why = "RLIMIT_NOFILE is 80";
        if (closes[i]) {
            stall_and_close(self, &silent);
        } else {
            fixture_turn(self);
            attend(self, CADRE_SUSPECT_MS);
            beat(self, &living);
        }
        ask_for(self, &newcomer, &living, CADRE_MUTE_MS + CADRE_LEASE_MS);
        cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_REFUSED), 0, "case %zu", i);
        cr_assert_eq(fixture_count(self, &newcomer, CADRE_MESSAGE_WELCOME), 1, "case %zu", i);
        cr_assert_eq(self->core.membership.worker_count, LIMIT);
        fixture_destroy(&self);
    }
}

/* A HELLO that says what the worker has of this session. */
static void
say_hello(fixture_t *self, const cadre_task_t *worker, uint64_t round, uint64_t definitions,
          uint64_t functions)
{
    cadre_message_t message = fixture_message(worker, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_WORKER,
                                            .index = worker->index,
                                            .slots = 1,
                                            .session = self->core.options.incarnation,
                                            .round = round,
                                            .definitions = definitions,
                                            .functions = functions};
    fixture_say(self, worker, &message);
    fixture_turn(self);
}

Test(members, a_worker_that_only_repeats_its_hello_is_told_nothing_twice)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    fixture_add_variable(self, "b", 3, 1);
    fixture_function(self);
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 1);
    fixture_clear(self);
    self->now_ms += CADRE_HELLO_ANSWER_MS - 1;
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 0, "not so soon");
    self->now_ms += 1;
    say_hello(self, &worker, 1, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 0);
    self->now_ms += 1000;
    say_hello(self, &worker, 0, 0, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1, "an old one, late");
    fixture_destroy(&self);
}

Test(members, a_worker_on_another_connection_is_told_what_it_lacks)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    fixture_add_variable(self, "b", 3, 1);
    fixture_function(self);
    say_hello(self, &worker, 1, 0, 0);
    fixture_clear(self);
    say_hello(self, &worker, 2, 1, 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1, "at once");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0)->variable.id, 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 1);
    fixture_clear(self);
    fixture_gone(self, &worker);
    say_hello(self, &worker, 3, 2, 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 0, "it has all");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 0, "none was there");
    fixture_destroy(&self);
}

Test(members, what_is_announced_between_two_turns_goes_in_one_message)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    say_hello(self, &worker, 1, 0, 0);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "v%d", i);
        fixture_add_variable(self, name, 3, 1);
    }
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 100);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS), 1);
    fixture_destroy(&self);
}

Test(members, what_a_worker_wants_again_is_told_later_each_time)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "a", 3, 1);
    say_hello(self, &worker, 1, 0, 0);
    fixture_clear(self);
    size_t told = 0;
    for (int i = 0; i < 60; i++) {
        cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_WANT);
        message.want = (cadre_want_message_t){.kind = CADRE_WANT_DEFINITIONS};
        fixture_say(self, &worker, &message);
        self->now_ms += 1000;
        fixture_heartbeat(self, &worker, (uint64_t)i + 1, (cadre_u64s_t){NULL, 0});
        fixture_turn(self);
        told += fixture_count(self, &worker, CADRE_MESSAGE_DEFINITIONS);
        fixture_clear(self);
    }
    cr_expect_geq(told, 8, "it may have been lost");
    cr_expect_leq(told, 12, "%zu times in a minute", told);
    fixture_destroy(&self);
}

/* What a ps says of where it serves, in a job whose transport is `transport`. */
static uint64_t
status_of_ps(const char *transport, const char *address)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = {CADRE_ROLE_PS, 0, 9};
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_HELLO);
    message.epoch = 0;
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_PS, .address = address};
    self->core.options.transport = transport;
    fixture_say(self, &ps, &message);
    fixture_turn(self);
    const cadre_message_t *answer = fixture_sent(self, &ps, CADRE_MESSAGE_REFUSED, 0);
    uint64_t status = answer ? answer->refused.status : 0;
    fixture_destroy(&self);
    return status;
}

Test(members, a_ps_of_a_job_with_keys_serves_where_a_key_is_asked_for)
{
    cr_expect_eq(status_of_ps("curve", "ipc:///tmp/x"), (uint64_t)-CADRE_EREFUSED);
    cr_expect_eq(status_of_ps("curve", "inproc://x"), (uint64_t)-CADRE_EREFUSED);
    cr_expect_eq(status_of_ps("curve", "tcp://127.0.0.1:5555"), 0);
    cr_expect_eq(status_of_ps("plain", "ipc:///tmp/x"), 0);
}

/* A peer that may connect must not fill the disk that the log is on. */
Test(members, a_flood_of_refused_hellos_is_told_in_a_line_now_and_then)
{
    fixture_t *self = fixture_new(1);
    size_t lines = 0;
    for (uint32_t i = 0; i < 3 * CADRE_LOG_BURST; i++) {
        cadre_task_t ps = {CADRE_ROLE_PS, 3, 9 + i};
        fixture_hello(self, &ps);
        fixture_turn(self);
        lines += fixture_logged(self, "hello_refused");
        fixture_clear(self);
    }
    cr_expect_lt(lines, 2 * CADRE_LOG_BURST, "%zu", lines);
    self->now_ms += CADRE_DROPPED_LOG_MS;
    fixture_turn(self);
    cr_expect(fixture_logged(self, "log_suppressed"));
    fixture_destroy(&self);
}

/* --- by themselves: the links are made by hand, and there is no coordinator --- */

typedef struct {
    cadre_core_options_t options;
    cadre_membership_t membership;
    cadre_effects_t effects;
    cadre_members_t members;
} alone_t;

static void
alone_init(alone_t *self)
{
    *self = (alone_t){.options = {.job = "test", .ps_count = 1, .lease_ms = 10000}};
    cadre_effects_init(&self->effects, 77, 1, 100000);
    cadre_membership_init(&self->membership, 1);
    cadre_members_init(&self->members, &(cadre_members_links_t){.options = &self->options,
                                                                .membership = &self->membership,
                                                                .effects = &self->effects});
}

static void
alone_fini(alone_t *self)
{
    cadre_membership_fini(&self->membership);
    cadre_effects_fini(&self->effects);
}

static cadre_hello_verdict_t
alone_hello(alone_t *self, uint64_t incarnation)
{
    cadre_task_t ps = {CADRE_ROLE_PS, 0, incarnation};
    cadre_message_t message = {.type = CADRE_MESSAGE_HELLO, .incarnation = incarnation};
    message.hello = (cadre_hello_message_t){.role = CADRE_ROLE_PS,
                                            .host = "host",
                                            .address = "tcp://127.0.0.1:5555",
                                            .devices = "",
                                            .build = "",
                                            .lowest = CADRE_PROTOCOL_LOWEST,
                                            .highest = CADRE_PROTOCOL_VERSION,
                                            .schema = cadre_message_schema_hash()};
    return cadre_members_on_hello(&self->members, &ps, &message, false);
}

Test(members, whom_a_hello_replaces_is_a_member_until_it_is_taken_out)
{
    alone_t self;
    alone_init(&self);
    cr_assert_eq(alone_hello(&self, 1).outcome, CADRE_HELLO_JOINS);
    cr_assert_eq(alone_hello(&self, 1).outcome, CADRE_HELLO_STAYS);
    cr_assert_eq(alone_hello(&self, 2).outcome, CADRE_HELLO_CONTESTS);
    cr_assert_eq(alone_hello(&self, 2).outcome, CADRE_HELLO_WAITS);
    cadre_effects_set_time(&self.effects, 100000 + CADRE_SUSPECT_MS);
    cadre_hello_verdict_t verdict = alone_hello(&self, 2);
    cr_assert_eq(verdict.outcome, CADRE_HELLO_REPLACES);
    cr_assert(verdict.died);
    cr_assert_eq(verdict.member, cadre_membership_find(&self.membership, 1));
    cadre_members_remove(&self.members, verdict.member);
    verdict = alone_hello(&self, 2);
    cr_assert_eq(verdict.outcome, CADRE_HELLO_JOINS);
    cr_assert_eq(verdict.member->task.incarnation, 2);
    cr_assert_eq(alone_hello(&self, 1).outcome, CADRE_HELLO_REFUSED);
    alone_fini(&self);
}
