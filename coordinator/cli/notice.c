#include "coordinator/cli/notice.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/status.h"

int
cadre_notice_channel(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        return cadre_fail(CADRE_EIO, "socketpair: %s", strerror(errno));
    }
    return 0;
}

void
cadre_notice_send(int end, const cadre_notice_t *notice, bool wait)
{
    size_t size_bytes =
        offsetof(cadre_notice_t, text) + strnlen(notice->text, CADRE_NOTICE_TEXT_SIZE - 1) + 1;
    int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
    while (send(end, notice, size_bytes, flags) < 0 && errno == EINTR) {
    }
}

void
cadre_notice_say(int end, cadre_notice_kind_t kind, const char *format, ...)
{
    cadre_notice_t notice = {.kind = kind, .level = 'I'};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notice.text, sizeof(notice.text), format, arguments);
    va_end(arguments);
    cadre_notice_send(end, &notice, true);
}

void
cadre_notice_log(void *end, char level, const char *event, const char *pairs)
{
    cadre_notice_t notice = {.kind = CADRE_NOTICE_LOG, .level = level};
    snprintf(notice.event, sizeof(notice.event), "%s", event);
    snprintf(notice.text, sizeof(notice.text), "%s", pairs);
    cadre_notice_send(*(const int *)end, &notice, false);
}

void
cadre_notice_begin_wait(int end, int64_t limit_ms, const char *what)
{
    cadre_notice_t notice = {.kind = CADRE_NOTICE_WAIT, .limit_ms = limit_ms};
    snprintf(notice.text, sizeof(notice.text), "%s", what);
    cadre_notice_send(end, &notice, true);
}

void
cadre_notice_end_wait(int end)
{
    cadre_notice_say(end, CADRE_NOTICE_WAITED, "%s", "");
}

bool
cadre_notice_receive(int end, cadre_notice_t *notice)
{
    *notice = (cadre_notice_t){0};
    ssize_t size_bytes = recv(end, notice, sizeof(*notice), MSG_DONTWAIT);
    return size_bytes > (ssize_t)offsetof(cadre_notice_t, text);
}
