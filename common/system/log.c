#include "common/system/log.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/system/log_line.h"

/* Written by cadre_log_setup before there are threads, read-only afterwards. */
static struct {
    cadre_log_options_t options;
    char task[CADRE_LOG_TASK_SIZE];
    atomic_uint_least64_t place; /* the task's index plus 1; 0: it has no index */
} settings;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* Sets the process's log; called before any thread that logs is started. */
void
cadre_log_setup(const cadre_log_options_t *options)
{
    settings.options = *options;
    snprintf(settings.task, sizeof(settings.task), "%s", options->task ? options->task : "cadre");
    settings.options.task = settings.task;
    atomic_store(&settings.place, 0);
}

void
cadre_log_set_index(uint32_t index)
{
    atomic_store(&settings.place, (uint64_t)index + 1);
}

/* Begins a line with the level, the task's name (with its index, if it has one) and the event. */
static void
begin_line(cadre_log_line_t *line, cadre_log_level_t level, const char *event)
{
    char task[CADRE_LOG_TASK_SIZE + 12];
    uint64_t place = atomic_load_explicit(&settings.place, memory_order_relaxed);
    if (place > 0) {
        snprintf(task, sizeof(task), "%s/%" PRIu64, settings.task, place - 1);
    } else {
        snprintf(task, sizeof(task), "%s", settings.task);
    }
    cadre_log_line_begin(line, settings.options.style, level, task, event);
}

/* --- stderr --- */

/* The lock is held while a line is written, so that no other thread takes the room that was found
 * for it. lost_lines counts the lines that were dropped because nobody read the pipe. */
static pthread_mutex_t stderr_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long lost_lines;

/* Returns whether stderr takes a line without blocking, after at most `timeout_ms`: always if it is
 * a file; a pipe when it has a page free, which no line exceeds. */
static bool
has_room(int timeout_ms)
{
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&to, 1, timeout_ms) != 0;
}

/* Writes a line by one write(2), so that lines of several processes do not mix on a pipe or a
 * terminal. Ignores failures, of which nobody could be told. */
static void
write_bytes(const char *line, size_t size_bytes)
{
    ssize_t written = write(STDERR_FILENO, line, size_bytes);
    (void)written;
}

/* Writes a line that says how many lines were lost, and counts from 0 again. Called under the lock.
 */
static void
tell_lost(void)
{
    char count[24];
    cadre_log_line_t line;
    snprintf(count, sizeof(count), "%llu", lost_lines);
    begin_line(&line, CADRE_LOG_WARN, "log_lines_lost");
    cadre_log_line_add(&line, "count", strlen("count"), count, true);
    cadre_log_line_end(&line);
    write_bytes(line.bytes, line.size);
    lost_lines = 0;
}

/* Writes a line to stderr. If the reader of a pipe does not read, waits at most CADRE_LOG_STALL_MS,
 * so that it cannot stop threads that log; then lines are dropped and counted until there is
 * room again. */
static void
write_stderr(void *owner, cadre_log_level_t level, const char *line, size_t size_bytes)
{
    (void)owner;
    (void)level;
    pthread_mutex_lock(&stderr_lock);
    /* Once a line was lost, no thread waits again until the pipe has room. */
    bool room = has_room(lost_lines == 0 ? CADRE_LOG_STALL_MS : 0);
    if (room && lost_lines > 0) {
        tell_lost();
        room = has_room(0);
    }

    if (room) {
        write_bytes(line, size_bytes);
    } else {
        lost_lines++;
    }

    pthread_mutex_unlock(&stderr_lock);
}

/* Sets the log of a command: to stderr, as text for a terminal, else as JSON lines. */
void
cadre_log_setup_stderr(cadre_log_level_t level, const char *task)
{
    cadre_log_setup(&(cadre_log_options_t){
        .level = level,
        .style = isatty(STDERR_FILENO) ? CADRE_LOG_TEXT : CADRE_LOG_JSON,
        .task = task,
        .write = write_stderr,
    });
}

/* Converts "debug", "info", "warn" or "error" to a level; CADRE_EINVALID for any other text. */
int
cadre_log_level_parse(const char *text, cadre_log_level_t *level)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (cadre_log_level_t)i;
            return 0;
        }
    }
    return cadre_fail(CADRE_EINVALID, "log level '%.40s' is none of debug, info, warn, error",
                      text);
}

