"""What every script here times, and how. Names and sizes are those of `anneal bench`."""
import json
import os
import statistics
import sys
import time

THREADS = int(os.environ.get("ANNEAL_THREADS", "2"))
SAMPLES = int(os.environ.get("BENCH_SAMPLES", "9"))
SAMPLE_SECONDS = 0.03

MATMULS = {"matmul 512": (512, 512, 512, "nn"), "matmul 1024": (1024, 1024, 1024, "nn"),
           "matmul 64x3072x768": (64, 3072, 768, "nn"), "matmul 64x3072x768 nt": (64, 3072, 768, "nt")}
ROWS, COLS = 4096, 1024
CONV = dict(images=16, size=32, channels=64)
ATTENTION = dict(heads=8, positions=256, features=64)
GATHER = dict(rows=16384, table=32768, features=256)
MLP = dict(batch=64, inputs=784, hidden=128, classes=10, lr=0.01)
GPT = dict(layers=4, heads=4, width=128, positions=64, batch=12, vocabulary=65, lr=1e-5)


def limit_threads():
    """Before the tool is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ANNEAL_THREADS"):
        os.environ[name] = str(THREADS)


def wanted():
    """The cases named on the command line; none: all."""
    return sys.argv[1:]


def report(name, run):
    """Times run(), which returns when its result is there, and prints the median of some samples."""
    only = wanted()
    if only and name not in only:
        return
    try:
        begin = time.perf_counter()
        run()
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        run()
        times = max(1, int(SAMPLE_SECONDS / max(time.perf_counter() - begin, 1e-7)))
        samples = []
        for _ in range(SAMPLES):
            begin = time.perf_counter()
            for _ in range(times):
                run()
            samples.append((time.perf_counter() - begin) / times)
    except Exception as error:  # a case that a tool cannot run leaves the others
        print(f"{name}: {error}", file=sys.stderr)
        return
    print(json.dumps({"name": name, "seconds": statistics.median(samples), "first_seconds": first}), flush=True)


def numbers(*shape):
    import numpy
    n = int(numpy.prod(shape))
    return ((numpy.arange(n, dtype=numpy.uint64) * 2654435761 % 2003).astype(numpy.float32) / 1001.5 - 1).reshape(shape)


def integers(below, *shape):
    import numpy
    n = int(numpy.prod(shape))
    return (numpy.arange(n, dtype=numpy.uint64) * 2654435761 % below).astype(numpy.int32).reshape(shape)
