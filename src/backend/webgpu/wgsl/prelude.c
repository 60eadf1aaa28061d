/* prelude.c - the functions that shaders call, each before those that call it. A shader gets the ones it uses.
 *
 * Choices among values are made without branches, by select and by & and | of bools: && and || are branches, and compilers that
 * put each call in place take far longer over a few dozen of these. */
#include "backend/webgpu/wgsl/emit.h"

/* {name, text}. A name is found in a shader by "name(". */
static const wgsl_function functions[] = {
    /* --- a result that no compiler sees through: some take (a + b) - a for b. an_zero is 0, which only the launch knows --- */
    {"an_keep", "fn an_keep(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ an_zero); }\n"},

    /* --- packed elements --- */
    {"an_byte", "fn an_byte(w: u32, i: u32) -> u32 { return (w >> ((i & 3u) * 8u)) & 0xffu; }\n"},
    {"an_short", "fn an_short(w: u32, i: u32) -> u32 { return (w >> ((i & 1u) * 16u)) & 0xffffu; }\n"},

    /* --- f32: comparisons by bits where the machine may do as it likes --- */
    {"an_is_nan", "fn an_is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"},
    {"an_ordered", /* a number as an integer of the same order, -0 and 0 alike; not for NaN */
     "fn an_ordered(x: f32) -> i32 {\n"
     "  let b = bitcast<i32>(x);\n"
     "  return select(b, -(b & 0x7fffffff), b < 0);\n"
     "}\n"},
    {"an_less",
     "fn an_less(x: f32, y: f32) -> bool { return (an_ordered(x) < an_ordered(y)) & !an_is_nan(x) & !an_is_nan(y); }\n"},
    {"an_equal", "fn an_equal(x: f32, y: f32) -> bool { return (an_ordered(x) == an_ordered(y)) & !an_is_nan(x) & !an_is_nan(y); }\n"},
    /* As integers, two negative numbers are in the order of their magnitudes. Of -0 and 0 the first. A NaN with a sign is the greatest of
     * all without one, one without is the greatest with one: so one comparison finds what the order does not. */
    {"an_max",
     "fn an_max(x: f32, y: f32) -> f32 {\n"
     "  let a = bitcast<i32>(x); let b = bitcast<i32>(y);\n"
     "  let u = max(bitcast<u32>(x), bitcast<u32>(y));\n"
     "  let r = select(max(a, b), min(a, b), (a & b) < 0);\n"
     "  let s = select(r, a, ((a ^ (-2147483647 - 1)) | b) == 0);\n"
     "  return bitcast<f32>(select(bitcast<u32>(s), u, u > 0xff800000u));\n"
     "}\n"},
    {"an_min",
     "fn an_min(x: f32, y: f32) -> f32 {\n"
     "  let a = bitcast<i32>(x); let b = bitcast<i32>(y);\n"
     "  let u = max(a, b);\n"
     "  let r = select(min(a, b), u, (a & b) < 0);\n"
     "  let s = select(r, a, (a | (b ^ (-2147483647 - 1))) == 0);\n"
     "  return bitcast<f32>(select(s, u, u > 0x7f800000));\n"
     "}\n"},
    {"an_trunc",
     "fn an_trunc(x: f32) -> f32 {\n"
     "  let b = bitcast<u32>(x);\n"
     "  let e = i32((b >> 23u) & 0xffu) - 127;\n"
     "  if (e >= 23) { return x; }\n"
     "  if (e < 0) { return bitcast<f32>(b & 0x80000000u); }\n"
     "  return bitcast<f32>(b & ~(0x7fffffu >> u32(e)));\n"
     "}\n"},

    /* --- integers of 32 bits --- */
    {"an_div_u32", "fn an_div_u32(x: u32, y: u32) -> u32 { return select(x / max(y, 1u), 0u, y == 0u); }\n"},
    {"an_mod_u32", "fn an_mod_u32(x: u32, y: u32) -> u32 { return select(x % max(y, 1u), 0u, y == 0u); }\n"},
    {"an_div_i32",
     "fn an_div_i32(x: i32, y: i32) -> i32 {\n"
     "  let q = bitcast<u32>(abs(x)) / max(bitcast<u32>(abs(y)), 1u);\n"
     "  let s = bitcast<i32>(select(q, ~q + 1u, (x ^ y) < 0));\n"
     "  return select(s, 0, y == 0);\n"
     "}\n"},
    {"an_mod_i32",
     "fn an_mod_i32(x: i32, y: i32) -> i32 {\n"
     "  let r = bitcast<u32>(abs(x)) % max(bitcast<u32>(abs(y)), 1u);\n"
     "  return select(bitcast<i32>(select(r, ~r + 1u, x < 0)), 0, y == 0);\n"
     "}\n"},
    {"an_floordiv_i32",
     "fn an_floordiv_i32(x: i32, y: i32) -> i32 {\n"
     "  let q = an_div_i32(x, y);\n"
     "  let r = an_mod_i32(x, y);\n"
     "  return select(q, q - 1, (r != 0) & ((r ^ y) < 0));\n"
     "}\n"},
    {"an_floormod_i32",
     "fn an_floormod_i32(x: i32, y: i32) -> i32 {\n"
     "  let r = an_mod_i32(x, y);\n"
     "  return select(r, r + y, (r != 0) & ((r ^ y) < 0));\n"
     "}\n"},
    {"an_shl_i32", "fn an_shl_i32(x: i32, y: i32) -> i32 { return select(0, x << (u32(y) & 31u), u32(y) < 32u); }\n"},
    {"an_shl_u32", "fn an_shl_u32(x: u32, y: u32) -> u32 { return select(0u, x << (y & 31u), y < 32u); }\n"},
    {"an_shr_i32", "fn an_shr_i32(x: i32, y: i32) -> i32 { return x >> min(u32(y), 31u); }\n"},
    {"an_shr_u32", "fn an_shr_u32(x: u32, y: u32) -> u32 { return select(0u, x >> (y & 31u), y < 32u); }\n"},

    /* --- integers of 64 bits: vec2<u32>(low, high) --- */
    {"an_add64",
     "fn an_add64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let low = x.x + y.x;\n"
     "  return vec2<u32>(low, x.y + y.y + select(0u, 1u, low < x.x));\n"
     "}\n"},
    {"an_neg64", "fn an_neg64(x: vec2<u32>) -> vec2<u32> { return vec2<u32>(~x.x + 1u, ~x.y + select(0u, 1u, x.x == 0u)); }\n"},
    {"an_sub64", "fn an_sub64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> { return vec2<u32>(x.x - y.x, x.y - y.y - select(0u, 1u, x.x < y.x)); }\n"},
    {"an_mulhi", /* 32 x 32 to 64 bits */
     "fn an_mulhi(x: u32, y: u32) -> vec2<u32> {\n"
     "  let a = x & 0xffffu; let b = x >> 16u; let c = y & 0xffffu; let d = y >> 16u;\n"
     "  let ac = a * c; let ad = a * d; let bc = b * c;\n"
     "  let mid = (ac >> 16u) + (ad & 0xffffu) + (bc & 0xffffu);\n"
     "  return vec2<u32>(x * y, b * d + (ad >> 16u) + (bc >> 16u) + (mid >> 16u));\n"
     "}\n"},
    {"an_mul64",
     "fn an_mul64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let p = an_mulhi(x.x, y.x);\n"
     "  return vec2<u32>(p.x, p.y + x.x * y.y + x.y * y.x);\n"
     "}\n"},
    {"an_less_u64", "fn an_less_u64(x: vec2<u32>, y: vec2<u32>) -> bool { return (x.y < y.y) | ((x.y == y.y) & (x.x < y.x)); }\n"},
    {"an_less_i64",
     "fn an_less_i64(x: vec2<u32>, y: vec2<u32>) -> bool {\n"
     "  return (bitcast<i32>(x.y) < bitcast<i32>(y.y)) | ((x.y == y.y) & (x.x < y.x));\n"
     "}\n"},
    {"an_left64", /* by 0..63 */
     "fn an_left64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
     "  let s = n & 31u; let low = x.x << s;\n"
     "  return select(vec2<u32>(low, (x.y << s) | ((x.x >> 1u) >> (31u - s))), vec2<u32>(0u, low), n >= 32u);\n"
     "}\n"},
    {"an_right64",
     "fn an_right64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
     "  let s = n & 31u; let high = x.y >> s;\n"
     "  return select(vec2<u32>((x.x >> s) | ((x.y << 1u) << (31u - s)), high), vec2<u32>(high, 0u), n >= 32u);\n"
     "}\n"},
    {"an_shl64",
     "fn an_shl64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  if (y.y != 0u || y.x >= 64u) { return vec2<u32>(0u, 0u); }\n"
     "  return an_left64(x, y.x);\n"
     "}\n"},
    {"an_shr_u64",
     "fn an_shr_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  if (y.y != 0u || y.x >= 64u) { return vec2<u32>(0u, 0u); }\n"
     "  return an_right64(x, y.x);\n"
     "}\n"},
    {"an_shr_i64",
     "fn an_shr_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let n = select(y.x, 63u, (y.y != 0u) | (y.x >= 64u));\n"
     "  let s = select(0u, 0xffffffffu, (x.y >> 31u) != 0u);\n"
     "  let m = vec2<u32>(s, s);\n"
     "  return an_right64(x ^ m, n) ^ m;\n"
     "}\n"},
    {"an_divmod64", /* quotient in xy, remainder in zw, bit by bit from the first that can be set; y is not 0 */
     "fn an_divmod64(x: vec2<u32>, y: vec2<u32>) -> vec4<u32> {\n"
     "  if (x.y == 0u && y.y == 0u) { return vec4<u32>(x.x / y.x, 0u, x.x % y.x, 0u); }\n"
     "  var q = vec2<u32>(0u, 0u);\n"
     "  var r = vec2<u32>(0u, 0u);\n"
     "  for (var i = 63; i >= 0; i--) {\n"
     "    let carry = r.y >> 31u;\n"
     "    r = an_left64(r, 1u);\n"
     "    r.x |= an_right64(x, u32(i)).x & 1u;\n"
     "    q = an_left64(q, 1u);\n"
     "    if ((carry != 0u) | !an_less_u64(r, y)) { r = an_sub64(r, y); q.x |= 1u; }\n"
     "  }\n"
     "  return vec4<u32>(q, r);\n"
     "}\n"},
    {"an_div_u64",
     "fn an_div_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  if (all(y == vec2<u32>(0u, 0u))) { return y; }\n"
     "  return an_divmod64(x, y).xy;\n"
     "}\n"},
    {"an_mod_u64",
     "fn an_mod_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  if (all(y == vec2<u32>(0u, 0u))) { return y; }\n"
     "  return an_divmod64(x, y).zw;\n"
     "}\n"},
    {"an_is_neg64", "fn an_is_neg64(x: vec2<u32>) -> bool { return (x.y >> 31u) != 0u; }\n"},
    {"an_abs64",
     "fn an_abs64(x: vec2<u32>) -> vec2<u32> {\n"
     "  if (an_is_neg64(x)) { return an_neg64(x); }\n"
     "  return x;\n"
     "}\n"},
    {"an_div_i64",
     "fn an_div_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let q = an_div_u64(an_abs64(x), an_abs64(y));\n"
     "  if (an_is_neg64(x) != an_is_neg64(y)) { return an_neg64(q); }\n"
     "  return q;\n"
     "}\n"},
    {"an_mod_i64",
     "fn an_mod_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let r = an_mod_u64(an_abs64(x), an_abs64(y));\n"
     "  if (an_is_neg64(x)) { return an_neg64(r); }\n"
     "  return r;\n"
     "}\n"},
    {"an_floordiv_i64",
     "fn an_floordiv_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let q = an_div_i64(x, y);\n"
     "  let r = an_mod_i64(x, y);\n"
     "  if (any(r != vec2<u32>(0u, 0u)) && an_is_neg64(r) != an_is_neg64(y)) { return an_add64(q, vec2<u32>(0xffffffffu, 0xffffffffu)); }\n"
     "  return q;\n"
     "}\n"},
    {"an_floormod_i64",
     "fn an_floormod_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {\n"
     "  let r = an_mod_i64(x, y);\n"
     "  if (any(r != vec2<u32>(0u, 0u)) && an_is_neg64(r) != an_is_neg64(y)) { return an_add64(r, y); }\n"
     "  return r;\n"
     "}\n"},
    {"an_widen_i32", "fn an_widen_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }\n"},
    {"an_index_of_i64", /* what an index cannot hold stays beyond every bound that it is compared with */
     "fn an_index_of_i64(x: vec2<u32>) -> i32 {\n"
     "  let s = bitcast<i32>(x.y);\n"
     "  if (s == (bitcast<i32>(x.x) >> 31u)) { return bitcast<i32>(x.x); }\n"
     "  return select(0x7fffffff, i32(-2147483648), s < 0);\n"
     "}\n"},
    {"an_index_of_u64", "fn an_index_of_u64(x: vec2<u32>) -> i32 { return select(bitcast<i32>(x.x), 0x7fffffff, (x.y != 0u) | (x.x > 0x7fffffffu)); }\n"},

    /* --- integers to f32: rounded to nearest even by hand --- */
    {"an_round_u64", /* |x| to f32 bits; odd: towards zero, the last bit set if that was not exact */
     "fn an_round_u64(x: vec2<u32>, odd: bool) -> u32 {\n"
     "  if (all(x == vec2<u32>(0u, 0u))) { return 0u; }\n"
     "  let lead = select(countLeadingZeros(x.y), 32u + countLeadingZeros(x.x), x.y == 0u);\n"
     "  let m = an_left64(x, lead);\n" /* the first bit is bit 63: 24 bits kept, 40 dropped */
     "  var kept = m.y >> 8u;\n"
     "  let dropped = m.y & 0xffu;\n"
     "  if (odd) {\n"
     "    if (dropped != 0u || m.x != 0u) { kept |= 1u; }\n"
     "  } else if (dropped > 0x80u || (dropped == 0x80u && (m.x != 0u || (kept & 1u) != 0u))) {\n"
     "    kept += 1u;\n" /* may carry into the exponent */
     "  }\n"
     "  return ((190u - lead) << 23u) + (kept - 0x800000u);\n"
     "}\n"},
    {"an_f32_of_u64", "fn an_f32_of_u64(x: vec2<u32>) -> f32 { return bitcast<f32>(an_round_u64(x, false)); }\n"},
    {"an_f32_of_i64",
     "fn an_f32_of_i64(x: vec2<u32>) -> f32 { return bitcast<f32>(an_round_u64(an_abs64(x), false) | (x.y & 0x80000000u)); }\n"},
    {"an_odd_of_u64", "fn an_odd_of_u64(x: vec2<u32>) -> f32 { return bitcast<f32>(an_round_u64(x, true)); }\n"},
    {"an_odd_of_i64",
     "fn an_odd_of_i64(x: vec2<u32>) -> f32 { return bitcast<f32>(an_round_u64(an_abs64(x), true) | (x.y & 0x80000000u)); }\n"},
    {"an_f32_of_u32",
     "fn an_f32_of_u32(x: u32) -> f32 {\n"
     "  if (x < 0x1000000u) { return f32(x); }\n"
     "  return an_f32_of_u64(vec2<u32>(x, 0u));\n"
     "}\n"},
    {"an_f32_of_i32",
     "fn an_f32_of_i32(x: i32) -> f32 {\n"
     "  if (abs(x) < 0x1000000 && x != i32(-2147483648)) { return f32(x); }\n"
     "  return an_f32_of_i64(an_widen_i32(x));\n"
     "}\n"},

    /* --- f32 to integers: towards zero, to the ends of the type, NaN to 0 --- */
    {"an_u64_of_bits", /* of |x| < 2^64 */
     "fn an_u64_of_bits(b: u32) -> vec2<u32> {\n"
     "  let e = i32((b >> 23u) & 0xffu) - 127;\n"
     "  let m = vec2<u32>((b & 0x7fffffu) | 0x800000u, 0u);\n"
     "  if (e < 0) { return vec2<u32>(0u, 0u); }\n"
     "  if (e <= 23) { return an_right64(m, u32(23 - e)); }\n"
     "  return an_left64(m, u32(e - 23));\n"
     "}\n"},
    {"an_u32_of_f32",
     "fn an_u32_of_f32(x: f32) -> u32 {\n"
     "  let b = bitcast<u32>(x);\n"
     "  if (an_is_nan(x) || (b >> 31u) != 0u) { return 0u; }\n"
     "  if (b >= 0x4f800000u) { return 0xffffffffu; }\n"
     "  return u32(x);\n"
     "}\n"},
    {"an_i32_of_f32",
     "fn an_i32_of_f32(x: f32) -> i32 {\n"
     "  let b = bitcast<u32>(x);\n"
     "  if (an_is_nan(x)) { return 0; }\n"
     "  if ((b & 0x7fffffffu) >= 0x4f000000u) { return select(0x7fffffff, i32(-2147483648), (b >> 31u) != 0u); }\n"
     "  return i32(x);\n"
     "}\n"},
    {"an_u64_of_f32",
     "fn an_u64_of_f32(x: f32) -> vec2<u32> {\n"
     "  let b = bitcast<u32>(x);\n"
     "  if (an_is_nan(x) || (b >> 31u) != 0u) { return vec2<u32>(0u, 0u); }\n"
     "  if (b >= 0x5f800000u) { return vec2<u32>(0xffffffffu, 0xffffffffu); }\n"
     "  return an_u64_of_bits(b);\n"
     "}\n"},
    {"an_i64_of_f32",
     "fn an_i64_of_f32(x: f32) -> vec2<u32> {\n"
     "  let b = bitcast<u32>(x);\n"
     "  let neg = (b >> 31u) != 0u;\n"
     "  if (an_is_nan(x)) { return vec2<u32>(0u, 0u); }\n"
     "  if ((b & 0x7fffffffu) >= 0x5f000000u) {\n"
     "    if (neg) { return vec2<u32>(0u, 0x80000000u); }\n"
     "    return vec2<u32>(0xffffffffu, 0x7fffffffu);\n"
     "  }\n"
     "  let m = an_u64_of_bits(b & 0x7fffffffu);\n"
     "  if (neg) { return an_neg64(m); }\n"
     "  return m;\n"
     "}\n"},

    /* --- narrow floats: integers only, so that no machine's way with small numbers matters --- */
    {"an_encode", /* f32 bits to a format of eb exponent and mb mantissa bits; top: the largest, nan: its NaN */
     "fn an_encode(b: u32, eb: u32, mb: u32, top: u32, nan: u32) -> u32 {\n"
     "  let sign = (b >> 31u) << (eb + mb);\n"
     "  let mag = b & 0x7fffffffu;\n"
     "  if (mag > 0x7f800000u) { return sign | nan; }\n"
     "  let bias = (1u << (eb - 1u)) - 1u;\n"
     "  let e = i32(mag >> 23u);\n"
     "  let least = i32(128u - bias);\n" /* of the exponents of its normal numbers */
     "  var drop = 23u - mb;\n"
     "  var m = mag;\n"
     "  if (e < least) {\n" /* below: the leading one is written out and shifted down */
     "    if (least == 1) { m = mag; } else {\n"
     "      drop = min(drop + u32(least - max(e, 1)), 31u);\n"
     "      m = (mag & 0x7fffffu) | select(0u, 0x800000u, e > 0);\n"
     "    }\n"
     "  }\n"
     "  let half = 1u << (drop - 1u);\n"
     "  let rest = m & ((1u << drop) - 1u);\n"
     "  var r = m >> drop;\n"
     "  if (rest > half || (rest == half && (r & 1u) != 0u)) { r += 1u; }\n"
     "  if (e >= least) { r -= (127u - bias) << mb; }\n"
     "  return sign | min(r, top);\n"
     "}\n"},
    {"an_decode",
     "fn an_decode(v: u32, eb: u32, mb: u32, special: u32) -> f32 {\n"
     "  let sign = (v >> (eb + mb)) << 31u;\n"
     "  let mag = v & ((1u << (eb + mb)) - 1u);\n"
     "  let bias = (1u << (eb - 1u)) - 1u;\n"
     "  let up = mag << (23u - mb);\n"
     "  if (mag >= special) { return bitcast<f32>(sign | up | 0x7f800000u); }\n"
     "  if (mag >= (1u << mb)) { return bitcast<f32>(sign | (up + ((127u - bias) << 23u))); }\n"
     "  if (mag == 0u) { return bitcast<f32>(sign); }\n"
     "  let lead = countLeadingZeros(mag) - (31u - mb);\n" /* 1..mb: how far below the least normal number */
     "  return bitcast<f32>(sign | ((mag << (23u - mb + lead)) & 0x7fffffu) | ((128u - bias - lead) << 23u));\n"
     "}\n"},
    {"an_bits_f16", "fn an_bits_f16(x: f32) -> u32 { return an_encode(bitcast<u32>(x), 5u, 10u, 0x7c00u, 0x7e00u); }\n"},
    {"an_bits_bf16", "fn an_bits_bf16(x: f32) -> u32 { return an_encode(bitcast<u32>(x), 8u, 7u, 0x7f80u, 0x7fc0u); }\n"},
    {"an_bits_f8e4m3", "fn an_bits_f8e4m3(x: f32) -> u32 { return an_encode(bitcast<u32>(x), 4u, 3u, 0x7eu, 0x7fu); }\n"},
    {"an_bits_f8e5m2", "fn an_bits_f8e5m2(x: f32) -> u32 { return an_encode(bitcast<u32>(x), 5u, 2u, 0x7cu, 0x7eu); }\n"},
    {"an_from_f16", "fn an_from_f16(v: u32) -> f32 { return an_decode(v, 5u, 10u, 0x7c00u); }\n"},
    {"an_from_bf16", "fn an_from_bf16(v: u32) -> f32 { return bitcast<f32>(v << 16u); }\n"},
    {"an_from_f8e4m3", "fn an_from_f8e4m3(v: u32) -> f32 { return an_decode(v, 4u, 3u, 0x7fu); }\n"},
    {"an_from_f8e5m2", "fn an_from_f8e5m2(v: u32) -> f32 { return an_decode(v, 5u, 2u, 0x7cu); }\n"},
    {"an_round_f16", "fn an_round_f16(x: f32) -> f32 { return an_from_f16(an_bits_f16(x)); }\n"},
    {"an_round_bf16", "fn an_round_bf16(x: f32) -> f32 { return an_from_bf16(an_bits_bf16(x)); }\n"},
    {"an_round_f8e4m3", "fn an_round_f8e4m3(x: f32) -> f32 { return an_from_f8e4m3(an_bits_f8e4m3(x)); }\n"},
    {"an_round_f8e5m2", "fn an_round_f8e5m2(x: f32) -> f32 { return an_from_f8e5m2(an_bits_f8e5m2(x)); }\n"},
    {NULL, NULL},
};

