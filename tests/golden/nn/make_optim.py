#!/usr/bin/env python3
"""Makes optim.txt: what PyTorch's documented update rules give, in f64, over five steps.

The rules are those of the algorithm boxes in torch.optim.SGD, Adam and AdamW (PyTorch 2). Needs numpy; the result is
checked in, so running the tests needs no Python:  python3 make_optim.py > optim.txt
"""
import numpy as np

STEPS = 5
SIZE = 7  # a parameter (2, 3) and one of rank 0


def sgd(p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    b = None
    for g in grads:
        if weight_decay != 0:
            g = g + weight_decay * p
        if momentum != 0:
            b = g.copy() if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p = p - lr * g
        yield p


def adam(p, grads, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, amsgrad=False, decoupled=False):
    m = np.zeros_like(p)
    v = np.zeros_like(p)
    vmax = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if decoupled:
            p = p - lr * weight_decay * p
        elif weight_decay != 0:
            g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        mhat = m / (1 - beta1**t)
        vmax = np.maximum(vmax, v)
        vhat = (vmax if amsgrad else v) / (1 - beta2**t)
        p = p - lr * mhat / (np.sqrt(vhat) + eps)
        yield p


CASES = [
    ("sgd", dict(lr=0.1)),
    ("sgd", dict(lr=0.1, weight_decay=0.05)),
    ("sgd", dict(lr=0.1, momentum=0.9)),
    ("sgd", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01)),
    ("sgd", dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01)),
    ("adam", dict(lr=0.01)),
    ("adam", dict(lr=0.01, beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0.1)),
    ("adam", dict(lr=0.01, amsgrad=True, beta2=0.5)),
    ("adamw", dict(lr=0.02, weight_decay=0.1)),
    ("adamw", dict(lr=0.02, weight_decay=0.1, amsgrad=True, beta2=0.5)),
]


def row(word, values):
    print(word, *(repr(float(x)) for x in values))


rng = np.random.default_rng(7)
print("# Made by make_optim.py: change that.")
for kind, options in CASES:
    p = rng.normal(size=SIZE)
    grads = rng.normal(size=(STEPS, SIZE)) * rng.choice([0.01, 1.0, 10.0], size=(STEPS, SIZE))
    print("case", kind, *(f"{k}={float(v)!r}" for k, v in options.items()))
    row("start", p)
    if kind == "sgd":
        steps = sgd(p, grads, **options)
    else:
        steps = adam(p, grads, decoupled=kind == "adamw", **options)
    for g, want in zip(grads, steps):
        row("grad", g)
        row("want", want)
