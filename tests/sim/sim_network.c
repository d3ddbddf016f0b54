#include "tests/sim/sim_network.h"

#include <stdlib.h>
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { RANDOM_STREAM = 0x6e6574, RECONNECT_MS_MAX = 2000 };

uint64_t
sim_between(cadre_random_t *random, uint64_t low, uint64_t high)
{
    return low + cadre_random_below(random, high - low + 1);
}

bool
sim_chance(cadre_random_t *random, uint32_t chance)
{
    return chance > 0 && cadre_random_below(random, 10000) < chance;
}

void
sim_network_init(sim_network_t *self, uint64_t seed)
{
    *self = (sim_network_t){.now_ms = 1000};
    cadre_random_init(&self->random, seed, RANDOM_STREAM);
}

void
sim_network_fini(sim_network_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        cadre_outbox_entry_fini(&self->heap[i].entry);
    }
    free(self->heap);
    sim_links_fini(&self->links);
    sim_bytes_fini(&self->bytes);
    *self = (sim_network_t){0};
}

/* --- the queue: a binary heap --- */

static bool
before(const sim_event_t *left, const sim_event_t *right)
{
    return left->due_ms != right->due_ms ? left->due_ms < right->due_ms
                                         : left->sequence < right->sequence;
}

static void
swap(sim_event_t *left, sim_event_t *right)
{
    sim_event_t kept = *left;
    *left = *right;
    *right = kept;
}

/* Puts an event that has its place among those of its time into the heap. */
static void
insert(sim_network_t *self, const sim_event_t *event)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : 256;
        self->heap = cadre_realloc(self->heap, self->capacity, sizeof(*self->heap));
    }
    size_t at = self->count++;
    self->heap[at] = *event;
    while (at > 0 && before(&self->heap[at], &self->heap[(at - 1) / 2])) {
        swap(&self->heap[at], &self->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

/* Puts an event into the heap, behind all others of its time. */
static void
push(sim_network_t *self, sim_event_t *event)
{
    event->sequence = ++self->sequence;
    insert(self, event);
}

static void
pop(sim_network_t *self, sim_event_t *event)
{
    *event = self->heap[0];
    self->heap[0] = self->heap[--self->count];
    for (size_t at = 0, child = 1; child < self->count; at = child, child = 2 * at + 1) {
        if (child + 1 < self->count && before(&self->heap[child + 1], &self->heap[child])) {
            child++;
        }
        if (!before(&self->heap[child], &self->heap[at])) {
            return;
        }
        swap(&self->heap[child], &self->heap[at]);
    }
}

void
sim_network_at(sim_network_t *self, uint64_t delay_ms, sim_event_kind_t kind, uint32_t node,
               uint64_t value)
{
    sim_event_t event = {
        .due_ms = self->now_ms + delay_ms, .kind = kind, .node = node, .value = value};
    push(self, &event);
}

void
sim_network_at_from(sim_network_t *self, uint64_t delay_ms, sim_event_kind_t kind, uint32_t node,
                    uint32_t from)
{
    sim_event_t event = {
        .due_ms = self->now_ms + delay_ms, .kind = kind, .node = node, .from = from};
    push(self, &event);
}

void
sim_network_put(sim_network_t *self, const sim_event_t *event)
{
    sim_event_t copy = *event;
    push(self, &copy);
}

void
sim_network_postpone(sim_network_t *self, sim_event_t *event, uint64_t due_ms)
{
    event->due_ms = due_ms;
    event->has_come = true;
    self->unread[event->node] += event->kind == SIM_MESSAGE;
    insert(self, event); /* of one connection the first stays the first, whenever each has come */
}

void
sim_network_lose_unread(sim_network_t *self, uint32_t node)
{
    const size_t count = self->count;
    self->count = 0;
    for (size_t i = 0; i < count; i++) {
        sim_event_t event = self->heap[i];
        if (event.kind == SIM_MESSAGE && event.has_come && event.node == node) {
            cadre_outbox_entry_fini(&event.entry);
            self->unread[node]--;
        } else {
            insert(self, &event); /* its place is none of those that were not looked at */
        }
    }
}

/* --- messages --- */

/* The link from one node to another, with the bandwidth that it has by its seed. */
static sim_link_t *
link_of(sim_network_t *self, uint32_t from, uint32_t to)
{
    bool made = false;
    sim_link_t *link = sim_links_get(&self->links, from, to, &made);
    if (made) {
        for (int i = CADRE_PLANE_CONTROL; i < SIM_PLANES; i++) {
            link->lanes[i].bytes_per_s = self->bandwidth.bytes_per_s[i];
        }
    }
    return link;
}

static bool
is_cut(sim_network_t *self, uint32_t from, uint32_t to)
{
    return sim_link_is_cut(link_of(self, from, to), self->now_ms);
}

static uint64_t
size_bytes_of(const cadre_outbox_entry_t *entry)
{
    uint64_t size_bytes = cadre_chunk_size_bytes(entry->header);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(entry->chunks[i]);
    }
    return size_bytes;
}

static uint64_t
payload_hash(const cadre_outbox_entry_t *entry)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < entry->chunk_count; i++) {
        hash = XXH3_64bits_withSeed(cadre_chunk_data(entry->chunks[i]),
                                    cadre_chunk_size_bytes(entry->chunks[i]), hash);
    }
    return hash;
}

