/* math.c - f32 fma, division, square root, exp2, log2, sin and erf in WGSL, which lets the built-in ones be off by several units
 * in the last place, and flush what is below the normal numbers. These are what docs/SEMANTICS.md says, but that sums and
 * products inside them may flush; what they give below the normal numbers is put together from bits.
 *
 * The coefficients of exp2, log2 and erf are those of backend/cpu/math.c. */
#include "backend/webgpu/wgsl/emit.h"

/* fma where the machine's rounds twice: in integers, without a branch. The product of two 24-bit significands and the third one
 * are placed with their first bit at 62 (61 to 63 for the product); the smaller is shifted down, its last bit sticky, which
 * rounding to 24 bits cannot tell from what was there. Adding 0 leaves the product where it is. */
const wgsl_function wgsl_fma_by_hand[] = {
    {"an_sticky64",
     "fn an_sticky64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
     "  let m = min(n, 63u);\n"
     "  let r = an_right64(x, m);\n"
     "  return vec2<u32>(r.x | select(0u, 1u, any(an_left64(r, m) != x)), r.y);\n"
     "}\n"},
    {"an_fma",
     "fn an_fma(x: f32, y: f32, z: f32) -> f32 {\n"
     "  let a = bitcast<u32>(x); let b = bitcast<u32>(y); let c = bitcast<u32>(z);\n"
     "  let ma = a & 0x7fffffffu; let mb = b & 0x7fffffffu; let mc = c & 0x7fffffffu;\n"
     "  let s = (a ^ b) & 0x80000000u; let t = c & 0x80000000u;\n"
     "  let la = countLeadingZeros(max(ma & 0x7fffffu, 1u)) - 8u; let lb = countLeadingZeros(max(mb & 0x7fffffu, 1u)) - 8u;\n"
     "  let lc = countLeadingZeros(max(mc & 0x7fffffu, 1u)) - 8u;\n"
     "  let ta = ma < 0x800000u; let tb = mb < 0x800000u; let tc = mc < 0x800000u;\n"
     "  let fa = select((ma & 0x7fffffu) | 0x800000u, ma << la, ta); let ea = select(i32(ma >> 23u), 1 - i32(la), ta);\n"
     "  let fb = select((mb & 0x7fffffu) | 0x800000u, mb << lb, tb); let eb = select(i32(mb >> 23u), 1 - i32(lb), tb);\n"
     "  let fc = select((mc & 0x7fffffu) | 0x800000u, mc << lc, tc); let ec = select(i32(mc >> 23u), 1 - i32(lc), tc);\n"
     "  let ep = ea + eb - 127 + 1;\n"
     "  let d = select(ep - ec, 0, mc == 0u);\n"
     "  let p = an_sticky64(an_left64(an_mulhi(fa, fb), 15u), u32(max(-d, 0)));\n"
     "  let q = an_sticky64(an_left64(vec2<u32>(fc, 0u), 39u), u32(max(d, 0)));\n"
     "  let less = an_less_u64(p, q);\n"
     "  let m = select(an_sub64(select(p, q, less), select(q, p, less)), an_add64(p, q), s == t);\n"
     "  let sign = select(s, t, less);\n"
     "  let lead = select(countLeadingZeros(m.y), 32u + countLeadingZeros(m.x), m.y == 0u);\n"
     "  let e = ep + max(-d, 0) + 1 - i32(lead);\n"
     "  let v = an_sticky64(an_left64(m, lead), u32(clamp(1 - e, 0, 64)));\n"
     "  let rest = v.y & 0xffu; let low = v.y >> 8u;\n"
     "  let r = low + select(0u, 1u, (rest > 0x80u) | ((rest == 0x80u) & ((v.x != 0u) | ((low & 1u) != 0u))));\n"
     "  let bits = select((u32(max(e, 1) - 1) << 23u) + r, an_inf, e >= 255);\n"
     "  let w = bitcast<f32>(select(sign | min(bits, an_inf), 0u, (m.x | m.y) == 0u));\n"
     "  return select(select(w, z, mc >= 0x7f800000u), x * y + z, (ma >= 0x7f800000u) | (mb >= 0x7f800000u) | (ma == 0u) | (mb == 0u));\n"
     "}\n"},
    /* of n numbers, as a loop: what compiles for a processor puts every call in place, and takes minutes over a few of these */
    {"an_fma4",
     "fn an_fma4(n: i32, x: vec4<f32>, y: vec4<f32>, z: vec4<f32>) -> vec4<f32> {\n"
     "  var r = z;\n"
     "  for (var i = 0; i < n; i++) { r[i] = an_fma(x[i], y[i], z[i]); }\n"
     "  return r;\n"
     "}\n"},
    /* a b - p, p being a b rounded (Dekker 1971) */
    {"an_err",
     "fn an_err(a: f32, b: f32, p: f32) -> f32 {\n"
     "  let c = an_keep(4097.0f * a); let d = an_keep(4097.0f * b);\n"
     "  let ah = c - an_keep(c - a); let bh = d - an_keep(d - b);\n"
     "  let al = a - ah; let bl = b - bh;\n"
     "  return ((ah * bh - p) + ah * bl + al * bh) + al * bl;\n"
     "}\n"},
    /* a b + c, hardly worse than rounded once */
    {"an_near",
     "fn an_near(a: f32, b: f32, c: f32) -> f32 {\n"
     "  let p = an_keep(a * b);\n"
     "  let s = an_keep(p + c);\n"
     "  let t = an_keep(s - p);\n"
     "  return s + (((p - (s - t)) + (c - t)) + an_err(a, b, p));\n"
     "}\n"},
    {NULL, NULL},
};

