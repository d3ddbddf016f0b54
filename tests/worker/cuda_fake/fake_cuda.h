/*
 * fake_cuda - CUDA and cublasLt on the CPU, as far as worker/device/cuda uses them: what runs on
 * streams runs late, in a random order that streams and events allow.
 *
 * Device memory is host memory, filled with NaN when it is allocated. Enqueued work happens only
 * while somebody waits for an event, one piece at a time, of a stream chosen at random: a copy that
 * misses an event it should wait for sooner or later reads or writes the wrong numbers. Kernels are
 * the CPU device's operations. Graphs are recorded and replayed; an event inside a graph is
 * recorded by each launch. There is one device, or as many as the variable FAKE_CUDA_DEVICES says,
 * with one memory and one order.
 *
 * Owner:   the process. Thread: any; one lock around everything.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_FAKE_FAKE_CUDA_H
#define CADRE_TESTS_WORKER_CUDA_FAKE_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* What the streams' order is drawn from. */
void fake_cuda_seed(uint64_t seed);

/* The call of `function` that comes after `calls` more of it fails with `error`; NULL: none does.
 */
void fake_cuda_break(const char *function, int calls, int error);

/* Sum over all there is now: device bytes, pinned bytes, streams, events, graphs, descriptors. */
typedef struct {
    size_t device_bytes;
    size_t pinned_bytes;
    int64_t objects;
    int64_t allocations; /* ever made */
    int64_t launches;    /* of graphs, ever */
    size_t bytes_in;     /* copied from the host, ever */
} fake_cuda_count_t;

fake_cuda_count_t fake_cuda_count(void);

/* Device bytes that can be had in all. */
void fake_cuda_limit(size_t size_bytes);

/* cublasLt has no product whose epilogue has one of these bits; 0: all of them. */
void fake_cublas_refuse(int bits);

/* Products computed so far, by their epilogue; written by whoever waits for the device. */
typedef struct {
    int64_t plain;
    int64_t bias;
    int64_t relu;
    int64_t relu_mask;
    int64_t drelu;
    int64_t drelu_sum;
    int64_t factor_sum;
} fake_cublas_counts_t;

fake_cublas_counts_t fake_cublas_counts(void);

/* Numbers that were found to be beyond a limit, ever. */
int64_t fake_limits_passed(void);

/* ---- between the files of this folder ---- */

/* A function that a stream runs; `argument` was malloc'ed and is freed. */
typedef void (*fake_call_t)(const void *argument);

/* Enqueues a copy of argument[size_bytes] for `call`. */
void fake_enqueue(cudaStream_t stream, fake_call_t call, const void *argument, size_t size_bytes);

/* The error that this call of `function` is to return, 0 for none. */
int fake_error(const char *function);

void fake_count_object(int64_t by);

#endif
