/* What clients, who are no members, may do with a job, and what is left of them. */
#include "coordinator/core/clients/clients.h"

#include "common/wire/row_list.h"
#include "tests/coordinator/recovery_fixture.h"

TestSuite(clients, .timeout = 240);

enum { LEASE_MS = 10000 };

static cadre_task_t
client_task(uint64_t number)
{
    return (cadre_task_t){CADRE_ROLE_CLIENT, CADRE_INDEX_ANY, 5000 + number};
}

/* Says a message of a client under a request number. */
static void
say(fixture_t *self, const cadre_task_t *from, uint64_t request, cadre_message_t message)
{
    message.request = request;
    message.incarnation = from->incarnation;
    fixture_say(self, from, &message);
    fixture_turn(self);
}

static void
attach(fixture_t *self, const cadre_task_t *from)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_ATTACH};
    message.attach.schema = cadre_message_schema_hash();
    say(self, from, 1, message);
}

/* A heartbeat that awaits one request (0: none). */
static void
beat(fixture_t *self, const cadre_task_t *from, uint64_t awaited, uint64_t settled)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_ATTACH, .epoch = FIXTURE_EPOCH};
    message.attach.schema = cadre_message_schema_hash();
    message.attach.settled = settled;
    message.attach.awaited = (cadre_u64s_t){&awaited, awaited > 0};
    say(self, from, 2, message);
}

static void
schedule(fixture_t *self, const cadre_task_t *from, uint64_t request, const char *function)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SCHEDULE, .epoch = FIXTURE_EPOCH};
    message.schedule.function = function;
    say(self, from, request, message);
}

/* A job with one worker that takes closures of clients, and one client. */
static fixture_t *
job_with_client(cadre_task_t *client)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    self->core.options.client_closures = true;
    fixture_function(self);
    *client = client_task(0);
    attach(self, client);
    return self;
}

/* The status in the only RESULT since the last clear. */
static int
result_status(const fixture_t *self, const cadre_task_t *client)
{
    cr_assert_eq(fixture_count(self, client, CADRE_MESSAGE_RESULT), 1);
    return -(int)fixture_sent(self, client, CADRE_MESSAGE_RESULT, 0)->result.status;
}

Test(clients, are_told_of_the_job_when_they_attach)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t client = client_task(0);
    attach(self, &client);
    const cadre_message_t *attached = fixture_sent(self, &client, CADRE_MESSAGE_ATTACHED, 0);
    cr_assert_not_null(attached);
    cr_expect_str_eq(attached->attached.job, "test");
    cr_expect_eq(attached->attached.may_schedule, 0, "closures are denied unless allowed");
    cr_expect_eq(attached->epoch, FIXTURE_EPOCH);
    cr_expect(fixture_logged(self, "client_attached"));
    fixture_destroy(&self);
}

Test(clients, of_another_release_are_refused)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t client = client_task(0);
    cadre_message_t message = {.type = CADRE_MESSAGE_ATTACH};
    message.attach.schema = cadre_message_schema_hash() + 1;
    say(self, &client, 1, message);
    const cadre_message_t *attached = fixture_sent(self, &client, CADRE_MESSAGE_ATTACHED, 0);
    cr_assert_eq(-(int)attached->attached.status, CADRE_EPROTOCOL);
    cr_expect(fixture_logged(self, "client_refused"));
    cr_expect_eq(self->core.clients.attached.count, 0);
    fixture_destroy(&self);
}

Test(clients, are_as_many_as_the_limit_and_no_more)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    for (uint64_t i = 0; i < CADRE_CLIENTS_MAX; i++) {
        cadre_task_t client = client_task(i);
        attach(self, &client);
    }
    cr_assert_eq(self->core.clients.attached.count, CADRE_CLIENTS_MAX);
    cadre_task_t last = client_task(CADRE_CLIENTS_MAX);
    attach(self, &last);
    const cadre_message_t *attached = fixture_sent(self, &last, CADRE_MESSAGE_ATTACHED, 0);
    cr_expect_eq(-(int)attached->attached.status, CADRE_EFULL);
    fixture_destroy(&self);
}

Test(clients, that_are_not_attached_are_told_so)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t client = client_task(0);
    schedule(self, &client, 7, "work");
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_UNKNOWN_PEER), 1);
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_RESULT), 0);
    fixture_destroy(&self);
}

