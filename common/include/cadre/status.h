/*
 * status - what every call of Cadre that can fail returns.
 *
 * A call returns 0 or a negative CADRE_E... number. The numbers are the same in the C API, in logs
 * and on the wire and never change their meaning. Beside the number each thread keeps one text with
 * the details of its last failure.
 */
#ifndef CADRE_STATUS_H
#define CADRE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CADRE_API __attribute__((visibility("default")))
#define CADRE_PRINTF(format_index, first_argument)                                                 \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define CADRE_API
#define CADRE_PRINTF(format_index, first_argument)
#endif

/* The statuses. Columns: name, number, text. */
#define CADRE_STATUS_LIST(X)                                                                       \
    X(CADRE_OK, 0, "success")                                                                      \
    X(CADRE_EINVALID, -2000, "invalid argument")                                                   \
    X(CADRE_ENOTFOUND, -2001, "not found")                                                         \
    X(CADRE_EEXISTS, -2002, "exists already")                                                      \
    X(CADRE_ETIMEOUT, -2003, "the deadline passed")                                                \
    X(CADRE_ECANCELLED, -2004, "cancelled")                                                        \
    X(CADRE_EFULL, -2005, "a limit is reached")                                                    \
    X(CADRE_EDUPLICATE, -2006, "seen before, nothing changed")                                     \
    X(CADRE_ESHAPE, -2007, "shapes do not agree")                                                  \
    X(CADRE_EDTYPE, -2008, "data types do not agree")                                              \
    X(CADRE_ENOTFINITE, -2009, "a value is not finite")                                            \
    X(CADRE_ETOOLARGE, -2010, "larger than its limit")                                             \
    X(CADRE_EMALFORMED, -2011, "malformed bytes")                                                  \
    X(CADRE_EPROTOCOL, -2012, "protocol or build versions do not agree")                           \
    X(CADRE_EREFUSED, -2013, "not allowed")                                                        \
    X(CADRE_EFENCED, -2014, "sent by, or for, an earlier incarnation")                             \
    X(CADRE_EUNAVAILABLE, -2015, "a needed task is away")                                          \
    X(CADRE_EIO, -2016, "input or output failed")                                                  \
    X(CADRE_ECORRUPT, -2017, "stored bytes are damaged")                                           \
    X(CADRE_ENOMEMORY, -2018, "out of device memory")                                              \
    X(CADRE_EFUNCTION, -2019, "the function reported a failure")                                   \
    X(CADRE_EPOISON, -2020, "a closure or a resource took down too many workers")                  \
    X(CADRE_ECLOSED, -2021, "closed")                                                              \
    X(CADRE_EDATA, -2022, "bad input data")                                                        \
    X(CADRE_ECONFIG, -2023, "bad configuration")                                                   \
    X(CADRE_EINTERRUPTED, -2024, "interrupted")                                                    \
    X(CADRE_ESTATE, -2025, "not possible in this state")                                           \
    X(CADRE_EDEVICE, -2026, "the device failed")                                                   \
    X(CADRE_EAGAIN, -2027, "not now, try again")

enum {
#define CADRE_STATUS_ENUM(name, number, text) name = number,
    CADRE_STATUS_LIST(CADRE_STATUS_ENUM)
#undef CADRE_STATUS_ENUM
};

/* Returns a short text for `status`, valid forever. A number that is not in the list gives "unknown
 * status". */
CADRE_API const char *cadre_status_text(int status);

/* Returns the name of `status` as it stands in this file, such as "CADRE_ESHAPE"; "CADRE_E?" when
 * it is not in the list. */
CADRE_API const char *cadre_status_name(int status);

/* Returns the details of the calling thread's last failure: one line of UTF-8 without control
 * characters, "" before the first failure. Valid until that thread's next call into Cadre. */
CADRE_API const char *cadre_error_text(void);

#ifdef __cplusplus
}
#endif
#endif
