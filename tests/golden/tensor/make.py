#!/usr/bin/env python3
"""Makes the golden values of the tensor API with NumPy: cases.def, the calls, and values.txt, operands and results.

Run it in this folder after changing it; both files are committed, and the tests need no Python. A case is a name, the call in
C (X, Y, Z are its operands, G the graph, L(...) a list of int64_t), the result, the operands, and tolerances: rtol and atol
in units of 2^-23, 0 for results that must be the same to the last bit. Results are computed in float64 and rounded once."""
import math
import numpy as np

rng = np.random.default_rng(20240607)
f4, f8, f2 = np.float32, np.float64, np.float16
cases = []


def case(name, call, out, *ins, rtol=0, atol=0):
    assert name not in [c[0] for c in cases], name
    out = np.asarray(out)
    cases.append((name, call, out, [np.asarray(i) for i in ins], rtol, atol))


def r(*shape, dtype=f4, lo=-2.0, hi=2.0):
    return (rng.random(shape) * (hi - lo) + lo).astype(dtype)


def ri(*shape, lo=-9, hi=10, dtype=np.int32):
    return rng.integers(lo, hi, shape).astype(dtype)


def up(fn, *xs, dtype=f4):
    """fn in float64, rounded to dtype."""
    with np.errstate(all='ignore'):
        return np.asarray(fn(*[np.asarray(x).astype(f8) for x in xs])).astype(dtype)


inf, nan = np.inf, np.nan
special = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-30, -1e-30, 3e8, -3e8, inf, -inf, nan], f4)
finite = special[:-3]
np.seterr(all='ignore')

# --- creation ---------------------------------------------------------------------------------------------------------
case('full', 'an_full(G, AN_F32, AN_DIMS(2, 3), 1.25)', np.full((2, 3), 1.25, f4))
case('full_i64', 'an_full_i64(G, AN_I64, AN_DIMS(2), INT64_MIN)', np.full(2, -2**63, np.int64))
case('full_u64', 'an_full_i64(G, AN_U64, AN_DIMS(1), INT64_MAX)', np.full(1, 2**63 - 1, np.uint64))
case('full_scalar', 'an_full(G, AN_I8, AN_SCALAR, -128)', np.array(-128, np.int8))
case('full_empty', 'an_full(G, AN_F32, AN_DIMS(2, 0), 7)', np.zeros((2, 0), f4))
case('zeros', 'an_zeros(G, AN_U8, AN_DIMS(3))', np.zeros(3, np.uint8))
case('ones', 'an_ones(G, AN_BOOL, AN_DIMS(1, 2))', np.ones((1, 2), bool))
case('full_like', 'an_full_like(X, -3)', np.full((2, 2), -3, np.int16), ri(2, 2, dtype=np.int16))
case('zeros_like', 'an_zeros_like(X)', np.zeros((2, 3), f4), r(2, 3))
case('ones_like', 'an_ones_like(X)', np.ones((2, 3), f8), r(2, 3, dtype=f8))
case('scalar_f64', 'an_scalar_f64(G, AN_F64, 0.1)', np.array(0.1, f8))
case('scalar_i64', 'an_scalar_i64(G, AN_F32, 7)', np.array(7, f4))
case('arange', 'an_arange(G, AN_I32, 0, 10, 3)', np.arange(0, 10, 3, np.int32))
case('arange_down', 'an_arange(G, AN_I64, 5, -5, -2)', np.arange(5, -5, -2, np.int64))
case('arange_unsigned_down', 'an_arange(G, AN_U8, 9, 0, -4)', np.arange(9, 0, -4).astype(np.uint8))
case('arange_f32', 'an_arange(G, AN_F32, 1, 2, 0.125)', np.arange(1, 2, 0.125, f4))
case('arange_f16', 'an_arange(G, AN_F16, -1, 1, 0.25)', np.arange(-1, 1, 0.25).astype(f2))
case('arange_empty', 'an_arange(G, AN_F32, 3, 1, 1)', np.zeros(0, f4))
case('linspace', 'an_linspace(G, AN_F32, -1, 2, 7)', np.linspace(-1, 2, 7).astype(f4), rtol=2)
case('linspace_end', 'an_pick(an_linspace(G, AN_F32, 0, 0.7, 11), 0, -1)', f4(0.7))
case('linspace_one', 'an_linspace(G, AN_F64, 3, 9, 1)', np.array([3.0]))
case('eye', 'an_eye(G, AN_F32, 3, 4, 0)', np.eye(3, 4, dtype=f4))
case('eye_k', 'an_eye(G, AN_I32, 4, 3, -1)', np.eye(4, 3, -1, np.int32))
x = r(2, 3, 4)
case('tril', 'an_tril(X, 0)', np.tril(x), x)
case('tril_k', 'an_tril(X, 1)', np.tril(x, 1), x)
case('triu', 'an_triu(X, -1)', np.triu(x, -1), x)

# --- movement ---------------------------------------------------------------------------------------------------------
x = r(2, 3, 4)
case('reshape', 'an_reshape(X, AN_DIMS(4, -1))', x.reshape(4, 6), x)
case('reshape_scalar', 'an_reshape(X, AN_SCALAR)', np.array(x[0, 0, 0]), x[:1, :1, :1])
case('reshape_empty', 'an_reshape(X, AN_DIMS(3, 0, 5))', np.zeros((3, 0, 5), f4), np.zeros((0, 2), f4))
case('flatten', 'an_flatten(X, 1, -1)', x.reshape(2, 12), x)
case('permute', 'an_permute(X, AN_DIMS(2, 0, 1))', x.transpose(2, 0, 1), x)
case('transpose', 'an_transpose(X, 0, -1)', x.swapaxes(0, 2), x)
case('broadcast_to', 'an_broadcast_to(X, AN_DIMS(2, 3, 4))', np.broadcast_to(x[0, :, :1], (2, 3, 4)), x[0, :, :1])
case('broadcast_empty', 'an_broadcast_to(X, AN_DIMS(0, 3))', np.zeros((0, 3), f4), r(1, 3))
case('expand', 'an_expand(X, AN_DIMS(5, -1, 4))', np.broadcast_to(x[0, :, :1], (5, 3, 4)), x[0, :, :1])
case('broadcast_like', 'an_broadcast_like(X, Y)', np.broadcast_to(x[0, 0], (2, 3, 4)), x[0, 0], x)
case('squeeze', 'an_squeeze(X, 1)', x[:, 0], x[:, :1])
case('squeeze_all', 'an_squeeze_all(X)', x[0, :, 0], x[:1, :, :1])
case('unsqueeze', 'an_unsqueeze(X, -1)', x[..., None], x)
case('unsqueeze_0', 'an_unsqueeze(X, 1)', x[:, None], x)
case('pad', 'an_pad(X, L(1, 0, 2), L(0, 3, 1), 3, 0)', np.pad(x, ((1, 0), (0, 3), (2, 1))), x)
case('pad_value', 'an_pad(X, L(0, 1), L(2, 1), 2, -1.5)', np.pad(x[0], ((0, 2), (1, 1)), constant_values=-1.5), x[0])
case('pad_inf', 'an_pad(X, L(2), L(1), 1, -(double)INFINITY)', np.pad(x[0, 0], (2, 1), constant_values=-inf), x[0, 0])
case('pad_bool', 'an_pad(X, L(1), L(1), 1, 1)', np.array([True, False, True]), np.array([False]))
case('pad_empty', 'an_pad(X, L(1, 0), L(1, 0), 2, 5)', np.full((2, 3), 5, np.int32), np.zeros((0, 3), np.int32))
case('flip', 'an_flip(X, AN_DIMS(0, 2))', x[::-1, :, ::-1], x)
case('flip_all', 'an_flip(X, AN_ALL)', x[::-1, ::-1, ::-1], x)
v = r(11)
for i, (b, e, s) in enumerate([(2, 9, 1), (2, 9, 3), (None, None, 2), (-4, None, 1), (None, -3, 4), (9, 2, -1),
                               (None, None, -1), (None, None, -3), (-2, -9, -2), (5, 5, 1), (100, 200, 1), (-100, 4, 1),
                               (3, 1, 1), (None, None, 50), (0, -100, -1)]):
    c = [('AN_NONE' if k is None else str(k)) for k in (b, e)]
    case('slice_%d' % i, 'an_slice(X, 0, %s, %s, %d)' % (c[0], c[1], s), v[b:e:s], v)
