"""A GPT at nanoGPT's setting for a CPU in PyTorch: what `anneal train nanogpt` is beside, by validation loss.

    python3 bench/nanogpt_torch.py TEXT [SEEDS]     on a GPU where there is one

4 layers, 4 heads, width 128, 64 characters, batch 12, no biases, dropout 0; AdamW (.9, .99), decay .1 on matrices, 1e-3 after 100 steps of
warm-up, by a cosine to 1e-4 at step 2000, gradients clipped to norm 1. Prints the loss over the last tenth of the text, and five estimates
from 20 batches each, which is how nanoGPT's own figures are taken."""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, STEPS = 4, 4, 128, 64, 12, 2000
device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + self.out(y)
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.token, self.place = nn.Embedding(vocab, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            ends = name.endswith(("out.weight", "narrow.weight"))
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * LAYERS) if ends else 0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


def draw(data):
    at = torch.randint(len(data) - CONTEXT, (BATCH,), device=device)
    rows = data[at[:, None] + torch.arange(CONTEXT + 1, device=device)]
    return rows[:, :-1], rows[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(data, vocab, seed):
    torch.manual_seed(seed)
    model = GPT(vocab).to(device)
    ps = list(model.parameters())
    groups = [{"params": [p for p in ps if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in ps if p.dim() < 2], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    for step in range(STEPS):
        cosine = 1e-4 + 0.5 * (1 + math.cos(math.pi * (step - 100) / (STEPS - 100))) * 9e-4
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (step + 1) / 101 if step < 100 else cosine
        loss = loss_of(model, *draw(data))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(ps, 1.0)
        optimizer.step()
    return model


text = open(sys.argv[1], encoding="utf-8").read()
number = {c: i for i, c in enumerate(sorted(set(text)))}
tokens = torch.tensor([number[c] for c in text], device=device)
cut = int(len(tokens) * 0.9)
test = tokens[cut:]
n = (len(test) - 1) // CONTEXT
x, y = test[:n * CONTEXT].view(n, CONTEXT), test[1:n * CONTEXT + 1].view(n, CONTEXT)
for seed in range(int(sys.argv[2]) if len(sys.argv) > 2 else 4):
    model = train(tokens[:cut], len(number), seed)
    with torch.no_grad():
        whole = sum(loss_of(model, x[i:i + 64], y[i:i + 64]).item() * len(x[i:i + 64]) for i in range(0, n, 64)) / n
        some = [sum(loss_of(model, *draw(test)).item() for _ in range(20)) / 20 for _ in range(5)]
    print(f"seed {seed}: validation loss {whole:.4f}; of 20 batches", *(f"{s:.4f}" for s in some), flush=True)
