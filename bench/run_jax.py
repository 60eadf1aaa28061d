"""JAX, jitted, on the CPU."""
import os

import cases

cases.limit_threads()
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=" + ("true" if cases.THREADS > 1 else "false")
if hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as there are processors
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cases.THREADS])

import jax
import jax.numpy as jnp


def array(*shape):
    return jnp.asarray(cases.numbers(*shape))


def forward(name, function, *inputs):
    fast = jax.jit(function)
    cases.report(name, lambda: fast(*inputs).block_until_ready())


for name, (m, n, k, layout) in cases.MATMULS.items():
    if layout[1] == "t":
        forward(name, lambda a, b: a @ b.T, array(m, k), array(n, k))
    else:
        forward(name, lambda a, b: a @ b, array(m, k), array(k, n))


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


x, y = array(cases.ROWS, cases.COLS), array(cases.ROWS, cases.COLS)
forward("elementwise", lambda x, y: jax.nn.relu((x + 0.5) * y + x), x, y)
forward("softmax", lambda x: jax.nn.softmax(x, -1), x)
forward("layernorm", layer_norm, x, array(cases.COLS), array(cases.COLS))
forward("reduce", lambda x: x.sum(0), x)
c = cases.CONV
images = array(c["images"], c["channels"], c["size"], c["size"])
weight = array(c["channels"], c["channels"], 3, 3)


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")


forward("conv", conv, images, weight)
forward("conv-input", lambda u, w: jax.vjp(lambda x: conv(x, w), jnp.zeros_like(u))[1](u)[0], images, weight)
forward("conv-weight", lambda x, u: jax.vjp(lambda w: conv(x, w), jnp.zeros_like(weight))[1](u)[0], images, images)
a = cases.ATTENTION
forward("attention", lambda q, k, v: jax.nn.softmax(q @ k.transpose(0, 2, 1) * 0.125, -1) @ v,
        *[array(a["heads"], a["positions"], a["features"]) for _ in range(3)])
g = cases.GATHER
forward("gather", lambda t, i: t[i], array(g["table"], g["features"]), jnp.asarray(cases.integers(g["table"], g["rows"])))


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits, -1), labels[..., None], -1).mean()


def step_of(loss, update):
    @jax.jit
    def step(state, *data):
        value, grads = jax.value_and_grad(loss)(state[0], *data)
        return update(state, grads), value
    return step


def report_step(name, step, state, *data):
    box = [state]

    def run():
        box[0], value = step(box[0], *data)
        value.block_until_ready()
        jax.block_until_ready(box[0])
    cases.report(name, run)


m = cases.MLP
weights = [array(m["inputs"], m["hidden"]) * 0.05, jnp.zeros(m["hidden"]), array(m["hidden"], m["classes"]) * 0.05, jnp.zeros(m["classes"])]


def mlp_loss(p, x, y):
    return cross_entropy(jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)


def sgd(state, grads):
    return (jax.tree.map(lambda p, g: p - m["lr"] * g, state[0], grads),)


report_step("mlp", step_of(mlp_loss, sgd), (weights,), array(m["batch"], m["inputs"]), jnp.asarray(cases.integers(m["classes"], m["batch"])))

g = cases.GPT
width, heads, positions = g["width"], g["heads"], g["positions"]
keys = iter(jax.random.split(jax.random.PRNGKey(0), 100))


def weight(rows, cols):
    return 0.02 * jax.random.normal(next(keys), (rows, cols))


def ones():
    return [jnp.ones(width), jnp.zeros(width)]


gpt = {"token": weight(g["vocabulary"], width), "place": weight(positions, width), "head": weight(width, g["vocabulary"]), "norm": ones(),
       "blocks": [{"norm1": ones(), "norm2": ones(), "qkv": [weight(width, width) for _ in range(3)], "out": weight(width, width),
                   "up": weight(width, 4 * width), "down": weight(4 * width, width)} for _ in range(g["layers"])]}


def split(x):
    return x.reshape(x.shape[0], positions, heads, width // heads).transpose(0, 2, 1, 3)


def gpt_loss(p, text):
    x = p["token"][text] + p["place"]
    mask = jnp.tril(jnp.ones((positions, positions), bool))
    for b in p["blocks"]:
        h = layer_norm(x, *b["norm1"])
        q, k, v = (split(h @ w) for w in b["qkv"])
        s = jnp.where(mask, q @ k.transpose(0, 1, 3, 2) / (width // heads) ** 0.5, -jnp.inf)
        y = (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + y @ b["out"]
        x = x + jax.nn.gelu(layer_norm(x, *b["norm2"]) @ b["up"], approximate=False) @ b["down"]
    return cross_entropy(layer_norm(x, *p["norm"]) @ p["head"], text)


def adamw(state, grads):
    p, m1, m2, t = state
    t = t + 1
    m1 = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m1, grads)
    m2 = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, m2, grads)
    lr = g["lr"]
    p = jax.tree.map(lambda p, m, v: p - lr * (m / (1 - 0.9 ** t) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8) + 0.01 * p), p, m1, m2)
    return p, m1, m2, t


zeros = jax.tree.map(jnp.zeros_like, gpt)
report_step("gpt", step_of(gpt_loss, adamw), (gpt, zeros, zeros, jnp.float32(0)),
            jnp.asarray(cases.integers(g["vocabulary"], g["batch"], positions)))