case('slice_middle', 'an_slice(X, 1, AN_NONE, AN_NONE, -2)', x[:, ::-2], x)
case('shrink', 'an_shrink(X, L(0, 1, 2), L(1, 3, 4), 3)', x[0:1, 1:3, 2:4], x)
case('pick', 'an_pick(X, 1, -1)', x[:, -1], x)
y = r(2, 2, 4)
z = r(2, 1, 4)
case('cat', 'an_cat((an_tensor *[]){X, Y, Z}, 3, 1)', np.concatenate([x, y, z], 1), x, y, z)
case('cat_last', 'an_cat((an_tensor *[]){X, X}, 2, -1)', np.concatenate([x, x], 2), x)
case('cat_promote', 'an_cat((an_tensor *[]){X, Y}, 2, 0)', np.array([1.5, -0.0, 3, 4], f4), np.array([1.5, -0.0], f4),
     np.array([3, 4], np.int32))
case('cat_empty', 'an_cat((an_tensor *[]){X, Y, X}, 3, 0)', np.array([1, 2], np.int32), np.zeros(0, np.int32),
     np.array([1, 2], np.int32))
case('cat_all_empty', 'an_cat((an_tensor *[]){X, X}, 2, 0)', np.zeros((0, 2), f4), np.zeros((0, 2), f4))
case('stack', 'an_stack((an_tensor *[]){X, X, X}, 3, 1)', np.stack([x[0]] * 3, 1), x[0])
case('stack_last', 'an_stack((an_tensor *[]){X, Y}, 2, -1)', np.stack([x[0], x[1]], -1), x[0], x[1])
case('split', 'part_of_split(X, L(2, 0, 3), 3, 0, 2)', v[2:5], v[:5])
case('split_empty', 'part_of_split(X, L(2, 0, 3), 3, 0, 1)', v[2:2], v[:5])
case('chunk', 'part_of_chunk(X, 3, 0, 2)', v[8:], v)
case('chunk_empty', 'part_of_chunk(X, 4, 0, 3)', v[5:5], v[:5])
case('repeat', 'an_repeat(X, L(2, 1, 3), 3)', np.tile(x[0], (2, 1, 3)), x[0])
case('repeat_interleave', 'an_repeat_interleave(X, 2, 1)', np.repeat(x, 2, 1), x)
case('repeat_none', 'an_repeat(X, L(0), 1)', v[:0], v)
case('roll', 'an_roll(X, 3, 0)', np.roll(v, 3), v)
case('roll_back', 'an_roll(X, -14, 1)', np.roll(x, -14, 1), x)
case('diagonal', 'an_diagonal(X)', np.diagonal(x[:, :, :3], 0, 1, 2), np.ascontiguousarray(x[:, :, :3]))
case('reshape_uop', 'an_reshape_uop(X, (an_uop[]){an_dim(G, 4), an_dim(G, 6)}, 2)', x.reshape(4, 6), x)
case('broadcast_to_uop', 'an_broadcast_to_uop(X, (an_uop[]){an_dim(G, 2), an_dim(G, 4)}, 2)',
     np.broadcast_to(x[0, 0], (2, 4)), x[0, 0])
case('shrink_uop', 'an_shrink_uop(X, (an_uop[]){an_dim(G, 1)}, (an_uop[]){an_dim(G, 5)}, 1)', v[1:5], v)
case('leaf', 'an_contiguous(an_detach(an_leaf_of(X)))', x, x)

# --- dtypes -----------------------------------------------------------------------------------------------------------
wide = np.array([0, -0.0, 0.4, -0.6, 1.5, 2.5, -2.5, 127.6, 128, -129, 255.5, 256, 3e9, -3e9, 7e18, 1e20, -1e20, inf, -inf, nan], f4)
for d in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
    info = np.iinfo(d)
    vals = [0 if math.isnan(w) else info.max if w > info.max else info.min if w < info.min else
            max(info.min, min(info.max, int(math.trunc(float(w))))) for w in wide]
    name = 'AN_' + {'i': 'I', 'u': 'U'}[np.dtype(d).kind] + str(8 * np.dtype(d).itemsize)
    case('cast_f32_%s' % np.dtype(d).name, 'an_cast(X, %s)' % name, np.array(vals, dtype=d), wide)
case('cast_bool', 'an_cast(X, AN_BOOL)', special != 0, special)
case('cast_f16', 'an_cast(X, AN_F16)', wide.astype(f2), wide)
case('cast_f64', 'an_cast(X, AN_F64)', wide.astype(f8), wide)
case('cast_wrap', 'an_cast(X, AN_I8)', np.array([0, 127, -128, -1, 1], np.int8), np.array([0, 127, 128, 255, 257], np.int32))
case('cast_bool_i32', 'an_cast(X, AN_I32)', np.array([1, 0], np.int32), np.array([True, False]))
case('bitcast', 'an_bitcast(X, AN_U32)', special[:-1].view(np.uint32), special[:-1])
case('bitcast_back', 'an_bitcast(an_bitcast(X, AN_I32), AN_F32)', special, special)