enum { ALL_MAX = 160 };

/* Is name called in text? */
static bool calls(const char *text, const char *name)
{
    const size_t len = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if (at[len] == '(') return true;
    return false;
}

/* Appends a table; of two functions of one name the first counts. */
static size_t add(const wgsl_function **all, size_t n, const wgsl_function *table)
{
    for (size_t i = 0; table[i].name && n < ALL_MAX; i++) {
        bool known = false;
        for (size_t k = 0; k < n && !known; k++) known = strcmp(all[k]->name, table[i].name) == 0;
        if (!known) all[n++] = &table[i];
    }
    return n;
}

void wgsl_prelude(wgsl_emit *e, const char *body, an_str *out)
{
    const wgsl_function *all[ALL_MAX];
    bool wanted[ALL_MAX] = {false}, inf = e->uses_inf;
    size_t n = e->caps->exact_f16 ? add(all, 0, wgsl_f16_built_in) : 0;
    n = add(all, n, functions);
    n = add(all, n, e->caps->inexact_fma ? wgsl_fma_by_hand : wgsl_fma_built_in);
    if (e->caps->exact_div) n = add(all, n, wgsl_division_built_in);
    n = add(all, n, wgsl_math);
    for (size_t i = n; i-- > 0;) {
        wanted[i] = calls(body, all[i]->name);
        for (size_t k = i + 1; k < n && !wanted[i]; k++) wanted[i] = wanted[k] && calls(all[k]->text, all[i]->name);
        inf = inf || (wanted[i] && strstr(all[i]->text, "an_inf"));
    }
    for (size_t i = 0; i < n; i++) e->uses_zero = e->uses_zero || (wanted[i] && strstr(all[i]->text, "an_zero"));
    if (e->uses_zero) an_str_put(out, "var<private> an_zero: u32;\n");
    if (inf) an_str_put(out, "var<private> an_inf: u32 = 0x7f800000u;\n");
    for (size_t i = 0; i < n; i++)
        if (wanted[i]) an_str_put(out, all[i]->text);
}
