/* Stands in for http_server.c in a build without libmicrohttpd (CADRE_HTTP=OFF): opening a server
 * fails, and no other function is ever called with one. */
#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/http/http_server.h"

/* Fails: this build has no HTTP server. */
int
cadre_http_server_open(const char *address, const char *const *actors, size_t actor_count,
                       cadre_http_server_t **out)
{
    (void)actors;
    (void)actor_count;
    (void)out;
    return cadre_fail(CADRE_EUNAVAILABLE, "%s: this build has no HTTP server (CADRE_HTTP=OFF)",
                      address);
}

void
cadre_http_server_close(cadre_http_server_t **self_p)
{
    cadre_assert(!*self_p);
}

const char *
cadre_http_server_address(const cadre_http_server_t *self)
{
    cadre_assert(!self);
    return "";
}

/* Does nothing: without libmicrohttpd there is no server, and `self` is NULL. */
void
cadre_http_server_turned(cadre_http_server_t *self, size_t actor, int64_t now_ms)
{
    (void)actor;
    (void)now_ms;
    cadre_assert(!self);
}

/* Returns false: without libmicrohttpd there is no server, and `self` is NULL. */
bool
cadre_http_server_is_due(const cadre_http_server_t *self, const char *unready, int64_t now_ms)
{
    (void)unready;
    (void)now_ms;
    cadre_assert(!self);
    return false;
}

/* Frees the text: without libmicrohttpd there is no server, and `self` is NULL. */
void
cadre_http_server_publish(cadre_http_server_t *self, cadre_metrics_text_t *metrics,
                          const char *unready, int64_t now_ms)
{
    (void)unready;
    (void)now_ms;
    cadre_assert(!self);
    cadre_metrics_text_fini(metrics);
}
