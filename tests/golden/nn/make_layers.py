#!/usr/bin/env python3
"""Makes layers.txt: what PyTorch's layers give, forward and backward, in f64.

A case is a layer with random parameters on a random x. y is its output, and the gradients are those of sum(w * y) with random
weights w. Names of parameters are those of anneal's layers, which are PyTorch's, but where a case says otherwise. What PyTorch
1.13 has no layer for is written in its operations. The result is checked in, so running the tests needs no Python:
    python3 make_layers.py > layers.txt
"""
import math
import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def put(kind, name, t):
    t = t.detach().reshape(t.shape)
    dims = " ".join(str(d) for d in t.shape)
    values = " ".join("%.12g" % v for v in t.double().flatten().tolist())
    print(f"{kind} {name} {t.dim()} {dims} : {values}")


def case(name, x, params, forward, buffers=None):
    """params: name -> tensor; forward(x, params) -> y; buffers: a function that gives name -> tensor after forward."""
    leaves = {n: p.detach().clone().requires_grad_(True) for n, p in params.items()}
    is_float = x.dtype.is_floating_point
    x = x.clone().requires_grad_(is_float)
    y = forward(x, leaves)
    w = torch.randn_like(y)
    (y * w).sum().backward()
    print(f"case {name}")
    put("x", "float" if is_float else "int", x)
    for n, p in leaves.items():
        put("param", n, p)
    put("w", "w", w)
    put("y", "y", y)
    if is_float:
        put("grad", "x", x.grad)
    for n, p in leaves.items():
        put("grad", n, p.grad)
    if buffers:
        for n, b in buffers().items():
            put("buffer", n, b)
    print("end")


def randn(*dims):
    return torch.randn(*dims)


case("linear", randn(2, 3, 4), {"weight": randn(5, 4), "bias": randn(5)},
     lambda x, p: F.linear(x, p["weight"], p["bias"]))
case("embedding", torch.tensor([[0, 3, 1], [3, 3, 6]]), {"weight": randn(7, 4)}, lambda x, p: F.embedding(x, p["weight"]))
case("layer_norm", randn(3, 6), {"weight": randn(6), "bias": randn(6)},
     lambda x, p: F.layer_norm(x, (6,), p["weight"], p["bias"], 1e-5))
case("rms_norm", randn(3, 6), {"weight": randn(6)},
     lambda x, p: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * p["weight"])
case("group_norm", randn(2, 6, 3, 2), {"weight": randn(6), "bias": randn(6)},
     lambda x, p: F.group_norm(x, 3, p["weight"], p["bias"], 1e-5))

norm = torch.nn.BatchNorm2d(3)
case("batch_norm", randn(4, 3, 2, 3), {"weight": randn(3), "bias": randn(3)},
     lambda x, p: F.batch_norm(x, norm.running_mean, norm.running_var, p["weight"], p["bias"], True, 0.1, 1e-5),
     lambda: {"running_mean": norm.running_mean, "running_var": norm.running_var})
case("conv2d", randn(2, 4, 5, 4), {"weight": randn(6, 2, 3, 2), "bias": randn(6)},
     lambda x, p: F.conv2d(x, p["weight"], p["bias"], stride=(2, 1), padding=(1, 0), groups=2))
case("max_pool", randn(2, 2, 4, 6), {}, lambda x, p: F.max_pool2d(x, 2))
case("avg_pool", randn(2, 2, 4, 6), {}, lambda x, p: F.avg_pool2d(x, 2))
case("gelu", randn(9) * 3, {}, lambda x, p: F.gelu(x))
case("gelu_tanh", randn(9) * 3, {}, lambda x, p: F.gelu(x, approximate="tanh"))
case("silu", randn(9) * 3, {}, lambda x, p: F.silu(x))
case("swiglu", randn(2, 3, 4), {"w1.weight": randn(6, 4), "w2.weight": randn(4, 6), "w3.weight": randn(6, 4)},
     lambda x, p: F.linear(F.silu(F.linear(x, p["w1.weight"])) * F.linear(x, p["w3.weight"]), p["w2.weight"]))

# torch.nn.MultiheadAttention, whose packed projection is taken apart
mha = torch.nn.MultiheadAttention(6, 2, batch_first=True)


