#include "tests/sim/sim_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/tensor_list.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_values.h"

enum {
    RANDOM_STREAM = 0x636c69,
    LIFE_MS_MAX = 20000,
    WISHES_EVER_MAX = 12,
    ANSWER_MS_MAX = 120000, /* that an answer takes in calm */
};

static cadre_core_t *
core_of(const sim_client_t *self)
{
    return &self->cluster->coordinator->core;
}

static uint64_t
draw(sim_client_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

void
sim_client_start(sim_client_t *self, uint32_t number)
{
    const uint64_t now_ms = self->cluster->network.now_ms;
    cadre_random_init(&self->random, self->cluster->seed, RANDOM_STREAM + ((uint64_t)number << 32));
    cadre_attachment_init(&self->attachment, &self->task, now_ms);
    self->alive = true;
    self->left = (uint32_t)draw(self, 0, WISHES_EVER_MAX);
    self->end_ms = now_ms + draw(self, 1, LIFE_MS_MAX);
    self->end = (sim_client_end_t)draw(self, 0, SIM_CLIENT_FREEZES);
    self->tick_due_ms = UINT64_MAX;
}

/* Gives a wish up. */
static void
drop_wish(sim_client_t *self, uint32_t at)
{
    cadre_attachment_forget(&self->attachment, &self->wishes[at]->request);
    free(self->wishes[at]);
    self->wishes[at] = self->wishes[--self->wish_count];
}

void
sim_client_stop(sim_client_t *self)
{
    while (self->wish_count > 0) {
        drop_wish(self, self->wish_count - 1);
    }
    cadre_outbox_fini(&self->outbox);
    self->alive = false;
}

/* --- asking --- */

/* Asks for what the message says, whose chunks move. */
static void
ask(sim_client_t *self, cadre_message_t *message, const sim_wish_t *like)
{
    sim_wish_t *wish = cadre_calloc(1, sizeof(*wish));
    *wish = *like;
    wish->asked_ms = self->cluster->network.now_ms;
    if (cadre_attachment_ask(&self->attachment, message, &wish->request) < 0) {
        sim_check_fail(&self->cluster->check, "a client: %s", cadre_error_text());
    }
    self->wishes[self->wish_count++] = wish;
}

static void
ask_for_closure(sim_client_t *self)
{
    char name[16];
    char function[16];
    const char *names[] = {name};
    sim_call_t *call = sim_call_new_of_client(&self->random, &self->cluster->script.plan,
                                              &self->cluster->check, self->task.incarnation);
    int64_t number = call->index;
    cadre_tensor_t tensor = {.dtype = CADRE_I64, .data = &number};
    cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t list = {.count = 0};
    if (cadre_tensor_list_encode(&tensor, 1, CADRE_CLIENT_ARGUMENTS_SIZE_MAX, &list) < 0) {
        sim_check_fail(&self->cluster->check, "a client: %s", cadre_error_text());
    }
    snprintf(name, sizeof(name), "%u", call->index);
    call->function = (uint32_t)draw(self, 1, SIM_FUNCTIONS);
    snprintf(function, sizeof(function), "f%u", call->function - 1);
    cadre_message_t message = {.type = CADRE_MESSAGE_SCHEDULE,
                               .schedule = {.function = function,
                                            .dataset = "",
                                            .names = {names, 1},
                                            .tensors = cadre_tensor_list_items(&list),
                                            .steps = call->reserved,
                                            .deadline_ms = call->deadline_ms}};
    cadre_tensor_list_add_chunks(&list, &message);
    ask(self, &message, &(sim_wish_t){.call = call});
    cadre_message_fini(&message);
}

static void
ask_for_values(sim_client_t *self)
{
    const sim_check_t *check = &self->cluster->check;
    const uint32_t at = (uint32_t)draw(self, 0, check->variable_count - 1);
    const uint32_t part = (uint32_t)draw(self, 0, check->variables[at].part_count - 1);
    cadre_message_t message = {.type = CADRE_MESSAGE_READ,
                               .read = {.variable = at + 1, .partition = part, .slot = ""}};
    ask(self, &message, &(sim_wish_t){.variable = at, .partition = part});
    cadre_message_fini(&message);
}

/* --- answers --- */

/* Its closure has ended as it did, or was refused where clients may not push. */
static void
check_result(sim_client_t *self, const sim_call_t *call, const cadre_message_t *answer)
{
    sim_check_t *check = &self->cluster->check;
    const int status = -(int)answer->result.status;
    const bool may_push = core_of(self)->options.consistency == CADRE_ASYNC;
    if (answer->type != CADRE_MESSAGE_RESULT) {
        sim_check_fail(check, "a client has %s as the result of call %u",
                       cadre_message_type_text(answer->type), call->index);
    }
    if (!call->scheduled && status == CADRE_EREFUSED && !may_push) {
        return;
    }
    if (!call->scheduled || !call->ended || status != call->status ||
        answer->result.closure != call->id) {
        sim_check_fail(
            check, "a client hears that call %u, closure %" PRIu64 " has ended as %s; it %s %s",
            call->index, answer->result.closure, cadre_status_name(status),
            call->ended ? "ended as" : "has not ended:", cadre_status_name(call->status));
    }
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    if (status == 0 &&
        (cadre_tensor_list_decode(answer->result.tensors, answer, CADRE_CLIENT_RESULTS_SIZE_MAX,
                                  &tensors, &count) < 0 ||
         count != 1 || sim_value_stamp(check, call, &tensors[0]) != call->stamp)) {
        sim_check_fail(check, "a client has other results of call %u", call->index);
    }
    cadre_tensors_fini(&tensors, count);
}

/* A partition as of a version that its shard had; a table, and what is not there, is refused. */
static void
check_values(sim_client_t *self, const sim_wish_t *wish, const cadre_message_t *answer)
{
    sim_check_t *check = &self->cluster->check;
    const sim_variable_t *variable = &check->variables[wish->variable];
    const int status = -(int)answer->part.status;
    const bool may_lack = variable->was_dropped || variable->given_up ||
                          !(sim_check_usable(check) >> wish->variable & 1);
    if (answer->type != CADRE_MESSAGE_PART || (status == 0 && variable->dim > 0) ||
        (status < 0 && variable->dim == 0 && !may_lack)) {
        sim_check_fail(check, "a client that reads %s has %s, %s: %s", variable->name,
                       cadre_message_type_text(answer->type), cadre_status_name(status),
                       status < 0 ? answer->part.text : "");
    }
    if (status == 0) {
        sim_check_part_read(check, self->attachment.epoch,
                            &(sim_pulled_t){.variable = variable,
                                            .part = wish->partition,
                                            .version = answer->part.version,
                                            .chunks = answer->chunks,
                                            .chunk_count = answer->chunk_count});
    }
}

/* Looks at the answers of this session that have come. */
static void
take_answers(sim_client_t *self)
{
    for (uint32_t i = self->wish_count; i > 0; i--) {
        sim_wish_t *wish = self->wishes[i - 1];
        const bool is_answered = wish->request.ended && wish->request.status == 0;
        const bool counts =
            is_answered && self->attachment.epoch == sim_check_life(&self->cluster->check)->epoch;
        if (counts && wish->call) {
            check_result(self, wish->call, &wish->request.answer);
        } else if (counts) {
            check_values(self, wish, &wish->request.answer);
        }
        if (wish->request.ended) {
            drop_wish(self, i - 1);
        }
    }
}

/* Once nothing goes wrong any more every wish is answered. */
static void
check_patience(const sim_client_t *self)
{
    const sim_cluster_t *cluster = self->cluster;
    for (uint32_t i = 0; cluster->calm && i < self->wish_count; i++) {
        uint64_t since_ms = self->wishes[i]->asked_ms;
        since_ms = since_ms > cluster->calm_ms ? since_ms : cluster->calm_ms;
        if (cluster->network.now_ms > since_ms + ANSWER_MS_MAX) {
            sim_check_fail(&cluster->check, "I6: a client has no answer to its request %" PRIu64,
                           self->wishes[i]->request.number);
        }
    }
}

/* --- turns --- */

static bool
is_over(const sim_client_t *self)
{
    return self->cluster->network.now_ms >= self->end_ms || self->cluster->calm ||
           self->attachment.state == CADRE_ATTACHMENT_ENDED;
}

/* Goes, where it is time; true when it has gone. */
static bool
go(sim_client_t *self)
{
    if (!is_over(self)) {
        return false;
    }
    if (self->end == SIM_CLIENT_FREEZES && self->paused_ms == 0) {
        const uint64_t ms = self->cluster->lease_ms * 2;
        self->paused_ms = self->cluster->network.now_ms + ms;
        sim_network_at(&self->cluster->network, ms, SIM_TICK, self->node, 0);
        return false;
    }
    if (self->attachment.state != CADRE_ATTACHMENT_ENDED && self->end == SIM_CLIENT_WAITS &&
        self->wish_count > 0) {
        return false;
    }
    if (self->end != SIM_CLIENT_VANISHES) {
        cadre_attachment_leave(&self->attachment, &self->outbox);
    }
    self->alive = false;
    return true;
}

/* Asks for something, sometimes, while it is attached. */
static void
ask_sometimes(sim_client_t *self)
{
    const sim_check_t *check = &self->cluster->check;
    const bool stands = self->attachment.state == CADRE_ATTACHMENT_STANDS &&
                        self->attachment.epoch == self->cluster->coordinator->options.epoch;
    while (stands && !is_over(self) && self->left > 0 && self->wish_count < SIM_WISHES_MAX &&
           sim_chance(&self->random, 4000)) {
        self->left--;
        if (check->variable_count > 0 && sim_chance(&self->random, 4000)) {
            ask_for_values(self);
        } else {
            ask_for_closure(self);
        }
    }
}

void
sim_client_receive(sim_client_t *self, cadre_message_t *message)
{
    cadre_attachment_receive(&self->attachment, message, self->cluster->network.now_ms);
    cadre_message_fini(message);
}

void
sim_client_turn(sim_client_t *self)
{
    const uint64_t now_ms = self->cluster->network.now_ms;
    take_answers(self);
    check_patience(self);
    ask_sometimes(self);
    if (go(self)) {
        return;
    }
    const uint64_t due_ms = cadre_attachment_tick(&self->attachment, now_ms, &self->outbox);
    if (due_ms < self->tick_due_ms || self->tick_due_ms <= now_ms) {
        self->tick_due_ms = due_ms;
        if (due_ms != UINT64_MAX) {
            sim_network_at(&self->cluster->network, due_ms > now_ms ? due_ms - now_ms : 1, SIM_TICK,
                           self->node, 0);
        }
    }
}

/* --- the coordinator's side --- */

const sim_call_t *
sim_client_call_of(struct sim_cluster *cluster, const cadre_message_t *message)
{
    const sim_check_t *check = &cluster->check;
    const cadre_strs_t *names = &message->schedule.names;
    const uint32_t index = names->count > 0 ? (uint32_t)strtoul(names->items[0], NULL, 10) : 0;
    if (names->count == 0 || index >= check->call_count) {
        sim_check_fail(check, "SCHEDULE of a client is of no call of ours");
    }
    return check->calls[index];
}

void
sim_client_scheduled(struct sim_cluster *cluster, const cadre_task_t *client, uint64_t request,
                     const sim_call_t *called)
{
    sim_check_t *check = &cluster->check;
    cadre_core_t *core = &cluster->coordinator->core;
    sim_call_t *call = check->calls[called->index];
    cadre_attached_t *attached = cadre_u64_map_get(&core->clients.attached, client->incarnation);
    cadre_client_entry_t *entry =
        attached ? cadre_client_closures_find(&attached->closures, request) : NULL;
    if (!entry || !entry->results) {
        return;
    }
    if (call->scheduled && entry->results->future != call) {
        sim_check_fail(check, "I1: a client's call %u is scheduled twice", call->index);
    }
    if (call->scheduled) {
        return;
    }
    cadre_results_set_future(entry->results, call);
    call->scheduled = true;
    call->function += core->catalogue.function_count - SIM_FUNCTIONS; /* the newest of its name */
    sim_check_life(check)->scheduled++;
    for (uint32_t i = 0; i < check->variable_count; i++) {
        call->dropped |= check->variables[i].dropped ? 1U << i : 0;
    }
}
