#!/usr/bin/env python3
"""Makes conv.txt and batch_norm.txt, in f64, by PyTorch 2:  python3 make.py

conv.txt: convolution and its gradients by x, weight and bias. All inputs are whole numbers, so every sum is exact, and the
files hold whole numbers: each case is a line of sizes, then y, dx, dw and db.
batch_norm.txt: fifty steps of a batch norm trained by SGD; what it gives in training and then in evaluation, and its state.
Inputs follow from formulas that the test repeats."""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def whole(shape, salt):
    """Whole numbers from -3 to 3, in no pattern."""
    n = int(torch.tensor(shape).prod())
    i = torch.arange(n, dtype=torch.int64)
    return (((i * i * 7 + i * 13 + salt * 29) % 101) % 7 - 3).to(torch.float64).reshape(shape)


#        n  c  h  w  f  kh kw  stride  before  after   dilation groups
CONVS = [
    (2, 3, 5, 6, 4, 3, 3, (1, 1), (1, 1), (1, 1), (1, 1), 1),
    (1, 2, 7, 5, 3, 3, 2, (2, 1), (0, 0), (0, 0), (1, 1), 1),
    (2, 4, 6, 6, 6, 3, 3, (1, 1), (1, 1), (1, 1), (1, 1), 2),
    (1, 4, 7, 7, 4, 3, 3, (2, 2), (1, 1), (1, 1), (1, 1), 4),
    (1, 2, 9, 8, 2, 3, 3, (1, 1), (2, 2), (2, 2), (2, 2), 1),
    (1, 3, 8, 9, 2, 2, 3, (2, 3), (1, 0), (0, 2), (2, 1), 1),
    (2, 6, 7, 7, 3, 3, 3, (3, 2), (2, 1), (1, 2), (1, 2), 3),
    (1, 5, 4, 4, 7, 1, 1, (1, 1), (0, 0), (0, 0), (1, 1), 1),
    (1, 3, 8, 9, 4, 3, 3, (2, 2), (1, 1), (1, 1), (1, 1), 1),
    (1, 4, 9, 9, 4, 3, 4, (3, 2), (1, 2), (2, 1), (2, 3), 2),
    (2, 2, 9, 7, 3, 5, 4, (3, 3), (2, 1), (1, 2), (1, 1), 1),
    (1, 2, 9, 9, 2, 3, 3, (2, 2), (2, 2), (2, 2), (2, 2), 2),
    (1, 2, 10, 8, 3, 1, 2, (3, 2), (0, 0), (0, 0), (1, 1), 1),
    (1, 2, 10, 8, 2, 7, 5, (2, 3), (3, 2), (3, 2), (1, 1), 1),
]


def numbers(name, t):
    return name + " " + " ".join(str(int(v)) for v in t.flatten().tolist())


with open("conv.txt", "w") as out:
    print("# Made by make.py: change that.", file=out)
    for i, (n, c, h, w, f, kh, kw, stride, before, after, dilation, groups) in enumerate(CONVS):
        x = whole((n, c, h, w), i).requires_grad_()
        weight = whole((f, c // groups, kh, kw), i + 100).requires_grad_()
        bias = whole((f,), i + 200).requires_grad_()
        padded = F.pad(x, (before[1], after[1], before[0], after[0]))
        y = F.conv2d(padded, weight, bias, stride=stride, dilation=dilation, groups=groups)
        y.backward(whole(tuple(y.shape), i + 300))
        sizes = (n, c, h, w, f, kh, kw, *stride, *before, *after, *dilation, groups)
        print("case", *sizes, file=out)
        for name, t in (("y", y.detach()), ("dx", x.grad), ("dw", weight.grad), ("db", bias.grad)):
            print(numbers(name, t), file=out)

with open("batch_norm.txt", "w") as out:
    print("# Made by make.py: change that.", file=out)
    n, c, h, w = 3, 4, 2, 5
    bn = torch.nn.BatchNorm2d(c, eps=1e-3, momentum=0.2)
    opt = torch.optim.SGD(bn.parameters(), lr=0.05)
    u = whole((n, c, h, w), 7)
    for step in range(50):
        x = whole((n, c, h, w), step) * (0.5 + 0.01 * step) + 0.1 * step
        bn.train()
        y = bn(x)
        opt.zero_grad()
        (y * u).sum().mul(0.01).backward()
        opt.step()
        if step in (0, 9, 49):
            bn.eval()
            z = bn(x)
            for name, t in (("y", y), ("weight", bn.weight), ("bias", bn.bias), ("running_mean", bn.running_mean),
                            ("running_var", bn.running_var), ("eval", z)):
                print(step, name, *("%.17g" % v for v in t.detach().flatten().tolist()), file=out)