def multihead(x, p, causal):
    t = x.shape[1]
    mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1) if causal else None
    w = torch.cat([p["q_proj.weight"], p["k_proj.weight"], p["v_proj.weight"]])
    b = torch.cat([p["q_proj.bias"], p["k_proj.bias"], p["v_proj.bias"]])
    y, _ = F.multi_head_attention_forward(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1), 6, 2, w, b, None, None, False, 0.0,
                                          p["out_proj.weight"], p["out_proj.bias"], attn_mask=mask, need_weights=False)
    return y.transpose(0, 1)


def projections(names, dim, kv, bias=True):
    p = {}
    for n, d in zip(names, (dim, kv, kv, dim)):
        p[n + ".weight"] = randn(d, dim) / math.sqrt(dim)
        if bias:
            p[n + ".bias"] = randn(d)
    return p


names = ("q_proj", "k_proj", "v_proj", "out_proj")
case("attention", randn(2, 5, 6), projections(names, 6, 6), lambda x, p: multihead(x, p, False))
case("attention_causal", randn(2, 5, 6), projections(names, 6, 6), lambda x, p: multihead(x, p, True))


def grouped(x, p, heads, groups, theta):
    """Meta's Llama: rotary positions as complex numbers, keys and values repeated for each head of a group."""
    b, t, dim = x.shape
    d = dim // heads
    q = F.linear(x, p["wq.weight"]).view(b, t, heads, d)
    k = F.linear(x, p["wk.weight"]).view(b, t, groups, d)
    v = F.linear(x, p["wv.weight"]).view(b, t, groups, d)
    freqs = 1.0 / theta ** (torch.arange(0, d, 2).double() / d)
    turn = torch.polar(torch.ones(t, d // 2), torch.outer(torch.arange(t).double(), freqs))[:, None]
    q = torch.view_as_real(torch.view_as_complex(q.reshape(b, t, heads, d // 2, 2)) * turn).flatten(3).transpose(1, 2)
    k = torch.view_as_real(torch.view_as_complex(k.reshape(b, t, groups, d // 2, 2)) * turn).flatten(3).transpose(1, 2)
    k = k.repeat_interleave(heads // groups, 1)
    v = v.transpose(1, 2).repeat_interleave(heads // groups, 1)
    s = q @ k.transpose(-1, -2) / math.sqrt(d)
    s = s.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), -math.inf)
    return F.linear((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, dim), p["wo.weight"])


case("attention_grouped_rotary", randn(2, 5, 16), projections(("wq", "wk", "wv", "wo"), 16, 8, False),
     lambda x, p: grouped(x, p, 4, 2, 100.0))

# PyTorch's OneCycleLR, and nanoGPT's schedule
p = torch.nn.Parameter(torch.zeros(1))
opt = torch.optim.SGD([p], lr=0.5)
one = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.5, total_steps=20)
rates = []
for _ in range(20):
    rates.append(opt.param_groups[0]["lr"])
    opt.step()
    one.step()
put("schedule", "one_cycle", torch.tensor(rates))


def nanogpt(it, lr=0.5, least=0.05, warmup=4, total=16):
    if it < warmup:
        return lr * (it + 1) / (warmup + 1)
    if it > total:
        return least
    return least + 0.5 * (1.0 + math.cos(math.pi * (it - warmup) / (total - warmup))) * (lr - least)


put("schedule", "cosine", torch.tensor([nanogpt(i) for i in range(20)]))

# AdamW in two groups, as nanoGPT makes them, with gradients clipped together
a, b = torch.nn.Parameter(randn(2, 3)), torch.nn.Parameter(randn(3))
opt = torch.optim.AdamW([{"params": [a], "weight_decay": 0.1}, {"params": [b], "weight_decay": 0.0}], lr=0.1, betas=(0.9, 0.99))
print("case adamw_groups_clip")
put("param", "a", a)
put("param", "b", b)
for _ in range(4):
    a.grad, b.grad = randn(2, 3), randn(3)
    put("grad", "a", a.grad)
    put("grad", "b", b.grad)
    torch.nn.utils.clip_grad_norm_([a, b], 1.0)
    opt.step()
    put("want", "a", a)
    put("want", "b", b)
print("end")
