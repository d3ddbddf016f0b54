/*
 * read_cache - reads of variables that stay what they were: within a read cache each variable is
 * read once, and given from memory from then on.
 *
 *     cadre_read_cache_t *cache = NULL;
 *     const cadre_tensor_t *weight = NULL;
 *     s = cadre_read_cache_create(job, &cache);
 *     s = s ? s : cadre_read_cache_read(cache, w, &weight, -1); (from the ps)
 *     s = s ? s : cadre_read_cache_read(cache, w, &weight, -1); (the same value, without asking)
 *     cadre_read_cache_destroy(&cache);
 *
 * It is for programs that look at a variable in many places, and want one value there, or no
 * traffic, as TensorFlow's caching scopes are. Variables are read when they are first asked for, so
 * two may be of different moments: cadre_variable_read_many reads several as of one.
 *
 * Names, errors and waiting are as <cadre/coordinator.h> says. Threads: one at a time uses a cache.
 */
#ifndef CADRE_READ_CACHE_H
#define CADRE_READ_CACHE_H

#include <stdint.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_read_cache cadre_read_cache_t; /* the caller's: cadre_read_cache_destroy */

/* Makes a cache that holds nothing. It is destroyed before the coordinator is closed. */
CADRE_API int cadre_read_cache_create(cadre_coordinator_t *coordinator, cadre_read_cache_t **cache);

/* Destroys the cache with its values, and nulls the pointer. */
CADRE_API void cadre_read_cache_destroy(cadre_read_cache_t **cache_p);

/* Gives the value of a variable as it was when this cache was first asked for it, whatever has
 * become of the variable since; the first time it is read as by cadre_variable_read. The value is
 * the cache's, for as long as that lives.
 *
 * CADRE_EINVALID: the variable is of another coordinator. */
CADRE_API int cadre_read_cache_read(cadre_read_cache_t *self, cadre_variable_t *variable,
                                    const cadre_tensor_t **value, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