/* --- reading --- */

Test(clients, list_what_exists_in_as_many_answers_as_it_takes)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    for (int i = 0; i < CADRE_LISTED_MAX + 1; i++) {
        char name[16];
        snprintf(name, sizeof(name), "v%d", i);
        fixture_add_variable(self, name, 10, 3);
    }
    cadre_variable_t *unmade = fixture_add_variable(self, "unmade", 10, 3);
    unmade->created = false;

    cadre_message_t message = {.type = CADRE_MESSAGE_LIST, .epoch = FIXTURE_EPOCH};
    say(self, &client, 3, message);
    const cadre_message_t *first = fixture_sent(self, &client, CADRE_MESSAGE_LISTED, 0);
    cr_assert_eq(first->listed.names.count, CADRE_LISTED_MAX);
    cr_expect_eq(first->listed.more, 1);
    const uint64_t *item = first->listed.items.items;
    cr_expect_str_eq(first->listed.names.items[0], "v0");
    cr_expect_eq(item[1], CADRE_F32);
    cr_expect_eq(item[2], 3);
    cr_expect_eq(item[4], 1);
    cr_expect_eq(item[5], 10);

    message.list.after = item[CADRE_LISTED_ITEMS * (CADRE_LISTED_MAX - 1)];
    say(self, &client, 4, message);
    const cadre_message_t *second = fixture_sent(self, &client, CADRE_MESSAGE_LISTED, 1);
    cr_assert_eq(second->listed.names.count, 1, "the one that does not exist yet is not listed");
    cr_expect_eq(second->listed.more, 0);
    fixture_destroy(&self);
}

static void
read_part(fixture_t *self, const cadre_task_t *client, uint64_t request, uint64_t variable)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_READ, .epoch = FIXTURE_EPOCH};
    message.read = (cadre_read_message_t){.variable = variable, .slot = ""};
    say(self, client, request, message);
}

Test(clients, see_that_a_variable_is_a_table_and_read_it_not_as_a_whole)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *table = fixture_add_table(self, "users", 16);
    cadre_message_t message = {.type = CADRE_MESSAGE_LIST, .epoch = FIXTURE_EPOCH};
    say(self, &client, 3, message);
    const cadre_message_t *listed = fixture_sent(self, &client, CADRE_MESSAGE_LISTED, 0);
    cr_assert_eq(listed->listed.names.count, 1);
    const uint64_t *item = listed->listed.items.items;
    cr_expect_eq(item[4], 2);
    cr_expect_eq(item[5], 0);
    cr_expect_eq(item[6], 16);

    read_part(self, &client, 4, table->id);
    const cadre_message_t *part = fixture_sent(self, &client, CADRE_MESSAGE_PART, 0);
    cr_assert_eq(part->part.status, (uint64_t)-CADRE_EINVALID);
    cr_expect(strstr(part->part.text, "users is a table"), "%s", part->part.text);
    fixture_destroy(&self);
}

/* Asks for the rows of `count` keys, in so many chunks. */
static void
read_keys(fixture_t *self, const cadre_task_t *client, uint64_t variable, uint64_t count,
          int chunks)
{
    static const uint64_t keys[] = {7, 11};
    cadre_message_t message = {.type = CADRE_MESSAGE_READ, .epoch = FIXTURE_EPOCH};
    message.read = (cadre_read_message_t){.variable = variable, .rows = count, .slot = ""};
    for (int i = 0; i < chunks; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(keys, sizeof(keys)));
    }
    say(self, client, 4, message);
}

