#include "worker/worker_page.h"

#include "common/net/security.h"
#include "worker/core/worker_metrics.h"

void
cadre_worker_page_publish(cadre_worker_page_t *self, const cadre_worker_core_t *core, bool drains,
                          uint64_t now_ms)
{
    if (!self->http) {
        return;
    }

    cadre_http_server_turned(self->http, 0, (int64_t)now_ms);
    self->drained_ms = drains ? self->drained_ms : now_ms;
    const char *unready = cadre_worker_unready(core, now_ms);
    if (!cadre_http_server_is_due(self->http, unready, (int64_t)now_ms)) {
        return;
    }

    const cadre_worker_figures_t figures = {.drains = drains,
                                            .drain_ms = now_ms - self->drained_ms};
    cadre_metrics_text_t text = {.bytes = NULL};
    cadre_worker_metrics(core, &figures, now_ms, &text);
    cadre_metrics_text_transport(&text, "worker",
                                 cadre_security_transport(self->context, self->coordinator));
    cadre_metrics_text_keys(&text, "worker",
                            cadre_keyring_unreadable(cadre_context_keyring(self->context)));
    cadre_http_server_publish(self->http, &text, unready, (int64_t)now_ms);
}