/* Another entry with the same content. */
static cadre_outbox_entry_t
copy_of(const cadre_outbox_entry_t *entry)
{
    cadre_outbox_t copies = {0};
    cadre_outbox_entry_t copy = {0};
    cadre_outbox_repeat(&copies, entry);
    cadre_outbox_pop(&copies, &copy);
    cadre_outbox_fini(&copies);
    return copy;
}

/* One connection keeps the order, and of these that is what the protocol needs: a worker that is
 * told of a restore knows the closures that came before as older. */
static bool
keeps_its_place(const sim_event_t *event)
{
    cadre_message_type_t type = event->entry.type;
    return type == CADRE_MESSAGE_CLOSURE || type == CADRE_MESSAGE_SHARD ||
           type == CADRE_MESSAGE_WELCOME || event->sender.role == CADRE_ROLE_CLIENT ||
           event->entry.destination.role == CADRE_ROLE_CLIENT;
}

/* A message that comes late, twice or as a ghost: whoever waits for an answer may ask again. */
static void
excuse(sim_network_t *self, const sim_event_t *event, uint64_t until_ms)
{
    uint64_t *disturbed_ms = &link_of(self, event->from, event->node)->disturbed_ms;
    *disturbed_ms = until_ms > *disturbed_ms ? until_ms : *disturbed_ms;
}

/* Takes the entry of `event`, whose due_ms says how much later than usual it comes. */
static void
deliver(sim_network_t *self, sim_event_t *event)
{
    uint64_t due_ms =
        self->now_ms + cadre_random_below(&self->random, 1 + self->weather.delay_ms_max);
    if (event->due_ms > 0) {
        due_ms += event->due_ms;
    } else if (!keeps_its_place(event) && sim_chance(&self->random, self->weather.late)) {
        due_ms += cadre_random_below(&self->random, 1 + self->weather.late_ms_max);
        excuse(self, event, due_ms);
    } else {
        sim_link_t *link = link_of(self, event->from, event->node);
        uint64_t *last_ms = &link->lanes[event->entry.plane].last_ms;
        due_ms +=
            sim_link_leave_ms(link, event->entry.plane, size_bytes_of(&event->entry), self->now_ms);
        due_ms = due_ms > *last_ms ? due_ms : *last_ms;
        *last_ms = due_ms;
    }
    event->due_ms = due_ms;
    push(self, event);
}

/* Control messages of the coordinator to one node: true when their connection is broken. */
static bool
is_broken(const sim_network_t *self, const sim_event_t *event)
{
    return event->from == 0 && event->entry.plane == CADRE_PLANE_CONTROL &&
           self->broken[event->node];
}

/* Takes the entry of a message that is lost. */
static void
lose(sim_network_t *self, sim_event_t *event)
{
    self->dropped++;
    excuse(self, event, self->now_ms);
    if (event->entry.type == CADRE_MESSAGE_SHARD && !self->broken[event->node]) {
        self->broken[event->node] = true;
        sim_network_at(self, cadre_random_below(&self->random, RECONNECT_MS_MAX), SIM_CONNECTED,
                       event->node, 0);
    }
    cadre_outbox_entry_fini(&event->entry);
}