Test(clients, read_rows_of_a_table_and_hear_which_there_are)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *table = fixture_add_table(self, "users", 2);
    read_keys(self, &client, table->id, 2, 1);
    const cadre_message_t *pull = fixture_sent(self, NULL, CADRE_MESSAGE_PULL, 0);
    cr_assert_not_null(pull);
    const uint64_t record[] = {table->id, 0, CADRE_ROWS_LISTED, 2};
    cr_assert_eq(pull->pull.rows.count, 4);
    cr_expect_arr_eq(pull->pull.rows.items, record, sizeof(record));
    cr_expect_eq(pull->pull.partitions.count, 0);
    cr_expect_eq(pull->pull.absence, 1);
    cr_assert_eq(pull->chunk_count, 1);
    cr_expect_eq(((const uint64_t *)cadre_chunk_data(pull->chunks[0]))[1], 11);

    cadre_task_t ps = fixture_ps(0);
    cadre_message_t values = fixture_message(&ps, CADRE_MESSAGE_VALUES);
    values.request = pull->request;
    values.values.partitions = (cadre_u64s_t){(const uint64_t[]){9, 1}, 2};
    values.values.absent = (cadre_u64s_t){(const uint64_t[]){2}, 1};
    cadre_message_add_chunk(&values, cadre_chunk_new_copy("0123456789abcdef", 16));
    fixture_say(self, &ps, &values);
    fixture_turn(self);
    const cadre_message_t *part = fixture_sent(self, &client, CADRE_MESSAGE_PART, 0);
    cr_assert_eq(part->part.status, 0, "%s", part->part.text);
    cr_assert_eq(part->part.absent.count, 1);
    cr_expect_eq(part->part.absent.items[0], 2);
    cr_expect_eq(part->chunk_count, 1);
    cr_expect(fixture_logged(self, "client_reads"));
    fixture_destroy(&self);
}

Test(clients, read_rows_of_a_slot_by_its_name)
{
    static const char *const names[] = {"accumulator", "momentum"};
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *table = fixture_add_table(self, "users", 2);
    table->optimizer.kind = CADRE_OPTIMIZER_ADAGRAD;
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_message_t message = {.type = CADRE_MESSAGE_READ, .epoch = FIXTURE_EPOCH};
        message.read =
            (cadre_read_message_t){.variable = table->id, .rows = 1, .slot = names[1 - i]};
        cadre_message_add_chunk(&message, cadre_chunk_new_copy("01234567", 8));
        say(self, &client, 4, message);
    }
    const cadre_message_t *part = fixture_sent(self, &client, CADRE_MESSAGE_PART, 0);
    cr_assert_eq(part->part.status, (uint64_t)-CADRE_ENOTFOUND);
    cr_expect(strstr(part->part.text, "has no slot momentum, it has accumulator"), "%s",
              part->part.text);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 1);
    cr_expect_eq(fixture_sent(self, NULL, CADRE_MESSAGE_PULL, 0)->pull.slot, 1);
    fixture_destroy(&self);
}

Test(clients, that_name_other_rows_than_they_say_are_refused)
{
    static const struct {
        uint64_t rows;
        int chunks;
    } reads[] = {{1, 1}, {3, 1}, {2, 0}, {2, 2}};
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *table = fixture_add_table(self, "users", 2);
    for (size_t i = 0; i < CADRE_COUNT_OF(reads); i++) {
        read_keys(self, &client, table->id, reads[i].rows, reads[i].chunks);
        const cadre_message_t *part = fixture_sent(self, &client, CADRE_MESSAGE_PART, i);
        cr_assert_not_null(part);
        cr_expect_eq(-(int)part->part.status, CADRE_EMALFORMED, "%zu", i);
    }
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 0);
    fixture_destroy(&self);
}

/* The shard's answer to the PULL. */
static void
give_values(fixture_t *self, const cadre_message_t *pull)
{
    const uint64_t items[] = {9, 1};
    cadre_task_t ps = fixture_ps(0);
    cadre_message_t values = fixture_message(&ps, CADRE_MESSAGE_VALUES);
    values.request = pull->request;
    values.values.partitions = (cadre_u64s_t){items, 2};
    cadre_message_add_chunk(&values, cadre_chunk_new_copy("0123456789abcdef", 16));
    fixture_say(self, &ps, &values);
    fixture_turn(self);
}

Test(clients, read_a_partition_by_way_of_the_coordinator_one_at_a_time)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 4, 1);
    read_part(self, &client, 3, variable->id);
    read_part(self, &client, 4, variable->id); /* dropped beside the first */
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 1);

    beat(self, &client, 4, 0);
    const cadre_message_t *attached = fixture_sent(self, &client, CADRE_MESSAGE_ATTACHED, 1);
    cr_assert_eq(attached->attached.unknown.count, 1, "so the client asks again");
    beat(self, &client, 3, 0);
    attached = fixture_sent(self, &client, CADRE_MESSAGE_ATTACHED, 2);
    cr_assert_eq(attached->attached.unknown.count, 0, "this one is under way");

    give_values(self, fixture_sent(self, NULL, CADRE_MESSAGE_PULL, 0));
    const cadre_message_t *part = fixture_sent(self, &client, CADRE_MESSAGE_PART, 0);
    cr_assert_not_null(part);
    cr_expect_eq(part->request, 3);
    cr_expect_eq(part->part.version, 9);
    cr_expect_arr_eq(cadre_chunk_data(part->chunks[0]), "0123456789abcdef", 16);
    cr_expect(fixture_logged(self, "client_reads"));
    fixture_destroy(&self);
}

