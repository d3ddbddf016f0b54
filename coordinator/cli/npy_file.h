/*
 * npy_file - a tensor as a file of NumPy's format .npy, which numpy.load reads.
 *
 * Source of the format: numpy/lib/format.py, version 1.0. Rows are stored one after the other ("C
 * order"), numbers in little-endian.
 *
 * Thread:  any one.
 */
#ifndef CADRE_COORDINATOR_CLI_NPY_FILE_H
#define CADRE_COORDINATOR_CLI_NPY_FILE_H

#include <stdio.h>

#include <cadre/tensor.h>

/* Writes the new file `name` in the open directory `folder`; what was written of it goes on
 * failure.
 *
 * CADRE_EDTYPE: NumPy has no such type (bf16).
 * CADRE_EEXISTS: there is such a file.
 * CADRE_EIO: it cannot be written. */
int cadre_npy_file_write(int folder, const char *name, const cadre_tensor_t *tensor);

/* Creates the file `name`, for an array that is written piece by piece: its header, with NumPy's
 * word `type` for the numbers, such as "<f4"; these the caller writes. cadre_output_end ends it.
 * Fails as cadre_npy_file_write. */
int cadre_npy_file_create(int folder, const char *name, const char *type,
                          const cadre_tensor_t *shape, FILE **out);

/* Creates the new file `name`, empty, in the open directory. CADRE_EEXISTS, CADRE_EIO. */
int cadre_output_create(int folder, const char *name, FILE **out);

/* Closes a file that was created, and removes it where `status` is a failure or something of it
 * could not be written. Returns `status`, else CADRE_EIO. *file_p may be NULL. */
int cadre_output_end(int folder, const char *name, int status, FILE **file_p);

#endif
