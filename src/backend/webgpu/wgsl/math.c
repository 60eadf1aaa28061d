/* math.c - WGSL text of f32 fma, exact where the machine rounds twice. WGSL lets its own be off by
 * several units in the last place, and flush what is below the normal numbers; these are what docs/SEMANTICS.md says.
 *
 * The coefficients are those of backend/cpu/math.c. */
#include "backend/webgpu/wgsl/emit.h"

/* Exact, in integers: the product of two 24-bit significands and the third one, on 96 bits would be the plain way; here the
 * smaller is shifted onto 64 bits with a sticky bit, which rounding to 24 cannot tell from it. Significands are placed with
 * their leading bit at 62 (61 or 62 for the product), so that a sum stays below bit 64. */
const char wgsl_fma_by_hand[] =
    "fn an_sticky64(x: vec2<u32>, n: u32) -> vec2<u32> {\n"
    "  if (n == 0u) { return x; }\n"
    "  if (n > 63u) { return vec2<u32>(select(0u, 1u, (x.x | x.y) != 0u), 0u); }\n"
    "  let r = an_right64(x, n);\n"
    "  let back = an_left64(r, n);\n"
    "  return vec2<u32>(r.x | select(0u, 1u, any(back != x)), r.y);\n"
    "}\n"
    "fn an_fma(x: f32, y: f32, z: f32) -> f32 {\n"
    "  let a = bitcast<u32>(x); let b = bitcast<u32>(y); let c = bitcast<u32>(z);\n"
    "  let ma = a & 0x7fffffffu; let mb = b & 0x7fffffffu; let mc = c & 0x7fffffffu;\n"
    "  if (ma >= 0x7f800000u || mb >= 0x7f800000u || mc >= 0x7f800000u || ma == 0u || mb == 0u) { return x * y + z; }\n"
    "  let s = (a ^ b) & 0x80000000u; let t = c & 0x80000000u;\n"
    "  let la = countLeadingZeros(max(ma & 0x7fffffu, 1u)) - 8u; let lb = countLeadingZeros(max(mb & 0x7fffffu, 1u)) - 8u;\n"
    "  let ta = ma < 0x800000u; let tb = mb < 0x800000u;\n"
    "  let fa = select((ma & 0x7fffffu) | 0x800000u, ma << la, ta); let ea = select(i32(ma >> 23u), 1 - i32(la), ta);\n"
    "  let fb = select((mb & 0x7fffffu) | 0x800000u, mb << lb, tb); let eb = select(i32(mb >> 23u), 1 - i32(lb), tb);\n"
    "  var p = an_left64(an_mulhi(fa, fb), 15u);\n" /* 2^46..2^48 to 2^61..2^63 */
    "  var e = ea + eb - 127 + 1;\n"              /* of bit 62 */
    "  var sign = s;\n"
    "  if (mc != 0u) {\n"
    "    let lc = countLeadingZeros(max(mc & 0x7fffffu, 1u)) - 8u;\n"
    "    let tc = mc < 0x800000u;\n"
    "    var q = an_left64(vec2<u32>(select((mc & 0x7fffffu) | 0x800000u, mc << lc, tc), 0u), 39u);\n"
    "    let ec = select(i32(mc >> 23u), 1 - i32(lc), tc);\n"
    "    if (e > ec) { q = an_sticky64(q, u32(e - ec)); } else { p = an_sticky64(p, u32(ec - e)); e = ec; }\n"
    "    if (s == t) { p = an_add64(p, q); }\n"
    "    else if (an_less_u64(p, q)) { p = an_sub64(q, p); sign = t; }\n"
    "    else { p = an_sub64(p, q); if ((p.x | p.y) == 0u) { return 0.0f; } }\n"
    "  }\n"
    "  let lead = select(countLeadingZeros(p.y), 32u + countLeadingZeros(p.x), p.y == 0u);\n"
    "  p = an_left64(p, lead);\n" /* the leading one at bit 63 */
    "  e = e + 1 - i32(lead);\n"
    "  if (e <= 0) { p = an_sticky64(p, u32(min(1 - e, 64))); e = 1; }\n" /* below the normal numbers: fewer bits are kept */
    "  var r = p.y >> 8u;\n"
    "  let rest = p.y & 0xffu;\n"
    "  if (rest > 0x80u || (rest == 0x80u && (p.x != 0u || (r & 1u) != 0u))) { r += 1u; }\n"
    "  if (r < 0x800000u) { return bitcast<f32>(sign | r); }\n"
    "  let bits = (u32(e - 1) << 23u) + r;\n"
    "  if (e >= 255 || bits >= 0x7f800000u) { return bitcast<f32>(sign | an_inf); }\n"
    "  return bitcast<f32>(sign | bits);\n"
    "}\n";
