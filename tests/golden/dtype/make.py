"""Writes dtype.txt: what NumPy and ml_dtypes make of small floats. Run: python3 make.py > dtype.txt

decode NAME BITS VALUE   every f8 pattern, and every 37th of f16 and bf16; VALUE as the bits of a double, nan as "nan"
encode NAME VALUE BITS   doubles (as bits) rounded to NAME, through float32 where that is exact; nan left out
ml_dtypes' float8_e4m3fn overflows to nan; ours saturates at 448, so larger values are left out for it.
"""
import struct
import sys

import ml_dtypes
import numpy as np

TYPES = {"f8e4m3": (ml_dtypes.float8_e4m3fn, np.uint8), "f8e5m2": (ml_dtypes.float8_e5m2, np.uint8),
         "f16": (np.float16, np.uint16), "bf16": (ml_dtypes.bfloat16, np.uint16)}


def bits(x):
    return "%016x" % struct.unpack("<Q", struct.pack("<d", float(x)))[0]


rng = np.random.default_rng(7)
for name, (dtype, uint) in TYPES.items():
    n = np.iinfo(uint).max + 1
    for i in range(0, n, 1 if n == 256 else 37):
        v = np.array([i], uint).view(dtype).astype(np.float64)[0]
        print("decode", name, "%04x" % i, "nan" if np.isnan(v) else bits(v))
    xs = list((rng.standard_normal(150) * 10.0 ** rng.integers(-9, 6, 150)).astype(np.float32))
    # exact ties between neighbours, both parities
    for i in rng.integers(0, n // 2 - 2, 100):
        a, b = np.array([i, i + 1], uint).view(dtype).astype(np.float64)
        if np.isfinite(a) and np.isfinite(b):
            xs.append(np.float32((a + b) / 2))
    for x in xs + [0.0, -0.0, 65504.0, 65519.9, 65520.0, 57344.0, 61439.0, 61440.0, 448.0, float("inf"), float("-inf")]:
        if name == "f8e4m3" and abs(x) > 448:
            continue
        with np.errstate(over="ignore"):
            y = np.float32(x).astype(dtype)
        print("encode", name, bits(np.float32(x)), "%04x" % int(np.array([y]).view(uint)[0]))