# --- arithmetic -------------------------------------------------------------------------------------------------------
x, y = r(2, 3, 4), r(3, 1)
case('add', 'an_add(X, Y)', x + y, x, y)
case('sub', 'an_sub(X, Y)', x - y, x, y)
case('mul', 'an_mul(X, Y)', x * y, x, y)
case('div', 'an_div(X, Y)', x / y, x, y)
case('add_outer', 'an_add(X, Y)', x[0, :, :1] + x[0, :1, :], x[0, :, :1], x[0, :1, :])
case('add_rank0', 'an_add(X, Y)', x + f4(2.5), x, f4(2.5))
case('add_both_rank0', 'an_add(X, Y)', f4(1.5) + f4(2.5), f4(1.5), f4(2.5))
case('add_empty', 'an_add(X, Y)', np.zeros((0, 3), f4), np.zeros((0, 3), f4), r(1, 3))
case('add_promote', 'an_add(X, Y)', (ri(4).astype(f4) * 0 + 1.5), np.ones(4, np.int32), np.full(4, 0.5, f4))
case('add_bool', 'an_add(X, Y)', np.array([True, True, False]), np.array([True, False, False]), np.array([True, True, False]))
case('mul_bool', 'an_mul(X, Y)', np.array([True, False, False]), np.array([True, False, False]), np.array([True, True, False]))
case('add_wrap', 'an_add(X, Y)', np.array([-128, 0], np.int8), np.array([127, 255 - 256], np.int8), np.array([1, 1], np.int8))
case('sub_u32', 'an_sub(X, Y)', np.array([2**32 - 1, 5], np.uint32), np.array([1, 7], np.uint32), np.array([2, 2], np.uint32))
case('sub_u8', 'an_sub(X, Y)', np.array([255], np.uint8), np.array([1], np.uint8), np.array([2], np.uint8))
case('sub_special', 'an_sub(X, Y)', special - special[::-1], special, special[::-1])
case('neg_u16', 'an_neg(X)', np.array([65535, 0], np.uint16), np.array([1, 0], np.uint16))
case('div_int', 'an_div(X, Y)', np.array([3.5, -3.5, inf, nan], f4), np.array([7, -7, 1, 0], np.int32), np.array([2, 2, 0, 0], np.int32))
a = np.array([7, -7, 7, -7, 0, 6, -6, 5], np.int32)
b = np.array([2, 2, -2, -2, 3, 3, 3, -7], np.int32)
case('floor_div', 'an_floor_div(X, Y)', a // b, a, b)
case('mod', 'an_mod(X, Y)', a % b, a, b)
case('trunc_div', 'an_trunc_div(X, Y)', np.trunc(a / b).astype(np.int32), a, b)
case('fmod', 'an_fmod(X, Y)', np.fmod(a, b), a, b)
za, zb = np.array([7, -7, 0, -2**31], np.int32), np.array([0, 0, 0, -1], np.int32)
case('floor_div_0', 'an_floor_div(X, Y)', np.array([0, 0, 0, -2**31], np.int32), za, zb)
case('mod_0', 'an_mod(X, Y)', np.zeros(4, np.int32), za, zb)
case('trunc_div_0', 'an_trunc_div(X, Y)', np.array([0, 0, 0, -2**31], np.int32), za, zb)
case('fmod_0', 'an_fmod(X, Y)', np.zeros(4, np.int32), za, zb)
case('floor_div_u8', 'an_floor_div(X, Y)', np.array([250 // 7], np.uint8), np.array([250], np.uint8), np.array([7], np.uint8))
fa = np.array([7.5, -7.5, 7.5, -7.5, 5, -5, 0, 1e6, 0.9, 3, 1, -1, inf], f4)
fb = np.array([2, 2, -2, -2, inf, inf, 3, 0.1, 0.3, 0, 0, 0, 2], f4)
case('mod_f32', 'an_mod(X, Y)', np.mod(fa, fb), fa, fb)
case('fmod_f32', 'an_fmod(X, Y)', np.fmod(fa, fb), fa, fb)
case('floor_div_f32', 'an_floor_div(X, Y)', np.floor_divide(fa, fb)[:-1], fa[:-1], fb[:-1])
case('trunc_div_f32', 'an_trunc_div(X, Y)', np.trunc(fa / fb), fa, fb)
pb = np.array([2.0, 0.5, 3.0, 1.5, 0, -0.0, 0, 0, 1, 1, -1, -1, -2, -2, -2, nan, 2, inf, -inf, -inf, 0.5, 4], f4)
pe = np.array([3.0, 2.5, -2.0, 0.3, 2, 1, -1, 0, inf, nan, inf, 3, 3, 2, 0.5, 0, nan, -1, 3, 0.5, inf, 0.5], f4)
pr = np.power(pb, pe)
pr[5] = 0.0  # the sign of a zero power is not kept
pr[-3] = inf
case('pow', 'an_pow(X, Y)', pr, pb, pe, rtol=16)
case('pow_i32', 'an_pow(X, Y)', np.array([8, 1, 1, -27, 0, 1, -1, 0, 3**31 & 0xffffffff], np.int64).astype(np.int32),
     np.array([2, 5, 1, -3, 2, -1, -1, 0, 3], np.int32), np.array([3, 0, -4, 3, -1, -2, -3, 2, 31], np.int32))
case('pow_u8', 'an_pow(X, Y)', np.array([3**5 % 256, 2**8 % 256], np.uint8), np.array([3, 2], np.uint8), np.array([5, 8], np.uint8))
case('pow_scalar_3', 'an_pow_scalar(X, 3)', up(lambda t: t**3, x), x, rtol=2)
case('pow_scalar_neg', 'an_pow_scalar(X, -2)', up(lambda t: t**-2, x), x, rtol=3)
case('pow_scalar_half', 'an_pow_scalar(X, 0.5)', up(np.sqrt, abs(x)), abs(x))
case('pow_scalar_rsqrt', 'an_pow_scalar(X, -0.5)', up(lambda t: t**-0.5, abs(x)), abs(x), rtol=2)
case('pow_scalar_0', 'an_pow_scalar(X, 0)', np.ones(17, f4), special)
case('pow_scalar_frac', 'an_pow_scalar(X, 1.7)', up(lambda t: t**1.7, abs(x)), abs(x), rtol=8)
case('pow_scalar_i32', 'an_pow_scalar(X, 5)', a**5, a)
case('rpow_scalar', 'an_rpow_scalar(X, 3)', up(lambda t: 3.0**t, x), x, rtol=8)
case('maximum', 'an_maximum(X, Y)', np.maximum(special, special[::-1]), special, special[::-1].copy())
case('minimum_i32', 'an_minimum(X, Y)', np.minimum(a, b), a, b)
case('minimum', 'an_minimum(X, Y)', np.minimum(x, y), x, y)
case('neg', 'an_neg(X)', -special, special)
case('abs', 'an_abs(X)', np.abs(special), special)
case('abs_i8', 'an_abs(X)', np.array([5, 5, -128], np.int8), np.array([5, -5, -128], np.int8))
case('sign', 'an_sign(X)', np.sign(special), special)
case('sign_i32', 'an_sign(X)', np.sign(a), a)
case('sign_u8', 'an_sign(X)', np.array([0, 1], np.uint8), np.array([0, 9], np.uint8))
case('square', 'an_square(X)', x * x, x)
case('clamp', 'an_clamp(X, -1, 0.75)', np.clip(special, f4(-1), f4(0.75)), special)
case('clamp_low', 'an_clamp(X, 0, (double)INFINITY)', np.maximum(x, 0), x)
case('clamp_i32', 'an_clamp(X, -3, 4)', np.clip(a, -3, 4), a)
case('add_scalar', 'an_add_scalar(X, 1.5)', x + f4(1.5), x)
case('add_scalar_i32', 'an_add_scalar(X, 3)', a + 3, a)
case('add_scalar_i32_frac', 'an_add_scalar(X, 0.5)', a.astype(f4) + f4(0.5), a)
case('add_scalar_bool', 'an_add_scalar(X, 2)', np.array([3, 2], np.int32), np.array([True, False]))
case('sub_scalar', 'an_sub_scalar(X, 1.5)', x - f4(1.5), x)
case('rsub_scalar', 'an_rsub_scalar(X, 1.5)', f4(1.5) - x, x)
case('mul_scalar', 'an_mul_scalar(X, -3)', x * f4(-3), x)
case('div_scalar', 'an_div_scalar(X, 3)', x / f4(3), x)
case('div_scalar_i32', 'an_div_scalar(X, 4)', a.astype(f4) / f4(4), a)
case('rdiv_scalar', 'an_rdiv_scalar(X, 2)', f4(2) / x, x)
case('floor_div_scalar', 'an_floor_div_scalar(X, -2)', a // -2, a)
case('mod_scalar', 'an_mod_scalar(X, -4)', a % -4, a)
case('maximum_scalar', 'an_maximum_scalar(X, 0.25)', np.maximum(x, f4(0.25)), x)
case('minimum_scalar', 'an_minimum_scalar(X, 2)', np.minimum(a, 2), a)

# --- comparisons, logic, bits -----------------------------------------------------------------------------------------
sx, sy = np.meshgrid(special, special)
for n, fn in (('eq', np.equal), ('ne', np.not_equal), ('lt', np.less), ('le', np.less_equal), ('gt', np.greater), ('ge', np.greater_equal)):
    case(n, 'an_%s(X, Y)' % n, fn(special[:, None], special), special[:, None], special)
    case(n + '_i32', 'an_%s(X, Y)' % n, fn(a[:, None], b), a[:, None], b)
    case(n + '_scalar', 'an_%s_scalar(X, 1.5)' % n, fn(special, f4(1.5)), special)
t2 = np.array([False, True])
case('lt_bool', 'an_lt(X, Y)', np.less(t2[:, None], t2), t2[:, None], t2)
case('le_bool', 'an_le(X, Y)', np.less_equal(t2[:, None], t2), t2[:, None], t2)
case('lt_u32', 'an_lt(X, Y)', np.array([True, False]), np.array([1, 2**32 - 1], np.uint32), np.array([2**32 - 1, 1], np.uint32))
case('lt_i32_u32', 'an_lt(X, Y)', np.array([True]), np.array([-1], np.int32), np.array([2**32 - 1], np.uint32))
case('logical_and', 'an_logical_and(X, Y)', np.logical_and(a[:, None], special), a[:, None], special)
case('logical_or', 'an_logical_or(X, Y)', np.logical_or(t2[:, None], t2), t2[:, None], t2)
case('logical_xor', 'an_logical_xor(X, Y)', np.logical_xor(t2[:, None], t2), t2[:, None], t2)
case('logical_not', 'an_logical_not(X)', np.logical_not(special), special)
case('isnan', 'an_isnan(X)', np.isnan(special), special)
case('isnan_i32', 'an_isnan(X)', np.isnan(a), a)
case('isinf', 'an_isinf(X)', np.isinf(special), special)
case('isfinite', 'an_isfinite(X)', np.isfinite(special), special)
case('isfinite_i32', 'an_isfinite(X)', np.isfinite(a), a)
case('bit_and', 'an_bit_and(X, Y)', a[:, None] & b, a[:, None], b)
case('bit_or', 'an_bit_or(X, Y)', a[:, None] | b, a[:, None], b)
case('bit_xor', 'an_bit_xor(X, Y)', a[:, None] ^ b, a[:, None], b)
case('bit_not', 'an_bit_not(X)', ~a, a)
case('bit_not_u8', 'an_bit_not(X)', np.array([255, 0xf0], np.uint8), np.array([0, 0x0f], np.uint8))
case('bit_not_bool', 'an_bit_not(X)', ~t2, t2)
sh = np.array([0, 1, 5, 31, 32, 40, -1], np.int32)
sv = np.array([1, -1, 12345, -12345], np.int32)
inr = (sh >= 0) & (sh < 32)
case('shl', 'an_shl(X, Y)', np.where(inr, sv[:, None] << (sh & 31), 0).astype(np.int32), sv[:, None], sh)
case('shr', 'an_shr(X, Y)', np.where(inr, sv[:, None] >> (sh & 31), np.where(sv[:, None] < 0, -1, 0)).astype(np.int32), sv[:, None], sh)
case('shr_u8', 'an_shr(X, Y)', np.array([0x1f, 0, 0], np.uint8), np.array([0xf8, 0xf8, 0xf8], np.uint8), np.array([3, 8, 200], np.uint8))
case('where', 'an_where(X, Y, Z)', np.where(t2[:, None], x[0, 0], f4(9)), t2[:, None], x[0, 0], f4(9))
case('where_promote', 'an_where(X, Y, Z)', np.array([1.0, 0.5], f4), np.array([3, 0], np.int32), np.array([1, 1], np.int8), np.array([0.5, 0.5], f4))
case('masked_fill', 'an_masked_fill(X, Y, -(double)INFINITY)', np.where(t2[:, None], -inf, x[0, :2]).astype(f4), x[0, :2], t2[:, None])
case('where_masked_nan', 'an_where(X, Y, Z)', np.array([1.0], f4), np.array([True]), f4([1.0]), f4([nan]))

# --- mathematics ------------------------------------------------------------------------------------------------------
erf = np.vectorize(math.erf)
m = np.concatenate([r(40, lo=-6, hi=6), finite[:12], f4([inf, -inf, nan])]).astype(f4)
near = np.concatenate([r(20, lo=-0.01, hi=0.01), f4([1e-7, -1e-7, 1e-20, 0, -0.0])]).astype(f4)
pos = np.concatenate([r(40, lo=0.001, hi=50), f4([1e-38, 1e38, 0, inf, nan, -1])]).astype(f4)
ang = np.concatenate([r(40, lo=-30, hi=30), f4([0, inf, nan])]).astype(f4)
sig = lambda t: np.where(t >= 0, 1 / (1 + np.exp(-np.abs(t))), np.exp(-np.abs(t)) / (1 + np.exp(-np.abs(t))))
sp = lambda t: np.logaddexp(0, t)
case('exp', 'an_exp(X)', up(np.exp, m), m, rtol=10)
case('exp_far', 'an_exp(X)', up(np.exp, f4([88.7, 89.5, -87, -110, 1000, -1000])), f4([88.7, 89.5, -87, -110, 1000, -1000]), rtol=90, atol=1e-30)
case('exp_i32', 'an_exp(X)', up(np.exp, a), a, rtol=10)
case('exp2', 'an_exp2(X)', up(np.exp2, m), m, rtol=2)
case('expm1', 'an_expm1(X)', up(np.expm1, m), m, rtol=12)
case('expm1_near', 'an_expm1(X)', up(np.expm1, near), near, rtol=4)
case('log', 'an_log(X)', up(np.log, pos), pos, rtol=4, atol=0.5)
case('log2', 'an_log2(X)', up(np.log2, pos), pos, rtol=2, atol=0.5)
case('log10', 'an_log10(X)', up(np.log10, pos), pos, rtol=4, atol=0.5)
case('log1p', 'an_log1p(X)', up(np.log1p, pos), pos, rtol=4)
case('log1p_near', 'an_log1p(X)', up(np.log1p, near), near, rtol=4)
case('sqrt', 'an_sqrt(X)', up(np.sqrt, pos), pos)
case('rsqrt', 'an_rsqrt(X)', up(lambda t: 1 / np.sqrt(t), pos), pos, rtol=2)
case('reciprocal', 'an_reciprocal(X)', (1 / special), special)
case('sin', 'an_sin(X)', up(np.sin, ang), ang, atol=2, rtol=2)
case('cos', 'an_cos(X)', up(np.cos, ang), ang, atol=4)
t = r(20, lo=-1.4, hi=1.4)
case('tan', 'an_tan(X)', up(np.tan, t), t, rtol=24)
case('sinh', 'an_sinh(X)', up(np.sinh, m), m, rtol=14)
case('sinh_near', 'an_sinh(X)', up(np.sinh, near), near, rtol=6)
case('sinh_far', 'an_sinh(X)', up(np.sinh, f4([80, -80, 200, -200])), f4([80, -80, 200, -200]), rtol=90)
case('cosh', 'an_cosh(X)', up(np.cosh, m), m, rtol=12)
case('tanh', 'an_tanh(X)', up(np.tanh, m), m, rtol=6)
case('tanh_near', 'an_tanh(X)', up(np.tanh, near), near, rtol=6)
case('tanh_far', 'an_tanh(X)', f4([1, -1, 1]), f4([50, -50, 1e30]))
case('erf', 'an_erf(X)', up(erf, m), m, rtol=4)
case('floor', 'an_floor(X)', np.floor(special), special)
case('ceil', 'an_ceil(X)', np.ceil(special), special)
case('round', 'an_round(X)', np.round(special), special)
case('round_more', 'an_round(X)', np.round(m * 3), m * 3)
case('trunc', 'an_trunc(X)', np.trunc(special), special)
case('floor_i32', 'an_floor(X)', a, a)
m8 = m.astype(f8)
case('exp_f64', 'an_exp(X)', np.exp(m8), m8, rtol=1e-7)
case('tanh_f64', 'an_tanh(X)', np.tanh(m8), m8, rtol=1e-7)
case('log1p_f64', 'an_log1p(X)', np.log1p(pos.astype(f8)), pos.astype(f8), rtol=1e-7)
case('sigmoid_f16', 'an_sigmoid(X)', up(sig, m.astype(f2), dtype=f2), m.astype(f2), rtol=2**13)
case('erf_f64', 'an_erf(X)', erf(m8), m8, rtol=1e-7)

# --- activations ------------------------------------------------------------------------------------------------------
case('relu', 'an_relu(X)', np.where(special > 0, special, np.where(np.isnan(special), special, 0)).astype(f4), special)
case('relu_i32', 'an_relu(X)', np.maximum(a, 0), a)
case('relu6', 'an_relu6(X)', np.clip(m * 2, 0, 6).astype(f4) + 0, m * 2)
case('leaky_relu', 'an_leaky_relu(X, 0.125)', np.where(m > 0, m, m * f4(0.125)), m)
case('elu', 'an_elu(X, 1.5)', up(lambda q: np.where(q > 0, q, 1.5 * np.expm1(np.minimum(q, 0))), m), m, rtol=12)
case('selu', 'an_selu(X)', up(lambda q: 1.0507009873554805 * np.where(q > 0, q, 1.6732632423543772 * np.expm1(np.minimum(q, 0))), m), m, rtol=12)
case('sigmoid', 'an_sigmoid(X)', up(sig, m), m, rtol=12)
case('sigmoid_far', 'an_sigmoid(X)', f4([1, 0, 1, 0]), f4([200, -200, inf, -inf]))
case('log_sigmoid', 'an_log_sigmoid(X)', up(lambda q: -sp(-q), m), m, rtol=12)
case('hard_sigmoid', 'an_hard_sigmoid(X)', up(lambda q: np.clip(q / 6 + 0.5, 0, 1), m), m, atol=2)
case('silu', 'an_silu(X)', up(lambda q: q * sig(q), m[:-3]), m[:-3], rtol=12)
case('hard_swish', 'an_hard_swish(X)', up(lambda q: q * np.clip(q / 6 + 0.5, 0, 1), m[:-3]), m[:-3], atol=8)
case('gelu', 'an_gelu(X)', up(lambda q: q / 2 * (1 + erf(q / np.sqrt(2))), m[:-3]), m[:-3], rtol=4, atol=8)
case('gelu_tanh', 'an_gelu_tanh(X)', up(lambda q: q / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (q + 0.044715 * q**3))), m[:40]), m[:40], rtol=40, atol=2)
case('softplus', 'an_softplus(X)', up(sp, m), m, rtol=12)
case('softplus_far', 'an_softplus(X)', f4([200, 0]), f4([200, -200]))
case('softsign', 'an_softsign(X)', up(lambda q: q / (1 + np.abs(q)), m[:-3]), m[:-3], rtol=2)
case('mish', 'an_mish(X)', up(lambda q: q * np.tanh(sp(q)), m[:-3]), m[:-3], rtol=24)

# --- reductions -------------------------------------------------------------------------------------------------------
x = r(3, 5, 7)
s64 = x.astype(f8)
case('sum_all', 'an_sum(X, AN_ALL, false)', f4(s64.sum()), x, rtol=16, atol=64)
case('sum_axis', 'an_sum(X, AN_DIMS(1), false)', s64.sum(1).astype(f4), x, atol=16)
case('sum_axes_keep', 'an_sum(X, AN_DIMS(-1, 0), true)', s64.sum((0, 2), keepdims=True).astype(f4), x, atol=32)
case('sum_rank0', 'an_sum(X, AN_ALL, false)', f4(3), f4(3))
case('sum_bool', 'an_sum(X, AN_DIMS(0), false)', (x > 0).sum(0).astype(np.int32), x > 0)
case('sum_i8', 'an_sum(X, AN_ALL, false)', np.array(1000, np.int32), np.full(10, 100, np.int8))
case('sum_u8', 'an_sum(X, AN_ALL, false)', np.array(2000, np.uint32), np.full(10, 200, np.uint8))
case('sum_i64', 'an_sum(X, AN_ALL, false)', np.array(3 * 2**40, np.int64), np.full(3, 2**40, np.int64))
case('sum_empty', 'an_sum(X, AN_DIMS(0), false)', np.zeros(3, f4), np.zeros((0, 3), f4))
case('sum_of_empty', 'an_sum(X, AN_DIMS(1), true)', np.zeros((0, 1), f4), np.zeros((0, 3), f4))
h = np.full(4096, 16.25, f2)
case('sum_f16', 'an_sum(X, AN_ALL, false)', f2(inf), h)
case('mean_f16', 'an_mean(X, AN_ALL, false)', f2(16.25), h)
case('sum_bf16', 'an_cast(an_sum(an_cast(X, AN_BF16), AN_ALL, false), AN_F32)', f4(1000 * 1.0 // 8 * 8), np.ones(1000, f4))
case('prod', 'an_prod(X, AN_DIMS(2), false)', s64.prod(2).astype(f4), x, rtol=8)
case('prod_i32', 'an_prod(X, AN_ALL, false)', np.array(-5040, np.int32), np.array([1, -2, 3, 4, 5, 6, 7], np.int32))
case('prod_empty', 'an_prod(X, AN_ALL, false)', f4(1), np.zeros(0, f4))
xn = x.copy()
xn[1, 2, 3] = nan
case('max', 'an_max(X, AN_DIMS(0), false)', x.max(0), x)
case('max_nan', 'an_max(X, AN_DIMS(2), true)', xn.max(2, keepdims=True), xn)
case('min_nan', 'an_min(X, AN_ALL, false)', f4(nan), xn)
case('min', 'an_min(X, AN_DIMS(0, 1), false)', x.min((0, 1)), x)
case('max_inf', 'an_max(X, AN_ALL, false)', f4(-inf), f4([-inf, -inf]))
case('max_i32', 'an_max(X, AN_ALL, false)', np.array(-2, np.int32), np.array([-2, -5, -2**31], np.int32))
case('min_u8', 'an_min(X, AN_ALL, false)', np.array(3, np.uint8), np.array([3, 255], np.uint8))
case('max_i64', 'an_max(X, AN_ALL, false)', np.array(-2**60, np.int64), np.array([-2**60, -2**61], np.int64))
case('mean', 'an_mean(X, AN_DIMS(1), false)', s64.mean(1).astype(f4), x, atol=6)
case('mean_i32', 'an_mean(X, AN_ALL, false)', f4(a.mean()), a, rtol=2)
case('mean_empty', 'an_mean(X, AN_DIMS(0), false)', f4([nan, nan]), np.zeros((0, 2), f4))
case('var', 'an_var(X, AN_DIMS(2), 1, false)', s64.var(2, ddof=1).astype(f4), x, rtol=16)
case('var_0', 'an_var(X, AN_ALL, 0, true)', s64.var(keepdims=True).astype(f4), x, rtol=32)
case('var_one', 'an_var(X, AN_ALL, 1, false)', f4(nan), f4([3]))
case('std', 'an_std(X, AN_DIMS(0, 1), 1, false)', s64.std((0, 1), ddof=1).astype(f4), x, rtol=16)
case('any', 'an_any(X, AN_DIMS(1), false)', (x > 1.8).any(1), x > 1.8)
case('all', 'an_all(X, AN_DIMS(1), false)', (x > -1.8).all(1), x > -1.8)
case('any_f32', 'an_any(X, AN_ALL, false)', np.array(True), f4([0, -0.0, nan]))
case('any_empty', 'an_any(X, AN_ALL, false)', np.array(False), np.zeros(0, bool))
case('all_empty', 'an_all(X, AN_ALL, false)', np.array(True), np.zeros(0, bool))
lse = lambda q, ax: np.log(np.exp(q - q.max(ax, keepdims=True)).sum(ax)) + q.max(ax)
case('logsumexp', 'an_logsumexp(X, AN_DIMS(1), false)', lse(s64, 1).astype(f4), x, rtol=8, atol=4)
case('logsumexp_big', 'an_logsumexp(X, AN_ALL, false)', f4(1000 + math.log(2)), f4([1000, 1000]), rtol=2)
case('logsumexp_inf', 'an_logsumexp(X, AN_DIMS(1), false)', f4([-inf, inf, 1]), f4([[-inf, -inf], [inf, 1], [1, -inf]]))
case('norm', 'an_norm(X, AN_DIMS(2), false)', np.sqrt((s64**2).sum(2)).astype(f4), x, rtol=8)
tie = f4([[1, 3, 3, 2], [nan, 5, nan, 9], [-inf, -inf, -inf, -inf], [0, -0.0, 0, -1]])
case('argmax', 'an_argmax(X, 1, false)', tie.argmax(1).astype(np.int32), tie)
case('argmin', 'an_argmin(X, 1, true)', tie.argmin(1)[:, None].astype(np.int32), tie)
case('argmax_axis0', 'an_argmax(X, 0, false)', x.argmax(0).astype(np.int32), x)
case('argmax_i32', 'an_argmax(X, -1, false)', np.array(4, np.int32), np.array([1, 2, -3, 2, 7, 7], np.int32))
case('argmin_bool', 'an_argmin(X, 0, false)', np.array(1, np.int32), np.array([True, False, False]))
case('cumsum', 'an_cumsum(X, 1)', s64.cumsum(1).astype(f4), x, atol=16)
case('cumsum_0', 'an_cumsum(X, 0)', a[:, None].repeat(3, 1).cumsum(0).astype(np.int32), a[:, None].repeat(3, 1))
long = ri(2, 150)
case('cumsum_blocks', 'an_cumsum(X, 1)', long.cumsum(1).astype(np.int32), long)
longer = ri(2500, lo=-100, hi=100, dtype=np.int16)
case('cumsum_levels', 'an_cumsum(X, 0)', longer.cumsum().astype(np.int32), longer)
case('cumsum_empty', 'an_cumsum(X, 0)', np.zeros(0, f4), np.zeros(0, f4))
case('cumsum_64', 'an_cumsum(X, 0)', np.arange(1, 65).astype(np.int32), np.ones(64, np.int32))
case('cumsum_65', 'an_cumsum(X, 0)', np.arange(1, 66).astype(np.int32), np.ones(65, np.int32))
case('cumsum_nan', 'an_cumsum(X, 0)', f4([1, nan, nan]), f4([1, nan, 2]))
soft = lambda q, ax: np.exp(q - q.max(ax, keepdims=True)) / np.exp(q - q.max(ax, keepdims=True)).sum(ax, keepdims=True)
case('softmax', 'an_softmax(X, 1)', soft(s64, 1).astype(f4), x, rtol=12)
case('softmax_big', 'an_softmax(X, -1)', f4([[0.5, 0.5], [1, 0]]), f4([[1e4, 1e4], [0, -inf]]))
case('log_softmax', 'an_log_softmax(X, 0)', (s64 - lse(s64, 0)).astype(f4), x, rtol=8, atol=8)

# --- products ---------------------------------------------------------------------------------------------------------
A, B = r(2, 3, 5, 7), r(3, 7, 4)
mm = lambda p, q: np.matmul(p.astype(f8), q.astype(f8)).astype(f4)
case('matmul', 'an_matmul(X, Y)', mm(A[0, 0], B[0]), A[0, 0], B[0], atol=16)
case('matmul_batched', 'an_matmul(X, Y)', mm(A, B), A, B, atol=16)
case('matmul_vector', 'an_matmul(X, Y)', mm(A[0, 0], B[0, :, 0]), A[0, 0], B[0, :, 0], atol=16)
case('vector_matmul', 'an_matmul(X, Y)', mm(A[0, 0, 0], B), A[0, 0, 0], B, atol=16)
case('matmul_vectors', 'an_matmul(X, Y)', mm(A[0, 0, 0], A[0, 0, 1]), A[0, 0, 0], A[0, 0, 1], atol=16)
case('matmul_i8', 'an_matmul(X, Y)', (np.full((2, 3), 100, np.int8) @ np.full((3, 1), 3, np.int8)), np.full((2, 3), 100, np.int8), np.full((3, 1), 3, np.int8))
case('matmul_bool', 'an_matmul(X, Y)', t2[:, None] @ t2[None], t2[:, None], t2[None])
case('matmul_k0', 'an_matmul(X, Y)', np.zeros((2, 3), f4), np.zeros((2, 0), f4), np.zeros((0, 3), f4))
case('matmul_k1', 'an_matmul(X, Y)', A[0, 0, :, :1] @ B[0, :1], A[0, 0, :, :1], B[0, :1])
case('matmul_f16', 'an_matmul(X, Y)', np.full((1, 1), 2049, f4).astype(f2), np.array([[2048, 1, 1]], f2), np.ones((3, 1), f2) * f2([[1], [0.5], [0.5]]))
case('matmul_promote', 'an_matmul(X, Y)', f4([[1.5]]), np.array([[3]], np.int32), f4([[0.5]]))
case('dot', 'an_dot(X, Y)', mm(A[0, 0, 0], A[0, 0, 1]), A[0, 0, 0], A[0, 0, 1], atol=16)
case('outer', 'an_outer(X, Y)', np.outer(v[:3], v[3:8]), v[:3], v[3:8])
W, bias = r(4, 7), r(4)
case('linear', 'an_linear(X, Y, Z)', (A[0].astype(f8) @ W.T.astype(f8) + bias).astype(f4), A[0], W, bias, atol=16)
case('linear_no_bias', 'an_linear(X, Y, NULL)', (A[0, 0, 0].astype(f8) @ W.T.astype(f8)).astype(f4), A[0, 0, 0], W, atol=16)

# --- convolution and pooling ------------------------------------------------------------------------------------------
def windows(q, k, s, d):
    n = len(k)
    o = [(q.shape[q.ndim - n + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(n)]
    out = np.zeros(q.shape[:q.ndim - n] + tuple(o) + tuple(k), q.dtype)
    for oi in np.ndindex(*o):
        for ki in np.ndindex(*k):
            out[(...,) + oi + ki] = q[(...,) + tuple(oi[i] * s[i] + ki[i] * d[i] for i in range(n))]
    return out


def conv(q, w, bias=None, s=None, d=None, p=None, groups=1):
    n = w.ndim - 2
    s, d, p = s or [1] * n, d or [1] * n, p or [(0, 0)] * n
    q = np.pad(q.astype(f8), [(0, 0), (0, 0)] + list(p))
    win = windows(q, w.shape[2:], s, d)  # N C out k
    N, C, F = q.shape[0], q.shape[1], w.shape[0]
    o = win.shape[2:2 + n]
    out = np.zeros((N, F) + o)
    for f in range(F):
        g = f // (F // groups)
        cs = slice(g * (C // groups), (g + 1) * (C // groups))
        out[:, f] = (win[:, cs] * w[f].astype(f8).reshape((1, C // groups) + (1,) * n + w.shape[2:])).sum(axis=(1,) + tuple(range(2 + n, 2 + 2 * n)))
    if bias is not None:
        out += bias.reshape((1, F) + (1,) * n)
    return out.astype(f4)


def desc(kind='an_conv_desc', **kw):
    return '&(%s){%s}' % (kind, ', '.join('.%s = %s' % (k, ('{%s}' % ', '.join(map(str, q))) if isinstance(q, (list, tuple)) else q) for k, q in kw.items()))


x1, w1 = r(2, 3, 9), r(4, 3, 3)
case('conv1d', 'an_conv1d(X, Y, NULL, NULL)', conv(x1, w1), x1, w1, atol=16)
case('conv1d_all', 'an_conv1d(X, Y, Z, %s)' % desc(stride=[2], dilation=[2], pad_before=[1], pad_after=[3]),
     conv(x1, w1, bias, [2], [2], [(1, 3)]), x1, w1, bias, atol=16)
case('conv1d_stride_5', 'an_conv1d(X, Y, NULL, %s)' % desc(stride=[5]), conv(x1, w1, s=[5]), x1, w1, atol=16)
case('conv1d_big_dilation', 'an_conv1d(X, Y, NULL, %s)' % desc(dilation=[4]), conv(x1, w1, d=[4]), x1, w1, atol=16)
x2, w2 = r(2, 4, 6, 7), r(6, 4, 3, 2)
case('conv2d', 'an_conv2d(X, Y, NULL, NULL)', conv(x2, w2), x2, w2, atol=32)
case('conv2d_pad', 'an_conv2d(X, Y, NULL, %s)' % desc(pad_before=[1, 1], pad_after=[1, 0]), conv(x2, w2, p=[(1, 1), (1, 0)]), x2, w2, atol=32)
case('conv2d_stride', 'an_conv2d(X, Y, NULL, %s)' % desc(stride=[2, 3]), conv(x2, w2, s=[2, 3]), x2, w2, atol=32)
case('conv2d_dilation', 'an_conv2d(X, Y, NULL, %s)' % desc(stride=[1, 2], dilation=[2, 3]), conv(x2, w2, s=[1, 2], d=[2, 3]), x2, w2, atol=32)
w2g = r(6, 2, 3, 3)
case('conv2d_groups', 'an_conv2d(X, Y, NULL, %s)' % desc(groups=2, stride=[2, 2], pad_before=[1, 1], pad_after=[1, 1]),
     conv(x2, w2g, s=[2, 2], p=[(1, 1), (1, 1)], groups=2), x2, w2g, atol=32)
w2d = r(4, 1, 3, 3)
case('conv2d_depthwise', 'an_conv2d(X, Y, Z, %s)' % desc(groups=4), conv(x2, w2d, bias, groups=4), x2, w2d, bias, atol=16)
w21 = r(5, 4, 1, 1)
case('conv2d_1x1', 'an_conv2d(X, Y, NULL, NULL)', conv(x2, w21), x2, w21, atol=8)
case('conv2d_1x1_stride', 'an_conv2d(X, Y, NULL, %s)' % desc(stride=[2, 2]), conv(x2, w21, s=[2, 2]), x2, w21, atol=8)
w2s = r(3, 4, 2, 2)
case('conv2d_patches', 'an_conv2d(X, Y, NULL, %s)' % desc(stride=[2, 2]), conv(x2, w2s, s=[2, 2]), x2, w2s, atol=16)
w2f = r(2, 4, 6, 7)
case('conv2d_whole', 'an_conv2d(X, Y, NULL, NULL)', conv(x2, w2f), x2, w2f, atol=64)
case('conv2d_empty_batch', 'an_conv2d(X, Y, NULL, NULL)', np.zeros((0, 6, 4, 6), f4), np.zeros((0, 4, 6, 7), f4), w2)
x3, w3 = r(1, 2, 4, 5, 4), r(3, 2, 2, 3, 2)
case('conv3d', 'an_conv3d(X, Y, NULL, %s)' % desc(stride=[1, 2, 2], pad_before=[0, 1, 0], pad_after=[0, 1, 0], dilation=[2, 1, 1]),
     conv(x3, w3, s=[1, 2, 2], d=[2, 1, 1], p=[(0, 0), (1, 1), (0, 0)]), x3, w3, atol=32)
case('windows', 'an_windows(X, 1, L(3), L(2), NULL)', windows(v, (3,), (2,), (1,)), v)
case('windows_2d', 'an_windows(X, 2, L(2, 3), L(1, 2), L(2, 1))', windows(x2[0, 0], (2, 3), (1, 2), (2, 1)), x2[0, 0])


def pool(q, k, s=None, d=None, p=None, value=0.0):
    n = len(k)
    q = np.pad(q.astype(f8), [(0, 0)] * (q.ndim - n) + list(p or [(0, 0)] * n), constant_values=value)
    return windows(q, k, s or k, d or [1] * n), tuple(range(-n, 0))


def mp(*args, **kw):
    w, ax = pool(*args, value=-inf, **kw)
    return w.max(ax).astype(f4)


def ap(*args, **kw):
    w, ax = pool(*args, **kw)
    return w.mean(ax).astype(f4)


P = 'an_pool_desc'
xm = x2 - 5  # negative, so that padding with 0 would win
case('max_pool1d', 'an_max_pool1d(X, %s)' % desc(P, kernel=[2]), mp(x1, (2,)), x1)
case('max_pool2d', 'an_max_pool2d(X, %s)' % desc(P, kernel=[2, 2]), mp(xm, (2, 2)), xm)
case('max_pool2d_pad', 'an_max_pool2d(X, %s)' % desc(P, kernel=[3, 3], stride=[2, 2], pad_before=[1, 1], pad_after=[1, 1]),
     mp(xm, (3, 3), [2, 2], None, [(1, 1), (1, 1)]), xm)
case('max_pool2d_dilation', 'an_max_pool2d(X, %s)' % desc(P, kernel=[2, 2], stride=[1, 1], dilation=[2, 3]), mp(xm, (2, 2), [1, 1], [2, 3]), xm)
case('max_pool2d_i8', 'an_max_pool2d(X, %s)' % desc(P, kernel=[2, 2], pad_before=[1, 1]),
     np.array([[-5, -6], [-7, -1]], np.int8), np.array([[-5, -9, -6], [-7, -8, -1], [-20, -21, -22]], np.int8))
case('max_pool3d', 'an_max_pool3d(X, %s)' % desc(P, kernel=[2, 2, 2], stride=[1, 2, 1]), mp(x3, (2, 2, 2), [1, 2, 1]), x3)
case('avg_pool1d', 'an_avg_pool1d(X, %s)' % desc(P, kernel=[3], stride=[2]), ap(x1, (3,), [2]), x1, atol=4)
case('avg_pool2d', 'an_avg_pool2d(X, %s)' % desc(P, kernel=[2, 3], stride=[1, 2], pad_before=[1, 1], pad_after=[1, 1]),
     ap(x2, (2, 3), [1, 2], None, [(1, 1), (1, 1)]), x2, atol=4)
wsum, ax = pool(x2, (2, 3), [1, 2], None, [(1, 1), (1, 1)])
wone, _ = pool(np.ones_like(x2), (2, 3), [1, 2], None, [(1, 1), (1, 1)])
case('avg_pool2d_exclude', 'an_avg_pool2d(X, %s)' % desc(P, kernel=[2, 3], stride=[1, 2], pad_before=[1, 1], pad_after=[1, 1], exclude_pad='true'),
     (wsum.sum(ax) / wone.sum(ax)).astype(f4), x2, atol=4)
case('avg_pool3d', 'an_avg_pool3d(X, %s)' % desc(P, kernel=[2, 2, 2]), ap(x3, (2, 2, 2)), x3, atol=4)

# --- by index ---------------------------------------------------------------------------------------------------------
x = r(4, 5, 3)
idx = rng.integers(0, 4, (2, 5, 3)).astype(np.int32)
case('gather_0', 'an_gather(X, 0, Y)', np.take_along_axis(x, idx, 0), x, idx)
idx1 = rng.integers(0, 5, (4, 7, 3)).astype(np.int64)
case('gather_1', 'an_gather(X, 1, Y)', np.take_along_axis(x, idx1, 1), x, idx1)
case('gather_smaller', 'an_gather(X, -1, Y)', np.take_along_axis(x[:2, :3], idx1[:2, :3, :2] % 3, 2), x, (idx1[:2, :3, :2] % 3))
case('gather_outside', 'an_gather(X, 0, Y)', f4([1, 0, 0, 3]), f4([1, 2, 3]), np.array([0, 3, -1, 2], np.int32))
case('gather_bool', 'an_gather(X, 0, Y)', np.array([True, False]), np.array([False, True]), np.array([1, 0], np.uint8))
case('gather_nan', 'an_gather(X, 0, Y)', f4([1, inf]), f4([nan, 1, inf]), np.array([1, 2], np.int32))
case('take_0', 'an_take(X, Y, 0)', x.take(idx[:, :, 0], 0), x, idx[:, :, 0])
case('take_1', 'an_take(X, Y, 1)', x.take(idx[0, :, :2], 1), x, idx[0, :, :2])
case('take_last', 'an_take(X, Y, -1)', x.take([2, 0], 2), x, np.array([2, 0], np.int64))
case('take_scalar', 'an_take(X, Y, 1)', x[:, 3], x, np.array(3, np.int32))
case('take_u8', 'an_take(X, Y, 0)', np.arange(300).astype(f4)[[255, 0]], np.arange(300).astype(f4), np.array([255, 0], np.uint8))
case('index_select', 'an_index_select(X, 1, Y)', x[:, [4, 0, 4]], x, np.array([4, 0, 4], np.int32))
case('embedding', 'an_embedding(X, Y)', x[:, :, 0][idx[:, :3, 0]], x[:, :, 0], idx[:, :3, 0])
case('embedding_none', 'an_embedding(X, Y)', np.zeros((0, 5), f4), x[:, :, 0], np.zeros(0, np.int32))
case('one_hot', 'an_one_hot(X, 4, AN_F32)', np.eye(4, dtype=f4)[idx[0]], idx[0])
case('one_hot_outside', 'an_one_hot(X, 3, AN_I32)', np.array([[0, 0, 0], [0, 1, 0]], np.int32), np.array([-1, 1], np.int8))


def scatter(base, index, src, axis):
    out = base.astype(f8)
    for i in np.ndindex(*index.shape):
        j = list(i)
        j[axis] = index[i]
        out[tuple(j)] += src[i]
    return out.astype(base.dtype)


src = r(2, 5, 3)
case('scatter_add', 'an_scatter_add(X, 0, Y, Z)', scatter(x, idx, src, 0), x, idx, src, atol=4)
i2 = rng.integers(0, 5, (3, 4, 2)).astype(np.int32)
s2 = r(3, 4, 2)
case('scatter_add_smaller', 'an_scatter_add(X, 1, Y, Z)', scatter(x, i2, s2, 1), x, i2, s2, atol=4)
case('scatter_add_i32', 'an_scatter_add(X, 0, Y, Z)', np.array([1, 22, 3], np.int32), np.array([1, 2, 3], np.int32),
     np.array([1, 1, 5, 1], np.int32), np.array([5, 7, 100, 8], np.int32))

# --- normalisation and losses -----------------------------------------------------------------------------------------
x = r(3, 4, 6)
w, b2 = r(6), r(6)
ln = lambda q, ax, eps: (q - q.mean(ax, keepdims=True)) / np.sqrt(q.var(ax, keepdims=True) + eps)
case('layer_norm', 'an_layer_norm(X, 1, Y, Z, 1e-5)', (ln(x.astype(f8), -1, 1e-5) * w + b2).astype(f4), x, w, b2, atol=16)
case('layer_norm_plain', 'an_layer_norm(X, 2, NULL, NULL, 1e-3)', ln(x.astype(f8), (1, 2), 1e-3).astype(f4), x, atol=16)
case('layer_norm_offset', 'an_layer_norm(X, 1, NULL, NULL, 1e-5)', ln((x[0] + f4(100)).astype(f8), -1, 1e-5).astype(f4), x[0] + f4(100), atol=1024)
case('rms_norm', 'an_rms_norm(X, 1, Y, 1e-6)', (x / np.sqrt((x.astype(f8)**2).mean(-1, keepdims=True) + 1e-6) * w).astype(f4), x, w, atol=8)
lg = r(5, 7, lo=-5, hi=5)
tg = rng.integers(0, 7, 5).astype(np.int32)
lsm = lambda q, ax: q.astype(f8) - np.expand_dims(lse(q.astype(f8), ax), ax)
per = -lsm(lg, 1)[np.arange(5), tg]
case('cross_entropy', 'an_cross_entropy(X, Y, NULL)', f4(per.mean()), lg, tg, rtol=8)
case('cross_entropy_sum', 'an_cross_entropy(X, Y, &(an_cross_entropy_desc){.reduction = AN_REDUCE_SUM})', f4(per.sum()), lg, tg, rtol=8)
case('cross_entropy_none', 'an_cross_entropy(X, Y, &(an_cross_entropy_desc){.reduction = AN_REDUCE_NONE})', per.astype(f4), lg, tg, rtol=8, atol=8)
tgi = tg.copy().astype(np.int64)
tgi[[1, 3]] = -100
case('cross_entropy_ignore', 'an_cross_entropy(X, Y, &(an_cross_entropy_desc){.has_ignore_index = true, .ignore_index = -100})', f4(per[[0, 2, 4]].mean()), lg, tgi, rtol=8)
sm = 0.9 * per + 0.1 * -lsm(lg, 1).mean(1)
case('cross_entropy_smooth', 'an_cross_entropy(X, Y, &(an_cross_entropy_desc){.label_smoothing = 0.1})', f4(sm.mean()), lg, tg, rtol=8)
smi = sm[[0, 2, 4]].sum()
case('cross_entropy_smooth_ignore', 'an_cross_entropy(X, Y, &(an_cross_entropy_desc){AN_REDUCE_SUM, true, -100, 0.1})', f4(smi), lg, tgi, rtol=8)
case('cross_entropy_vector', 'an_cross_entropy(X, Y, NULL)', f4(per[0]), lg[0], np.array(tg[0]), rtol=8, atol=8)
lgb, tgb = r(2, 3, 4), rng.integers(0, 3, (2, 4)).astype(np.uint8)
perb = -np.take_along_axis(lsm(lgb, 1), tgb[:, None].astype(np.int64), 1)[:, 0]
case('cross_entropy_spatial', 'an_cross_entropy(X, Y, NULL)', f4(perb.mean()), lgb, tgb, rtol=8)
case('cross_entropy_far', 'an_cross_entropy(X, Y, NULL)', f4(2000), f4([[1000, -1000]]), np.array([1], np.int32))
case('nll_loss', 'an_nll_loss(X, Y, NULL)', f4(-lg[np.arange(5), tg].astype(f8).mean()), lg, tg, rtol=8, atol=4)
p, q = r(3, 4), r(3, 4)
case('mse_loss', 'an_mse_loss(X, Y, AN_REDUCE_MEAN)', f4(((p.astype(f8) - q)**2).mean()), p, q, rtol=8)
case('mse_loss_none', 'an_mse_loss(X, Y, AN_REDUCE_NONE)', (p - q[0])**2, p, q[0])
case('l1_loss', 'an_l1_loss(X, Y, AN_REDUCE_SUM)', f4(np.abs(p.astype(f8) - q).sum()), p, q, rtol=8)
d8 = p.astype(f8) - q
case('huber_loss', 'an_huber_loss(X, Y, 0.7, AN_REDUCE_MEAN)', f4(np.where(abs(d8) <= 0.7, d8**2 / 2, 0.7 * (abs(d8) - 0.35)).mean()), p, q, rtol=8)
tb = rng.random((3, 4)).astype(f4)
case('bce', 'an_bce_with_logits(X, Y, AN_REDUCE_MEAN)', f4((sp(p.astype(f8)) - tb * p).mean()), p, tb, rtol=8, atol=4)
case('bce_far', 'an_bce_with_logits(X, Y, AN_REDUCE_NONE)', f4([0, 200]), f4([200, 200]), f4([1, 0]))


# --- writing ----------------------------------------------------------------------------------------------------------
def number(value, dtype):
    if dtype.kind != 'f':
        return str(int(value))
    value = float(value)
    if math.isnan(value):
        return 'nan'
    if math.isinf(value):
        return 'inf' if value > 0 else '-inf'
    return ('%.17g' if dtype.itemsize == 8 else '%.9g') % value


def array(label, value):
    name = {'b': 'bool', 'i': 'i%d', 'u': 'u%d', 'f': 'f%d'}[value.dtype.kind]
    name = name % (8 * value.dtype.itemsize) if '%' in name else name
    return ' '.join([label, name] + [str(n) for n in value.shape] + [':'] + [number(q, value.dtype) for q in value.ravel()])


with open('cases.def', 'w') as out:
    out.write('/* cases.def - the calls whose results are in values.txt, once.   CASE(name, call)\n'
              ' * Made by make.py: change it there. */\n')
    for name, call, *_ in cases:
        out.write('CASE(%s, %s)\n' % (name, call))
with open('values.txt', 'w') as out:
    out.write('# Made by make.py with NumPy. Tolerances are in units of 2^-23.\n')
    for name, call, result, ins, rtol, atol in cases:
        out.write('case %s %.9g %.9g\n' % (name, rtol, atol))
        for i in ins:
            out.write(array('in', i) + '\n')
        out.write(array('out', result) + '\n')
print(len(cases), 'cases')