/* Returns the level for its letter; any unknown letter means an error. */
cadre_log_level_t
cadre_log_level_of(char letter)
{
    switch (letter) {
    case 'D':
        return CADRE_LOG_DEBUG;
    case 'I':
        return CADRE_LOG_INFO;
    case 'W':
        return CADRE_LOG_WARN;
    default:
        return CADRE_LOG_ERROR;
    }
}

static bool
is_enabled(cadre_log_level_t level)
{
    return settings.options.write && level >= settings.options.level;
}

/* --- one conversion of the format --- */

enum { SPEC_SIZE = 32 };

/* How far a format has been read, and its arguments from there on. */
typedef struct {
    const char *at;
    va_list arguments;
} walk_t;

typedef struct {
    char spec[SPEC_SIZE]; /* "%-8.3f", every * replaced by its number, length modifier left out */
    size_t size;
    char length[3]; /* "", "hh", "h", "l", "ll", "z", "j", "t" */
    char conversion;
} conversion_t;

/* Appends text to the conversion's own format, such as "%-8". */
static void
put_spec(conversion_t *conversion, const char *text, size_t size)
{
    cadre_assert(conversion->size + size < sizeof(conversion->spec));
    memcpy(conversion->spec + conversion->size, text, size);
    conversion->size += size;
    conversion->spec[conversion->size] = '\0';
}

/* Reads one conversion of the format, from '%' to its last character, such as "%-8.*f": takes the
 * arguments of '*', and leaves the length modifier out of the conversion's own format. */
static conversion_t
parse_conversion(walk_t *walk)
{
    conversion_t parsed = {0};
    put_spec(&parsed, walk->at++, 1);
    while (*walk->at && strchr("-+ #0123456789.*", *walk->at)) {
        if (*walk->at == '*') {
            char number[16];
            int given = va_arg(walk->arguments, int);
            bool precision = walk->at[-1] == '.';
            int length = snprintf(number, sizeof(number), "%d", precision && given < 0 ? 0 : given);
            put_spec(&parsed, number, (size_t)length);
        } else {
            put_spec(&parsed, walk->at, 1);
        }
        walk->at++;
    }

    for (size_t i = 0; *walk->at && strchr("hlzjt", *walk->at); i++) {
        cadre_assert(i < sizeof(parsed.length) - 1);
        parsed.length[i] = *walk->at++;
    }

    parsed.conversion = *walk->at;
    cadre_assert(parsed.conversion != '\0');
    walk->at++;
    return parsed;
}

/* Takes the next argument as a signed integer, of the type that the length modifier names. */
static intmax_t
next_signed(walk_t *walk, const char *length)
{
    switch (length[0]) {
    case 'l':
        return length[1] ? va_arg(walk->arguments, long long) : va_arg(walk->arguments, long);
    case 'z':
        return va_arg(walk->arguments, ssize_t);
    case 'j':
        return va_arg(walk->arguments, intmax_t);
    case 't':
        return va_arg(walk->arguments, ptrdiff_t);
    case 'h': {
        int value = va_arg(walk->arguments, int);
        return length[1] ? (signed char)value : (short)value;
    }
    default:
        return va_arg(walk->arguments, int);
    }
}

/* Takes the next argument as an unsigned integer, of the type that the length modifier names. */
static uintmax_t
next_unsigned(walk_t *walk, const char *length)
{
    switch (length[0]) {
    case 'l':
        return length[1] ? va_arg(walk->arguments, unsigned long long)
                         : va_arg(walk->arguments, unsigned long);
    case 'z':
        return va_arg(walk->arguments, size_t);
    case 'j':
        return va_arg(walk->arguments, uintmax_t);
    case 't':
        return (uintmax_t)va_arg(walk->arguments, ptrdiff_t);
    case 'h': {
        unsigned value = va_arg(walk->arguments, unsigned);
        return length[1] ? (unsigned char)value : (unsigned short)value;
    }
    default:
        return va_arg(walk->arguments, unsigned);
    }
}

/* Formats the conversion at walk->at behind `used` bytes of `value`; returns the new size. *number:
 * it is a decimal number. Each argument is taken by its own type and formatted alone, so that the
 * end of its text is known, whatever it contains. */