Test(clients, do_not_read_what_is_not_there_or_too_large)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *largest =
        fixture_add_variable(self, "largest", CADRE_CLIENT_READ_SIZE_MAX / 4, 1);
    cadre_variable_t *larger =
        fixture_add_variable(self, "larger", CADRE_CLIENT_READ_SIZE_MAX / 4 + 1, 1);
    read_part(self, &client, 3, 99);
    read_part(self, &client, 4, larger->id);
    cr_assert_eq(fixture_count(self, &client, CADRE_MESSAGE_PART), 2);
    cr_expect_eq(-(int)fixture_sent(self, &client, CADRE_MESSAGE_PART, 0)->part.status,
                 CADRE_ENOTFOUND);
    cr_expect_eq(-(int)fixture_sent(self, &client, CADRE_MESSAGE_PART, 1)->part.status,
                 CADRE_ETOOLARGE);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 0);
    read_part(self, &client, 5, largest->id);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 1);
    fixture_destroy(&self);
}

Test(clients, that_go_while_they_read_leave_nothing_for_the_answer_to_touch)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 4, 1);
    read_part(self, &client, 3, variable->id);
    say(self, &client, 0, (cadre_message_t){.type = CADRE_MESSAGE_GOODBYE, .epoch = FIXTURE_EPOCH});
    cr_assert_eq(self->core.clients.attached.count, 0);
    give_values(self, fixture_sent(self, NULL, CADRE_MESSAGE_PULL, 0));
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_PART), 0);
    fixture_destroy(&self);
}

/* --- closures --- */

Test(clients, may_not_schedule_unless_the_job_allows_it)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    self->core.options.client_closures = false;
    schedule(self, &client, 3, "work");
    cr_expect_eq(result_status(self, &client), CADRE_EREFUSED);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_expect(fixture_logged(self, "client_closure_refused"));

    /* the job would allow it now, but the client has been told */
    self->core.options.client_closures = true;
    fixture_clear(self);
    schedule(self, &client, 3, "work");
    cr_expect_eq(result_status(self, &client), CADRE_EREFUSED);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    fixture_destroy(&self);
}

Test(clients, schedule_once_however_often_they_say_it)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, &client, 3, "work");
    schedule(self, &client, 3, "work");
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    cr_expect(fixture_logged(self, "client_scheduled"));
    cr_expect_eq(self->core.totals.scheduled, 1);

    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(result_status(self, &client), 0);
    schedule(self, &client, 3, "work"); /* the answer was lost */
    cr_assert_eq(fixture_count(self, &client, CADRE_MESSAGE_RESULT), 2);

    beat(self, &client, 0, 4); /* the client has it */
    schedule(self, &client, 3, "work");
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_RESULT), 2, "a late repetition");
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    fixture_destroy(&self);
}

Test(clients, alone_are_told_that_their_closure_failed)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_task_t worker = fixture_worker(0);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    schedule(self, &client, 3, "work");
    fixture_failed(self, &worker, 1, 1, CADRE_FAILURE_USER, "the soup is cold");
    fixture_turn(self);
    cr_assert_eq(result_status(self, &client), CADRE_EFUNCTION);
    cr_expect(strstr(fixture_sent(self, &client, CADRE_MESSAGE_RESULT, 0)->result.text, "soup"));
    cr_expect_eq(cadre_closure_queue_raise(&self->core.queue, text), 0, "not the job");
    schedule(self, &client, 4, "work");
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 2, "and the next one runs");
    fixture_destroy(&self);
}

