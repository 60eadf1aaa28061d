#!/usr/bin/env python3
"""One table of anneal and the tools that are there, on the same shapes. Each tool runs in a process of its own, one after the other."""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = ("torch", "jax", "onnxruntime", "tinygrad")
ANNEAL = {"matmul 512": ["matmul", "--size", "512"], "matmul 1024": ["matmul"],
          "matmul 64x3072x768": ["matmul", "--m", "64", "--n", "3072", "--k", "768"],
          "matmul 64x3072x768 nt": ["matmul", "--m", "64", "--n", "3072", "--k", "768", "--layout", "nt"],
          **{name: [name] for name in ("elementwise", "softmax", "layernorm", "reduce", "conv", "conv-input", "conv-input-strided",
                                       "conv-weight", "attention", "gather", "mlp", "gpt")}}


def lines_of(command, env):
    """The standard output of a command, or nothing, with what it said, if it fails."""
    try:
        done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return []
    if done.stderr.strip():
        print(f"{' '.join(command[:3])}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return done.stdout.splitlines() if done.returncode == 0 or done.stdout else []


def anneal_seconds(program, cases, env):
    seconds = {}
    for name in cases:
        text = "\n".join(lines_of([program, "bench", *ANNEAL[name], "--json"], env))
        try:
            seconds[name] = json.loads(text)["results"][0]["seconds"]
        except (ValueError, KeyError, IndexError):
            print(f"anneal: no result for {name}", file=sys.stderr)
    return seconds


def tool_seconds(tool, python, cases, env):
    results = [json.loads(line) for line in lines_of([python, os.path.join(HERE, f"run_{tool}.py"), *cases], env) if line.startswith("{")]
    return {r["name"]: r["seconds"] for r in results}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anneal", default="build/anneal", help="the program [build/anneal]")
    parser.add_argument("--threads", type=int, default=2, help="for every tool [2]")
    parser.add_argument("--case", action="append", choices=list(ANNEAL), help="only this; may be given again")
    parser.add_argument("--json", action="store_true", help="seconds by tool and case")
    for tool in TOOLS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"a Python that has {tool}")
    args = parser.parse_args()
    cases = args.case or list(ANNEAL)
    env = dict(os.environ, ANNEAL_THREADS=str(args.threads))
    columns = {"anneal": anneal_seconds(args.anneal, cases, env)}
    for tool in TOOLS:
        python = getattr(args, tool)
        if python:
            columns[tool] = tool_seconds(tool, python, cases, env)
    if args.json:
        print(json.dumps(columns, indent=1))
        return
    print(f"milliseconds, {args.threads} threads; in brackets how many times anneal's time")
    print(f"{'':24}" + "".join(f"{c:>20}" for c in columns))
    for name in cases:
        row = f"{name:24}"
        ours = columns["anneal"].get(name)
        for column, seconds in columns.items():
            value = seconds.get(name)
            text = "-" if value is None else f"{value * 1e3:.3f}"
            if value is not None and ours and column != "anneal":
                text += f" ({value / ours:.2f})"
            row += f"{text:>20}"
        print(row)


if __name__ == "__main__":
    main()
