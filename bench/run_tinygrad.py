"""tinygrad on the CPU, jitted."""
import os

import cases

cases.limit_threads()
os.environ.setdefault("DEV", "CPU")
from tinygrad import Context, Tensor, TinyJit, nn


def tensor(*shape):
    return Tensor(cases.numbers(*shape)).realize()


def forward(name, function, *inputs):
    jitted = TinyJit(lambda *xs: function(*xs).realize())
    cases.report(name, lambda: jitted(*inputs))


for name, (m, n, k, layout) in cases.MATMULS.items():
    if layout[1] == "t":
        forward(name, lambda a, b: a @ b.T, tensor(m, k), tensor(n, k))
    else:
        forward(name, lambda a, b: a @ b, tensor(m, k), tensor(k, n))
x, y = tensor(cases.ROWS, cases.COLS), tensor(cases.ROWS, cases.COLS)
forward("elementwise", lambda x, y: ((x + 0.5) * y + x).relu(), x, y)
forward("softmax", lambda x: x.softmax(-1), x)
forward("layernorm", lambda x, w, b: x.layernorm() * w + b, x, tensor(cases.COLS), tensor(cases.COLS))
forward("reduce", lambda x: x.sum(0), x)
c = cases.CONV
forward("conv", lambda x, w: x.conv2d(w, padding=1), tensor(c["images"], c["channels"], c["size"], c["size"]),
        tensor(c["channels"], c["channels"], 3, 3))

m = cases.MLP
first, second = nn.Linear(m["inputs"], m["hidden"]), nn.Linear(m["hidden"], m["classes"])
sgd = nn.optim.SGD(nn.state.get_parameters([first, second]), lr=m["lr"])
images, labels = tensor(m["batch"], m["inputs"]), Tensor(cases.integers(m["classes"], m["batch"])).realize()


@TinyJit
def mlp_step(x, y):
    with Context(TRAINING=1):
        sgd.zero_grad()
        loss = second(first(x).relu()).sparse_categorical_crossentropy(y)
        loss.backward()
        return loss.realize(*sgd.schedule_step())


cases.report("mlp", lambda: mlp_step(images, labels).item())