/* Its client heard that it has ended well, so nobody but the job's program can be told. */
Test(clients, leave_to_the_job_what_fails_when_it_runs_again)
{
    fixture_t *self = job(1);
    cadre_task_t client = client_task(0);
    cadre_task_t worker = fixture_worker(0);
    char text[CADRE_CLOSURE_ERROR_SIZE] = "";
    self->core.options.client_closures = true;
    fixture_function(self);
    attach(self, &client);
    schedule(self, &client, 3, "work");
    done(self, &worker, 1, 1, 2);
    cr_assert_eq(result_status(self, &client), 0);

    lose(self, 1);
    restore(self, 1);
    fixture_failed(self, &worker, 1, 2, CADRE_FAILURE_USER, "the soup is cold");
    fixture_turn(self);
    cr_assert(fixture_logged(self, "replay_failed"));
    cr_expect_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EFUNCTION);
    cr_expect(strstr(text, "soup"));
    fixture_destroy(&self);
}

Test(clients, get_an_error_for_what_the_job_has_not)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    schedule(self, &client, 3, "play");
    cr_expect_eq(result_status(self, &client), CADRE_ENOTFOUND);
    fixture_clear(self);

    cadre_message_t message = {.type = CADRE_MESSAGE_SCHEDULE, .epoch = FIXTURE_EPOCH};
    message.schedule.function = "work";
    message.schedule.dataset = "rows";
    message.schedule.count = 1;
    say(self, &client, 4, message);
    cr_expect_eq(result_status(self, &client), CADRE_ENOTFOUND);
    fixture_clear(self);

    const uint64_t items[] = {CADRE_F32, 0};
    const char *names[] = {"no name!"};
    message.schedule.dataset = "";
    message.schedule.names = (cadre_strs_t){names, 1};
    message.schedule.tensors = (cadre_u64s_t){items, 2};
    say(self, &client, 5, message); /* the bytes of the tensor are missing */
    cr_expect_eq(result_status(self, &client), CADRE_EMALFORMED);
    fixture_clear(self);

    cadre_message_add_chunk(&message, cadre_chunk_new_copy("abcd", 4));
    say(self, &client, 6, message);
    cr_expect_eq(result_status(self, &client), CADRE_EINVALID);
    fixture_destroy(&self);
}

Test(clients, have_as_many_closures_as_the_limit)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    for (uint64_t i = 0; i <= CADRE_CLIENT_REQUESTS_MAX; i++) {
        schedule(self, &client, 10 + i, "work");
    }
    cr_expect_eq(self->core.totals.scheduled, CADRE_CLIENT_REQUESTS_MAX);
    fixture_destroy(&self);
}

Test(clients, make_room_by_settling_what_has_ended)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_task_t worker = fixture_worker(0);
    for (uint64_t i = 0; i <= CADRE_CLIENT_REQUESTS_MAX; i++) {
        schedule(self, &client, 10 + i, "work");
        fixture_done(self, &worker, 1 + i, 1);
        fixture_turn(self);
        beat(self, &client, 0, 11 + i);
    }
    cr_expect_eq(self->core.totals.scheduled, CADRE_CLIENT_REQUESTS_MAX + 1);
    fixture_destroy(&self);
}

/* What waits ends, what runs is asked to stop, and nothing is kept. */
Test(clients, that_are_silent_for_a_lease_are_gone_with_their_closures)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_task_t worker = fixture_worker(0);
    for (uint64_t i = 0; i < 10; i++) {
        schedule(self, &client, 3 + i, "work");
    }
    cr_assert_gt(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);

    self->now_ms += LEASE_MS - 1;
    fixture_heartbeat(self, &worker, 1, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(self->core.clients.attached.count, 1);
    self->now_ms += 1;
    fixture_heartbeat(self, &worker, 2, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(self->core.clients.attached.count, 0);
    cr_expect(fixture_logged(self, "client_left"));
    fixture_turn(self);
    cr_expect_gt(fixture_count(self, &worker, CADRE_MESSAGE_CANCEL), 0);
    cr_expect_eq(cadre_closure_queue_waiting(&self->core.queue), 0);

    /* it comes too late: its numbers would not be recognised */
    fixture_clear(self);
    beat(self, &client, 0, 0);
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_UNKNOWN_PEER), 1);
    fixture_destroy(&self);
}

