/* bench.h - benchmarks of `anneal bench`: programs with a count of operations and bytes, the machine's measured peak, and
 * OpenBLAS to compare with. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"

#include <anneal/nn.h>

typedef struct bench_size {
    int64_t m, n, k, b; /* b: how many products, of matmul */
    const char *layout; /* of matmul: nn, nt (B is stored (n, k)), tn (A is stored (k, m)) */
    an_dtype dtype;     /* of inputs and outputs; AN_DTYPE_NONE: f32 */
} bench_size;

/* A program to time. Bytes: each input and output once. */
typedef struct bench_case {
    const char *name;
    const char *about;
    bench_size preset;
    int64_t check_m, check_n; /* m and n of the program that is compared with the interpreter, where all of it must be computed;
                               * 0: some of the results at the size that is timed */
    bool is_launch; /* many kernels with next to nothing to do: what counts is the time of each */
    /* Builds it; false with the sentence in the graph's context. */
    bool (*build)(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes);
} bench_case;
enum { BENCH_OUTS = 512 };

/* bench_gpt.c */
bool bench_gpt(an_graph *g, const bench_size *s, an_tensor **out, size_t *nout, double *flops, double *nbytes);

size_t bench_count(void);
const bench_case *bench_get(size_t i);

/* What this machine does at best with so many threads, measured now: fused multiply-adds from registers, in operations a second, and
 * copying between buffers of nbytes together, in bytes a second, read plus written. */
double bench_peak_flops(int threads);
double bench_copy_rate(size_t nbytes, int threads);
double bench_clock(void);

/* Compares what the device computes with the interpreter: some of the results of every output. *difference is the greatest,
 * relative to the greatest value. False with a sentence in e if it is too great. */
bool bench_check(const bench_case *c, const bench_size *size, const char *device, double *difference, cli_error *e);

/* Row-major data of the benchmarks: the same numbers each time, around 0. */
float *bench_data(size_t n);

/* OpenBLAS, opened at run time, with as many threads as our device has. NULL with a sentence in e. Its core type is set where the library would
 * not know this processor and fall back to slow code. */
typedef struct bench_blas bench_blas;
bench_blas *bench_blas_open(int threads, cli_error *e);
void bench_blas_close(bench_blas *b);
const char *bench_blas_name(const bench_blas *b); /* what it says of itself */
void bench_blas_matmul(const bench_blas *b, const bench_size *s, const float *x, const float *y, float *out);

#endif