/* The same where fma() rounds once. */
const wgsl_function wgsl_fma_built_in[] = {
    {"an_fma", "fn an_fma(x: f32, y: f32, z: f32) -> f32 { return fma(x, y, z); }\n"},
    {"an_err", "fn an_err(a: f32, b: f32, p: f32) -> f32 { return fma(a, b, -p); }\n"},
    {"an_near", "fn an_near(a: f32, b: f32, c: f32) -> f32 { return fma(a, b, c); }\n"},
    {NULL, NULL},
};

/* Drivers take f32(f16(x)) for x: the bits go through what they cannot know to change nothing. */
const wgsl_function wgsl_f16_built_in[] = {
    {"an_round_f16", "fn an_round_f16(x: f32) -> f32 { return f32(bitcast<vec2<f16>>(bitcast<u32>(vec2<f16>(f16(x), 0.0h)) ^ an_zero).x); }\n"},
    {NULL, NULL},
};

/* Where division and square root are rounded as IEEE 754 says. */
/* Kept from what is done with them: Mesa takes sqrt(x) * sqrt(x) for x, and 0 for x / 0 or 0 / x where it knows the 0. */
const wgsl_function wgsl_division_built_in[] = {
    {"an_div", "fn an_div(x: f32, y: f32) -> f32 { return an_keep(an_keep(x) / an_keep(y)); }\n"},
    {"an_sqrt", "fn an_sqrt(x: f32) -> f32 { return an_keep(sqrt(x)); }\n"},
    {NULL, NULL},
};

