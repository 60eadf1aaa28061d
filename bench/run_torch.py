"""PyTorch, eager, on the CPU."""
import cases

cases.limit_threads()

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(cases.THREADS)


def tensor(*shape):
    return torch.from_numpy(cases.numbers(*shape))


def forward(name, function, *inputs):
    def run():
        with torch.no_grad():
            function(*inputs)
    cases.report(name, run)


for name, (m, n, k, layout) in cases.MATMULS.items():
    b = tensor(n, k).t() if layout[1] == "t" else tensor(k, n)
    forward(name, torch.matmul, tensor(m, k), b)
x, y = tensor(cases.ROWS, cases.COLS), tensor(cases.ROWS, cases.COLS)
forward("elementwise", lambda x, y: torch.relu((x + 0.5) * y + x), x, y)
forward("softmax", lambda x: torch.softmax(x, -1), x)
forward("layernorm", lambda x, w, b: F.layer_norm(x, (cases.COLS,), w, b), x, tensor(cases.COLS), tensor(cases.COLS))
forward("reduce", lambda x: x.sum(0), x)
c = cases.CONV
images, weight = tensor(c["images"], c["channels"], c["size"], c["size"]), tensor(c["channels"], c["channels"], 3, 3)
forward("conv", lambda x, w: F.conv2d(x, w, padding=1), images, weight)
forward("conv-input", lambda u, w: nn.grad.conv2d_input(u.shape, w, u, padding=1), images, weight)
forward("conv-input-strided", lambda u, w, x: nn.grad.conv2d_input(x.shape, w, u, stride=2, padding=1),
        tensor(c["images"], c["channels"], (c["size"] + 1) // 2, (c["size"] + 1) // 2), weight, images)
forward("conv-weight", lambda x, u: nn.grad.conv2d_weight(x, weight.shape, u, padding=1), images, images)
a = cases.ATTENTION
forward("attention", lambda q, k, v: torch.softmax(q @ k.transpose(1, 2) * 0.125, -1) @ v,
        *[tensor(a["heads"], a["positions"], a["features"]) for _ in range(3)])
g = cases.GATHER
forward("gather", lambda t, i: F.embedding(i, t), tensor(g["table"], g["features"]),
        torch.from_numpy(cases.integers(g["table"], g["rows"])).long())

m = cases.MLP
net = nn.Sequential(nn.Linear(m["inputs"], m["hidden"]), nn.ReLU(), nn.Linear(m["hidden"], m["classes"]))
sgd = torch.optim.SGD(net.parameters(), lr=m["lr"])
images, labels = tensor(m["batch"], m["inputs"]), torch.from_numpy(cases.integers(m["classes"], m["batch"])).long()


def mlp_step():
    sgd.zero_grad(set_to_none=True)
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    sgd.step()
    return loss.item()


cases.report("mlp", mlp_step)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        y = F.scaled_dot_product_attention(self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h)), is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, positions, vocabulary):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place.weight)))


g = cases.GPT
gpt = GPT(g["layers"], g["heads"], g["width"], g["positions"], g["vocabulary"])
adamw = torch.optim.AdamW(gpt.parameters(), lr=g["lr"])
text = torch.from_numpy(cases.integers(g["vocabulary"], g["batch"], g["positions"])).long()


def gpt_step():
    adamw.zero_grad(set_to_none=True)
    loss = F.cross_entropy(gpt(text).flatten(0, 1), text.flatten())
    loss.backward()
    adamw.step()
    return loss.item()


cases.report("gpt", gpt_step)