static size_t
format_conversion(walk_t *walk, char *value, size_t used, bool *number)
{
    conversion_t parsed = parse_conversion(walk);
    char *to = value + used;
    size_t room = CADRE_LOG_VALUE_SIZE - used;
    int length = 0;
    if (strchr("di", parsed.conversion)) {
        /* "j": next_signed returns an intmax_t, whatever the argument's type was. */
        put_spec(&parsed, "jd", 2);
        length = snprintf(to, room, parsed.spec, next_signed(walk, parsed.length));
    } else if (strchr("uxXo", parsed.conversion)) {
        put_spec(&parsed, (char[]){'j', parsed.conversion}, 2);
        length = snprintf(to, room, parsed.spec, next_unsigned(walk, parsed.length));
    } else {
        put_spec(&parsed, &parsed.conversion, 1);
        if (strchr("eEfFgG", parsed.conversion)) {
            length = snprintf(to, room, parsed.spec, va_arg(walk->arguments, double));
        } else if (parsed.conversion == 's') {
            const char *text = va_arg(walk->arguments, const char *);
            length = snprintf(to, room, parsed.spec, text ? text : "(null)");
        } else if (parsed.conversion == 'c') {
            length = snprintf(to, room, parsed.spec, va_arg(walk->arguments, int));
        } else if (parsed.conversion == 'p') {
            length = snprintf(to, room, parsed.spec, va_arg(walk->arguments, void *));
        } else {
            cadre_assert(parsed.conversion == '%'); /* log.h lists all conversions */
            length = snprintf(to, room, "%%");
        }
    }

    *number = strchr("diueEfFgG", parsed.conversion) != NULL;
    size_t added = length > 0 ? (size_t)length : 0;
    return added < room ? used + added : CADRE_LOG_VALUE_SIZE - 1;
}

/* --- one pair --- */

/* Formats the value of a pair up to the space that ends it (the closing quote when it starts with
 * one) and moves past it. *number: the value is one decimal number and nothing else. */
static void
format_value(walk_t *walk, char *value, bool *number)
{
    size_t used = 0;
    size_t parts = 0;
    bool quoted = *walk->at == '"';
    char end = quoted ? '"' : ' ';

    *number = false;
    walk->at += quoted;
    for (; *walk->at && *walk->at != end; parts++) {
        if (*walk->at == '%') {
            used = format_conversion(walk, value, used, number);
            continue;
        }
        if (used < CADRE_LOG_VALUE_SIZE - 1) {
            value[used++] = *walk->at;
        }
        walk->at++;
    }

    value[used] = '\0';
    *number = *number && parts == 1 && !quoted;
    walk->at += quoted && *walk->at;
    walk->at += *walk->at == ' ';
}

/* Adds the next pair of the format, key=value, to the line. */
static void
add_pair(walk_t *walk, cadre_log_line_t *line)
{
    size_t key_size = strcspn(walk->at, "= %\"");
    const char *key = walk->at;
    if (key_size > 0 && key[key_size] == '=') {
        walk->at += key_size + 1;
    } else { /* a mistake in a format must not end a training run */
        key = "text";
        key_size = strlen(key);
    }

    char value[CADRE_LOG_VALUE_SIZE];
    bool number = false;
    format_value(walk, value, &number);
    cadre_log_line_add(line, key, key_size, value, number);
}

static void
write_line(cadre_log_level_t level, cadre_log_line_t *line)
{
    cadre_log_line_end(line);
    settings.options.write(settings.options.owner, level, line->bytes, line->size);
}

/* Logs an event with the pairs of a format, such as "worker=%u reason=%s". The pairs are found in
 * the format, not in the formatted text, so that a value may contain anything. */
void
cadre_log(cadre_log_level_t level, const char *event, const char *format, ...)
{
    if (!is_enabled(level)) {
        return;
    }

    cadre_log_line_t line;
    begin_line(&line, level, event);
    walk_t walk = {.at = format};
    va_start(walk.arguments, format);
    while (*walk.at) {
        add_pair(&walk, &line);
    }

    va_end(walk.arguments);
    write_line(level, &line);
}

/* Logs an event with pairs that are formatted already; a value in quotes ends at the next quote. */
void
cadre_log_pairs(cadre_log_level_t level, const char *event, const char *pairs)
{
    if (!is_enabled(level)) {
        return;
    }

    cadre_log_line_t line;
    begin_line(&line, level, event);
    while (*pairs) {
        const char *key = pairs;
        size_t key_size = strcspn(key, "= ");
        const char *value = key + key_size + (key[key_size] == '=');
        bool quoted = *value == '"';
        value += quoted;
        size_t size = strcspn(value, quoted ? "\"" : " ");
        char text[CADRE_LOG_VALUE_SIZE];
        snprintf(text, sizeof(text), "%.*s", (int)size, value);
        /* A value without quotes may be a number. */
        cadre_log_line_add(&line, key, key_size, text, !quoted);
        pairs = value + size;
        pairs += strspn(pairs, "\" ");
    }

    write_line(level, &line);
}