/* an_inf is a variable of the shader. */
const wgsl_function wgsl_math[] = {
    {"an_nan",
     "fn an_nan() -> f32 { return bitcast<f32>(an_inf | 0x400000u); }\n"},
    /* a finite number but 0: 24 bits of significand, and the exponent of the first of them */
    {"an_split",
     "fn an_split(b: u32) -> vec2<i32> {\n"
     "  let mag = b & 0x7fffffffu;\n"
     "  if (mag < 0x800000u) {\n"
     "    let lead = countLeadingZeros(mag) - 8u;\n"
     "    return vec2<i32>(i32(mag << lead), -126 - i32(lead));\n"
     "  }\n"
     "  return vec2<i32>(i32((mag & 0x7fffffu) | 0x800000u), i32(mag >> 23u) - 127);\n"
     "}\n"},
    /* 26 bits, the last one sticky, rounded once */
    {"an_pack",
     "fn an_pack(sign: u32, e: i32, m: u32) -> f32 {\n"
     "  var be = e + 127;\n"
     "  var v = m;\n"
     "  if (be <= 0) {\n"
     "    let s = u32(min(1 - be, 31));\n"
     "    v = (v >> s) | select(0u, 1u, (v & ((1u << s) - 1u)) != 0u);\n"
     "    be = 1;\n"
     "  }\n"
     "  var r = v >> 2u;\n"
     "  let rest = v & 3u;\n"
     "  if (rest == 3u || (rest == 2u && (r & 1u) != 0u)) { r += 1u; }\n"
     "  let bits = (u32(be - 1) << 23u) + r;\n"
     "  if (be >= 255 || bits >= 0x7f800000u) { return bitcast<f32>(sign | an_inf); }\n"
     "  return bitcast<f32>(sign | bits);\n"
     "}\n"},
    /* Between 2^-60 and 2^60 by a reciprocal and two corrections (Markstein 1990; 1 / y may be off by three units). Else significands
     * in [1, 2), the quotient cut off after 24 bits, and what is left over. */
    {"an_div",
     "fn an_div(x: f32, y: f32) -> f32 {\n"
     "  let a = bitcast<u32>(x); let b = bitcast<u32>(y);\n"
     "  if (((a >> 23u) & 0xffu) - 67u < 120u && ((b >> 23u) & 0xffu) - 67u < 120u) {\n"
     "    let g = 1.0f / y;\n"
     "    let h = an_fma(an_fma(-y, g, 1.0f), g, g);\n"
     "    let q = x * h;\n"
     "    let c = an_fma(an_fma(-y, q, x), h, q);\n"
     "    return an_fma(an_fma(-y, c, x), h, c);\n"
     "  }\n"
     "  let ma = a & 0x7fffffffu; let mb = b & 0x7fffffffu;\n"
     "  let sign = (a ^ b) & 0x80000000u;\n"
     "  if (ma > 0x7f800000u || mb > 0x7f800000u || (ma == 0x7f800000u && mb == ma) || (ma == 0u && mb == 0u)) { return an_nan(); }\n"
     "  if (ma == 0x7f800000u || mb == 0u) { return bitcast<f32>(sign | an_inf); }\n"
     "  if (ma == 0u || mb == 0x7f800000u) { return bitcast<f32>(sign); }\n"
     "  let p = an_split(a); let q = an_split(b);\n"
     "  let low = p.x < q.x;\n"
     "  let n = bitcast<f32>((u32(p.x) & 0x7fffffu) | select(0x3f800000u, 0x40000000u, low));\n"
     "  let d = bitcast<f32>((u32(q.x) & 0x7fffffu) | 0x3f800000u);\n"
     "  var t = n / d;\n"
     "  t = clamp(an_fma(an_fma(-t, d, n), 1.0f / d, t), 1.0f, 1.9999999f);\n"
     "  var r = an_fma(-t, d, n);\n"
     "  if (r < 0.0f) { t = bitcast<f32>(bitcast<u32>(t) - 1u); r = an_fma(-t, d, n); }\n"
     "  let up = bitcast<f32>(bitcast<u32>(t) + 1u);\n"
     "  let s = an_fma(-up, d, n);\n"
     "  if (s >= 0.0f) { t = up; r = s; }\n"
     "  let half = d * 5.9604644775390625e-8f;\n"
     "  let m = ((bitcast<u32>(t) & 0x7fffffu) | 0x800000u) << 2u;\n"
     "  return an_pack(sign, p.y - q.y - select(0, 1, low), m | select(0u, 2u, r >= half) | select(0u, 1u, (r != 0.0f) & (r != half)));\n"
     "}\n"},
    {"an_sqrt",
     "fn an_sqrt(x: f32) -> f32 {\n"
     "  let a = bitcast<u32>(x);\n"
     "  if ((a & 0x7fffffffu) == 0u || a == 0x7f800000u) { return x; }\n"
     "  if (a > 0x7f800000u) { return an_nan(); }\n"
     "  let p = an_split(a);\n"
     "  let odd = (p.y & 1) != 0;\n"
     "  let n = bitcast<f32>((u32(p.x) & 0x7fffffu) | select(0x3f800000u, 0x40000000u, odd));\n"
     "  var t = sqrt(n);\n"
     "  t = clamp(an_fma(an_fma(-t, t, n), 0.5f / t, t), 1.0f, 1.9999999f);\n"
     "  var r = an_fma(-t, t, n);\n"
     "  if (r < 0.0f) { t = bitcast<f32>(bitcast<u32>(t) - 1u); r = an_fma(-t, t, n); }\n"
     "  let up = bitcast<f32>(bitcast<u32>(t) + 1u);\n"
     "  let s = an_fma(-up, up, n);\n"
     "  if (s >= 0.0f) { t = up; r = s; }\n"
     "  let m = ((bitcast<u32>(t) & 0x7fffffu) | 0x800000u) << 2u;\n"
     "  return an_pack(0u, (p.y - select(0, 1, odd)) / 2, m | select(0u, 2u, r > t * 1.1920928955078125e-7f) | select(0u, 1u, r != 0.0f));\n"
     "}\n"},
    /* 2^n 2^f, |f| <= 1/2 */
    {"an_exp2_part", /* 2^f, |f| <= 1/2 */
     "fn an_exp2_part(f: f32) -> f32 {\n"
     "  var p = 0.00015329264f;\n"
     "  p = fma(p, f, 0.00133909693f);\n"
     "  p = fma(p, f, 0.00961849932f);\n"
     "  p = fma(p, f, 0.0555035956f);\n"
     "  p = fma(p, f, 0.240226477f);\n"
     "  p = an_near(p, f, 0.693147182f);\n"
     "  return an_near(p, f, 1.0f);\n"
     "}\n"},
    {"an_exp2",
     "fn an_exp2(x: f32) -> f32 {\n"
     "  if ((bitcast<u32>(x) & 0x7fffffffu) < 0x42fa0000u) {\n" /* 125 */
     "    let n = round(x);\n"
     "    return bitcast<f32>(bitcast<i32>(an_exp2_part(x - n)) + (i32(n) << 23u));\n"
     "  }\n"
     "  if (an_is_nan(x)) { return x; }\n"
     "  let t = clamp(x, -160.0f, 130.0f);\n"
     "  let n = round(t);\n"
     "  let b = bitcast<u32>(an_exp2_part(t - n));\n"
     "  return an_pack(0u, i32(n) + i32(b >> 23u) - 127, ((b & 0x7fffffu) | 0x800000u) << 2u);\n"
     "}\n"},
    /* 2^n m, sqrt(1/2) <= m < sqrt(2): n + f log2(e) + f^2 Q(f), the small parts first */
    {"an_log2",
     "fn an_log2(x: f32) -> f32 {\n"
     "  let b = bitcast<u32>(x);\n"
     "  if ((b & 0x7fffffffu) == 0u) { return bitcast<f32>(an_inf | 0x80000000u); }\n"
     "  if (b > 0x7f800000u) { return an_nan(); }\n"
     "  if (b == 0x7f800000u) { return x; }\n"
     "  let s = an_split(b);\n"
     "  let high = s.x > 0xb504f3;\n"
     "  let m = bitcast<f32>((u32(s.x) & 0x7fffffu) | select(0x3f800000u, 0x3f000000u, high));\n"
     "  let n = f32(s.y + select(0, 1, high));\n"
     "  let f = m - 1.0f;\n"
     "  var p = -0.110920765f;\n"
     "  p = fma(p, f, 0.187390864f);\n"
     "  p = fma(p, f, -0.191296011f);\n"
     "  p = fma(p, f, 0.204438806f);\n"
     "  p = fma(p, f, -0.239571184f);\n"
     "  p = fma(p, f, 0.288573653f);\n"
     "  p = fma(p, f, -0.36069864f);\n"
     "  p = an_near(p, f, 0.480898172f);\n"
     "  p = an_near(p, f, -0.721347332f);\n"
     "  var y = an_near(f * f, p, f * 1.92596303e-8f);\n"
     "  y = an_near(f, 1.44269502f, y);\n"
     "  return n + y;\n"
     "}\n"},
    /* near 0 x + x P(x^2); past 1 1 - 2^Q(|x|) */
    {"an_erf",
     "fn an_erf(x: f32) -> f32 {\n"
     "  if (an_is_nan(x)) { return x; }\n"
     "  let t = abs(x);\n"
     "  if (t < 1e-10f) {\n"
     "    let b = bitcast<u32>(x);\n"
     "    if ((b & 0x7fffffffu) == 0u) { return x; }\n"
     "    let s = an_split(b);\n"
     "    let m = bitcast<f32>((u32(s.x) & 0x7fffffu) | 0x3f800000u);\n"
     "    let r = bitcast<u32>(fma(m, 0.128379166f, m));\n"
     "    return an_pack(b & 0x80000000u, s.y + i32(r >> 23u) - 127, ((r & 0x7fffffu) | 0x800000u) << 2u);\n"
     "  }\n"
     "  if (t < 1.0f) {\n"
     "    let z = x * x;\n"
     "    var p = 7.80690389e-05f;\n"
     "    p = fma(p, z, -0.00079978531f);\n"
     "    p = fma(p, z, 0.0051871622f);\n"
     "    p = fma(p, z, -0.0268533472f);\n"
     "    p = fma(p, z, 0.112835787f);\n"
     "    p = an_near(p, z, -0.37612626f);\n"
     "    p = an_near(p, z, 0.128379166f);\n"
     "    return an_near(x, p, x);\n"
     "  }\n"
     "  let z = min(t, 4.0f);\n"
     "  var p = -1.06283539e-06f;\n"
     "  p = fma(p, z, -1.63292571e-05f);\n"
     "  p = fma(p, z, 0.000546602125f);\n"
     "  p = fma(p, z, -0.00576233026f);\n"
     "  p = fma(p, z, 0.0357420966f);\n"
     "  p = fma(p, z, -0.155606478f);\n"
     "  p = fma(p, z, -0.914182961f);\n"
     "  p = an_near(p, z, -1.62935352f);\n"
     "  p = an_near(p, z, 0.000217289795f);\n"
     "  let y = 1.0f - an_exp2(p);\n"
     "  return bitcast<f32>(bitcast<u32>(y) | (bitcast<u32>(x) & 0x80000000u));\n"
     "}\n"},
    /* a + b and what rounding took from it */
    {"an_two",
     "fn an_two(a: f32, b: f32) -> vec2<f32> {\n"
     "  let s = an_keep(a + b);\n"
     "  let t = an_keep(s - a);\n"
     "  return vec2<f32>(s, (a - (s - t)) + (b - t));\n"
     "}\n"},
    /* pairs of f32 whose sum is the number */
    {"an_dadd",
     "fn an_dadd(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {\n"
     "  let s = an_two(a.x, b.x);\n"
     "  let l = s.y + (a.y + b.y);\n"
     "  let h = an_keep(s.x + l);\n"
     "  return vec2<f32>(h, l - (h - s.x));\n"
     "}\n"},
    {"an_dmul",
     "fn an_dmul(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {\n"
     "  let p = an_keep(a.x * b.x);\n"
     "  let l = an_err(a.x, b.x, p) + (a.x * b.y + a.y * b.x);\n"
     "  let h = an_keep(p + l);\n"
     "  return vec2<f32>(h, l - (h - p));\n"
     "}\n"},
    /* 2/pi, 32 bits at a time */
    {"an_pi_word",
     "fn an_pi_word(i: u32) -> u32 {\n"
     "  switch (i) {\n"
     "    case 0u: { return 0xa2f9836eu; }\n"
     "    case 1u: { return 0x4e441529u; }\n"
     "    case 2u: { return 0xfc2757d1u; }\n"
     "    case 3u: { return 0xf534ddc0u; }\n"
     "    case 4u: { return 0xdb629599u; }\n"
     "    case 5u: { return 0x3c439041u; }\n"
     "    case 6u: { return 0xfe5163abu; }\n"
     "    default: { return 0u; }\n"
     "  }\n"
     "}\n"},
    {"an_pi_bits",
     "fn an_pi_bits(at: u32) -> u32 {\n"
     "  let s = at & 31u;\n"
     "  let a = an_pi_word(at >> 5u);\n"
     "  if (s == 0u) { return a; }\n"
     "  return (a << s) | (an_pi_word((at >> 5u) + 1u) >> (32u - s));\n"
     "}\n"},
    /* m 2^(e-23) = q pi/2 + r: the product with the 96 bits of 2/pi that matter, in quarter turns (Payne, Hanek 1983) */
    {"an_reduce",
     "fn an_reduce(m: u32, e: i32) -> vec4<f32> {\n"
     "  let s = e - 23;\n"
     "  let at = u32(max(s - 2, 0));\n"
     "  let p0 = an_mulhi(an_pi_bits(at + 64u), m);\n"
     "  let p1 = an_mulhi(an_pi_bits(at + 32u), m);\n"
     "  let p2 = an_mulhi(an_pi_bits(at), m);\n"
     "  var w0 = p0.x;\n"
     "  let c1 = an_add64(vec2<u32>(p1.x, 0u), vec2<u32>(p0.y, 0u));\n"
     "  var w1 = c1.x;\n"
     "  let c2 = an_add64(an_add64(vec2<u32>(p2.x, 0u), vec2<u32>(p1.y, 0u)), vec2<u32>(c1.y, 0u));\n"
     "  var w2 = c2.x;\n"
     "  let w3 = p2.y + c2.y;\n"
     "  if (s < 2) {\n"
     "    let n = u32(2 - s);\n"
     "    w0 = (w0 >> n) | (w1 << (32u - n)); w1 = (w1 >> n) | (w2 << (32u - n)); w2 = (w2 >> n) | (w3 << (32u - n));\n"
     "  }\n"
     "  let q = (w2 + 0x20000000u) >> 30u;\n"
     "  w2 -= q << 30u;\n"
     "  let neg = (w2 >> 31u) != 0u;\n"
     "  if (neg) {\n"
     "    w0 = ~w0; w1 = ~w1; w2 = ~w2;\n"
     "    w0 += 1u;\n"
     "    if (w0 == 0u) { w1 += 1u; if (w1 == 0u) { w2 += 1u; } }\n"
     "  }\n"
     "  var k = 1;\n"
     "  for (var i = 0; i < 3 && w2 == 0u; i++) { w2 = w1; w1 = w0; w0 = 0u; k -= 32; }\n"
     "  let lead = countLeadingZeros(w2);\n"
     "  if (lead > 0u && lead < 32u) { w2 = (w2 << lead) | (w1 >> (32u - lead)); w1 = (w1 << lead) | (w0 >> (32u - lead)); }\n"
     "  k -= i32(lead);\n"
     "  let scale = bitcast<f32>(u32(k - 23 + 127) << 23u) * select(1.0f, -1.0f, neg);\n"
     "  let h = f32(w2 >> 8u) * scale;\n"
     "  let l = f32(((w2 & 0xffu) << 16u) | (w1 >> 16u)) * 5.9604644775390625e-8f * scale;\n"
     "  let r = an_dmul(vec2<f32>(h, l), vec2<f32>(1.57079637f, -4.37113883e-08f));\n"
     "  return vec4<f32>(r.x, r.y, f32(q & 3u), 0.0f);\n"
     "}\n"},
    /* a quarter turn's sine or cosine in pairs of f32 */
    {"an_sin",
     "fn an_sin(x: f32) -> f32 {\n"
     "  let b = bitcast<u32>(x);\n"
     "  let mag = b & 0x7fffffffu;\n"
     "  if (mag >= 0x7f800000u) { return an_nan(); }\n"
     "  if (mag < 0x2f800000u) { return x; }\n"
     "  if (mag < 0x39800000u) { return an_near(x * x * -0.166666672f, x, x); }\n"
     "  var r = vec2<f32>(bitcast<f32>(mag), 0.0f);\n"
     "  var q = 0u;\n"
     "  if (mag > 0x3f490fdau) {\n"
     "    let s = an_split(mag);\n"
     "    let t = an_reduce(u32(s.x), s.y);\n"
     "    r = t.xy;\n"
     "    q = u32(t.z);\n"
     "  }\n"
     "  let z = an_dmul(r, r);\n"
     "  var y = vec2<f32>();\n"
     "  if ((q & 1u) == 0u) {\n"
     "    var p = 1.60590444e-10f;\n"
     "    p = fma(p, z.x, -2.50521079e-08f);\n"
     "    p = fma(p, z.x, 2.75573188e-06f);\n"
     "    p = fma(p, z.x, -0.000198412701f);\n"
     "    y = an_dadd(vec2<f32>(0.00833333377f, -4.34617203e-10f), vec2<f32>(z.x * p, 0.0f));\n"
     "    y = an_dadd(vec2<f32>(-0.166666672f, 4.96705388e-09f), an_dmul(z, y));\n"
     "    y = an_dadd(r, an_dmul(r, an_dmul(z, y)));\n"
     "  } else {\n"
     "    var p = 2.08767559e-09f;\n"
     "    p = fma(p, z.x, -2.755732e-07f);\n"
     "    p = fma(p, z.x, 2.48015876e-05f);\n"
     "    p = fma(p, z.x, -0.00138888892f);\n"
     "    y = an_dadd(vec2<f32>(0.0416666679f, -1.24176347e-09f), vec2<f32>(z.x * p, 0.0f));\n"
     "    y = an_dadd(vec2<f32>(-0.5f, 0.0f), an_dmul(z, y));\n"
     "    y = an_dadd(vec2<f32>(1.0f, 0.0f), an_dmul(z, y));\n"
     "  }\n"
     "  let sign = (b & 0x80000000u) ^ ((q & 2u) << 30u);\n"
     "  return bitcast<f32>(bitcast<u32>(y.x + y.y) ^ sign);\n"
     "}\n"},
    {NULL, NULL},
};