/* By an ATTACH that was on its way then: it precedes all that the client asks for. */
Test(clients, that_attach_again_after_they_were_lost_begin_with_nothing_and_stay_for_a_lease)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_task_t worker = fixture_worker(0);
    cadre_clients_lose(&self->core.clients, &client, "its connection has closed");
    cr_assert_eq(self->core.clients.attached.count, 0);
    attach(self, &client);
    cr_assert_eq(self->core.clients.attached.count, 1);
    schedule(self, &client, 3, "work");
    cr_expect_eq(self->core.totals.scheduled, 1);

    self->now_ms += LEASE_MS;
    fixture_heartbeat(self, &worker, 1, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_expect_eq(self->core.clients.attached.count, 0);
    fixture_destroy(&self);
}

Test(clients, are_not_blamed_for_a_stall_of_the_coordinator)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    self->now_ms += 10 * LEASE_MS;
    cadre_core_tick(&self->core, self->now_ms, false); /* it should have been called long ago */
    cr_expect_eq(self->core.clients.attached.count, 1);
    fixture_destroy(&self);
}

Test(clients, under_a_withdrawn_key_are_gone)
{
    fixture_t *self = fixture_new_cluster(1, 0);
    cadre_task_t task = client_task(0);
    cadre_message_t message = {
        .type = CADRE_MESSAGE_ATTACH, .incarnation = task.incarnation, .key = 77};
    message.attach.schema = cadre_message_schema_hash();
    message.attach.build = "";
    cadre_core_receive(&self->core, &task, &message, self->now_ms);
    cr_assert_eq(self->core.clients.attached.count, 1);
    uint64_t allowed[] = {99, 77};
    cadre_core_keys_withdrawn(&self->core, allowed, 2, self->now_ms);
    cr_assert_eq(self->core.clients.attached.count, 1);
    cadre_core_keys_withdrawn(&self->core, (uint64_t[]){99}, 1, self->now_ms);
    cr_expect_eq(self->core.clients.attached.count, 0);
    fixture_destroy(&self);
}

Test(clients, are_told_when_the_job_ends)
{
    cadre_task_t client;
    fixture_t *self = job_with_client(&client);
    cadre_core_stop(&self->core, "done");
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, &client, CADRE_MESSAGE_STOP), 1);
    cr_expect_eq(self->core.clients.attached.count, 0);
    fixture_destroy(&self);
}

/* --- jobs whose closures have an order --- */

/* A synchronous job with steps of two closures. */
static fixture_t *
synchronous_job(cadre_task_t *client)
{
    fixture_t *self = job_with_client(client);
    self->core.options.consistency = CADRE_SYNC;
    cadre_closure_queue_set_pace(&self->core.queue, CADRE_SYNC, 2, 0);
    return self;
}

static cadre_function_t *
add_function(fixture_t *self, const char *name, bool may_push)
{
    bool is_new = false;
    cadre_function_t like = {
        .kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t)name, .may_push = may_push};
    cadre_function_t *function = NULL;
    cr_assert_eq(cadre_catalogue_add_function(&self->core.catalogue, &like, &function, &is_new), 0);
    return function;
}

Test(clients, do_not_push_into_the_steps_of_a_synchronous_job)
{
    cadre_task_t client;
    fixture_t *self = synchronous_job(&client);
    add_function(self, "push", true);
    schedule(self, &client, 3, "push");
    cr_expect_eq(result_status(self, &client), CADRE_EREFUSED);
    cr_expect_eq(self->core.totals.scheduled, 0);

    schedule(self, &client, 4, "work");
    cr_expect_eq(self->core.totals.scheduled, 1, "what only reads has no place to lose");
    fixture_destroy(&self);
}

Test(clients, neither_close_nor_cut_short_a_step_of_the_job)
{
    cadre_task_t client;
    fixture_t *self = synchronous_job(&client);
    cadre_function_t *push = add_function(self, "push", true);
    cadre_closure_t *first = cadre_closure_new(push->id);
    first->may_push = true;
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, first), 0);
    uint64_t turn = first->turn;

    schedule(self, &client, 3, "work");
    say(self, &client, 0, (cadre_message_t){.type = CADRE_MESSAGE_GOODBYE, .epoch = FIXTURE_EPOCH});

    cadre_closure_t *second = cadre_closure_new(push->id);
    second->may_push = true;
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, second), 0);
    cr_expect_eq(second->turn, turn, "the step goes on as if there had been no client");
    cr_expect_eq(second->place, first->place + 1, "random numbers of the job follow from it");
    fixture_destroy(&self);
}
