/* dtype.h - element types, and conversion of single values to and from their stored bits. */
#ifndef ANNEAL_DTYPE_H
#define ANNEAL_DTYPE_H

#include <anneal/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum an_dtype {
    AN_DTYPE_NONE,
#define AN_DTYPE(id, text, kind, bits, numpy) AN_##id,
#include <anneal/dtypes.def>
#undef AN_DTYPE
    AN_DTYPE_COUNT
} an_dtype;

typedef enum an_dtype_kind {
    AN_KIND_NONE, /* of AN_DTYPE_NONE: no value at all */
    AN_KIND_BOOL,
    AN_KIND_INT,
    AN_KIND_UINT,
    AN_KIND_FLOAT,
    AN_KIND_INDEX
} an_dtype_kind;

AN_API const char *an_dtype_name(an_dtype dtype);     /* "f32"; "none" for AN_DTYPE_NONE */
AN_API an_dtype_kind an_dtype_kind_of(an_dtype dtype);
AN_API size_t an_dtype_nbytes(an_dtype dtype);        /* of one stored element */
AN_API const char *an_dtype_numpy(an_dtype dtype);    /* "<f4"; "" where numpy has none */
AN_API an_dtype an_dtype_parse(const char *name);     /* AN_DTYPE_NONE if there is none of that name */

/* The dtype of an arithmetic result of a and b (numpy's rules, but an int and a float give the
 * float, as PyTorch and JAX do): bool < uint/int < float; f16 with bf16 gives f32. */
AN_API an_dtype an_dtype_promote(an_dtype a, an_dtype b);

/* One value in transit: ints in i (unsigned ones as the same bits), floats in f, bool as 0 or 1 in
 * i. The dtype beside it says which. */
typedef union an_scalar {
    int64_t i;
    uint64_t u;
    double f;
} an_scalar;

/* Reads or writes one stored element; writing rounds to nearest even, float to int saturates. */
AN_API an_scalar an_scalar_load(an_dtype dtype, const void *src);
AN_API void an_scalar_store(an_dtype dtype, an_scalar value, void *dst);

/* Converts as the CAST op does (docs/SEMANTICS.md): to a float rounds to nearest even; float to int
 * truncates and saturates, NaN gives 0; int to int wraps; anything to bool is value != 0. */
AN_API an_scalar an_scalar_cast(an_dtype from, an_dtype to, an_scalar value);

/* Rounds to the values dtype can hold: wraps ints, rounds floats (f8e4m3 saturates at 448 and has
 * no infinity; f8e5m2 overflows to infinity). Also the canonical NaN. */
AN_API an_scalar an_scalar_round(an_dtype dtype, an_scalar value);

#ifdef __cplusplus
}
#endif
#endif
