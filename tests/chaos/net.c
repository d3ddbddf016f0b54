#include "tests/chaos/net.h"

#include <stdio.h>
#include <unistd.h>

#include "common/base/memory.h"

static void
prepare(void *context, field_role_t role, int index, field_start_t *start)
{
    net_t *self = context;
    if (role != FIELD_JOB) {
        start->coordinator = self->dialled[role][index];
    }
    if (self->prepare) {
        self->prepare(self, role, index, start);
    }
}

static bool
is_there(field_t *field, void *context)
{
    (void)field;
    return access(context, F_OK) == 0;
}

/* Starts a ps and puts the proxy in front of it. */
static void
start_ps(net_t *self, int index)
{
    char bound[CADRE_ENDPOINT_TEXT_SIZE];
    const char *folder = self->field.scratch.path;
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s/ps-%d", folder, index);
    cadre_auto(cadre_free) char *aside = cadre_asprintf("%s.aside", place);
    cadre_auto(cadre_free) char *from = cadre_asprintf("ipc://%s", place);
    cadre_auto(cadre_free) char *to = cadre_asprintf("ipc://%s", aside);
    field_start(&self->field, FIELD_PS, index);
    field_await(&self->field, "the socket of a ps", is_there, place);
    require(rename(place, aside) == 0, place);
    self->to_ps[index] = proxy_link(self->proxy, from, to, bound);
}

void
net_open(net_t *self, const field_options_t *options)
{
    *self = (net_t){.proxy = proxy_open(), .prepare = options->prepare};
    field_options_t own = *options;
    own.prepare = prepare;
    own.context = self;
    field_prepare(&self->field, &own);
    for (int role = FIELD_PS; role < FIELD_ROLE_COUNT; role++) {
        for (int i = 0; i < field_count(&self->field, (field_role_t)role); i++) {
            self->to_coordinator[role][i] =
                proxy_link(self->proxy, "tcp://127.0.0.1:*", self->field.board->address,
                           self->dialled[role][i]);
        }
    }
    for (int i = 0; i < field_count(&self->field, FIELD_PS); i++) {
        start_ps(self, i);
    }
    field_start(&self->field, FIELD_JOB, 0);
    for (int i = 0; i < field_count(&self->field, FIELD_WORKER); i++) {
        field_start(&self->field, FIELD_WORKER, i);
    }
    field_await_whole(&self->field);
    field_await_progress(&self->field, 1);
}

void
net_close(net_t *self, board_t *last)
{
    field_close(&self->field, last);
    proxy_close(&self->proxy);
}
