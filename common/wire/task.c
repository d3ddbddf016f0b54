#include "common/wire/task.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/status.h"

bool
cadre_task_equal(const cadre_task_t *left, const cadre_task_t *right)
{
    return left->role == right->role && left->index == right->index &&
           left->incarnation == right->incarnation;
}

/* Appends text and returns the end. Written by hand, not with snprintf: the text of a task is made
 * for every message that is sent or received, and snprintf took most of that time. */
static char *
put_text(char *at, const char *text)
{
    while (*text) {
        *at++ = *text++;
    }
    return at;
}

/* Appends a number in decimal digits and returns the end. */
static char *
put_decimal(char *at, uint32_t number)
{
    char digits[10];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        *at++ = digits[--count];
    }
    return at;
}

static char *
put_hexadecimal(char *at, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[number >> shift & 0xf];
    }
    return at;
}

/* Writes a task's routing id, "worker/3/00009f0c2b1d4e55": role, index ("*": not chosen yet) and
 * incarnation; returns `text`. */
const char *
cadre_task_text(const cadre_task_t *self, char *text)
{
    const char *role = cadre_role_text(self->role);
    cadre_assert(strlen(role) + sizeof("/4294967295/0123456789abcdef") <= CADRE_TASK_TEXT_SIZE);
    char *at = put_text(text, role);
    *at++ = '/';
    at = self->index == CADRE_INDEX_ANY ? put_text(at, "*") : put_decimal(at, self->index);
    *at++ = '/';
    at = put_hexadecimal(at, self->incarnation);
    *at = '\0';
    return text;
}

/* Reads the name of a role, the first `length` characters of `text`; false for any other name. */
static bool
read_role(const char *text, size_t length, cadre_role_t *out)
{
    for (cadre_role_t role = CADRE_ROLE_COORDINATOR; role <= CADRE_ROLE_CLIENT; role++) {
        const char *name = cadre_role_text(role);
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            *out = role;
            return true;
        }
    }
    return false;
}

/* Reads a task. strtoull accepts signs, spaces, leading zeros and overflow; the caller refuses such
 * a text by writing the task again and comparing. */
static bool
read_text(const char *text, cadre_task_t *out)
{
    size_t length = strcspn(text, "/");
    if (text[length] != '/' || !read_role(text, length, &out->role)) {
        return false;
    }
    const char *index = text + length + 1;
    char *end = NULL;
    if (*index == '*') {
        out->index = CADRE_INDEX_ANY;
        end = (char *)index + 1;
    } else {
        out->index = (uint32_t)strtoull(index, &end, 10);
    }
    if (*end != '/') {
        return false;
    }
    out->incarnation = strtoull(end + 1, &end, 16);
    return *end == '\0';
}

/* Reads a routing id as cadre_task_text writes it, from bytes of unknown origin. The task is
 * written again and compared, so that no other spelling is accepted. */
int
cadre_task_parse(const void *bytes, size_t size_bytes, cadre_task_t *out)
{
    char text[CADRE_TASK_TEXT_SIZE] = "";
    char again[CADRE_TASK_TEXT_SIZE] = "";
    cadre_task_t task = {.role = CADRE_ROLE_COORDINATOR};
    bool fits = size_bytes > 0 && size_bytes < sizeof(text);
    if (fits) {
        memcpy(text, bytes, size_bytes);
    }
    if (!fits || !read_text(text, &task) || strcmp(cadre_task_text(&task, again), text) != 0 ||
        strlen(text) != size_bytes) {
        return cadre_fail(CADRE_EMALFORMED, "routing id: is not role/index/incarnation");
    }
    *out = task;
    return 0;
}
