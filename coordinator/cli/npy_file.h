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

#include <cadre/tensor.h>

/* Writes the new file `name` in the open directory `folder`; what was written of it goes on
 * failure.
 *
 * CADRE_EDTYPE: NumPy has no such type (bf16).
 * CADRE_EEXISTS: there is such a file.
 * CADRE_EIO: it cannot be written. */
int cadre_npy_file_write(int folder, const char *name, const cadre_tensor_t *tensor);

#endif