void
sim_network_disturb(sim_network_t *self, uint32_t node, uint64_t until_ms)
{
    uint64_t *disturbed_ms = &self->disturbed_ms[node];
    *disturbed_ms = until_ms > *disturbed_ms ? until_ms : *disturbed_ms;
}

/* Until when something has been wrong between two nodes. */
static uint64_t
disturbed_ms(sim_network_t *self, uint32_t from, uint32_t to)
{
    const uint64_t times[] = {link_of(self, from, to)->disturbed_ms,
                              link_of(self, to, from)->disturbed_ms, self->disturbed_ms[from],
                              self->disturbed_ms[to]};
    uint64_t last = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(times); i++) {
        last = times[i] > last ? times[i] : last;
    }
    return last;
}

void
sim_network_send(sim_network_t *self, const cadre_task_t *sender, uint32_t from, uint32_t to,
                 cadre_outbox_entry_t *entry)
{
    self->sent++;
    sim_event_t event = {.kind = SIM_MESSAGE,
                         .node = to,
                         .from = from,
                         .sender = *sender,
                         .entry = *entry,
                         .payload_hash = payload_hash(entry)};
    *entry = (cadre_outbox_entry_t){0};
    if (event.entry.type == CADRE_MESSAGE_WELCOME &&
        event.entry.destination.role == CADRE_ROLE_PS) {
        excuse(self, &event, self->now_ms); /* a ps drops what comes before it */
    }
    sim_bytes_count(&self->bytes, link_of(self, from, to), &event.entry, self->now_ms,
                    disturbed_ms(self, from, to));
    if (is_broken(self, &event) || is_cut(self, from, to) ||
        sim_chance(&self->random, self->weather.drop)) {
        lose(self, &event);
        return;
    }
    if (sim_chance(&self->random, self->weather.twice)) {
        self->doubled++;
        sim_event_t again = event;
        again.entry = copy_of(&event.entry);
        deliver(self, &again);
        excuse(self, &event, again.due_ms);
    }
    if (!keeps_its_place(&event) && sim_chance(&self->random, self->weather.ghost)) {
        sim_event_t ghost = event;
        ghost.entry = copy_of(&event.entry);
        ghost.due_ms = 1 + cadre_random_below(&self->random, self->weather.ghost_ms_max);
        deliver(self, &ghost);
        excuse(self, &event, ghost.due_ms);
    }
    deliver(self, &event);
}

static void
trace(sim_network_t *self, const sim_event_t *event)
{
    uint64_t facts[] = {
        event->due_ms, event->kind, event->node, event->from, event->value, event->payload_hash, 0};
    if (event->entry.header) {
        facts[6] = XXH3_64bits(cadre_chunk_data(event->entry.header),
                               cadre_chunk_size_bytes(event->entry.header));
    }
    self->trace = XXH3_64bits_withSeed(facts, sizeof(facts), self->trace);
}

bool
sim_network_next(sim_network_t *self, sim_event_t *event)
{
    while (self->count > 0) {
        pop(self, event);
        cadre_assert(event->due_ms >= self->now_ms);
        self->now_ms = event->due_ms;
        bool arrives = event->kind == SIM_MESSAGE && !event->has_come;
        if (arrives && is_cut(self, event->from, event->node)) {
            lose(self, event);
            continue;
        }
        self->unread[event->node] -= event->kind == SIM_MESSAGE && event->has_come;
        if (event->kind == SIM_CONNECTED) {
            self->broken[event->node] = false;
            sim_network_disturb(self, event->node, self->now_ms);
        }
        self->events++;
        trace(self, event);
        return true;
    }
    return false;
}

bool
sim_network_intact(const sim_event_t *event)
{
    return event->payload_hash == payload_hash(&event->entry);
}

void
sim_network_cut(sim_network_t *self, const sim_cut_t *cut)
{
    link_of(self, cut->from, cut->to);
    sim_links_cut(&self->links, cut);
}

void
sim_network_calm(sim_network_t *self)
{
    sim_links_heal(&self->links);
    self->weather = (sim_weather_t){.delay_ms_max = self->weather.delay_ms_max};
}
