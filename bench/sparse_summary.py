#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the JSON of quipu_bench_sparse into tables, and says which bars hold.

  python3 bench/sparse_summary.py bench/results/sparse.json [--markdown]
"""
import json
import math
import sys

from summary import load, print_bars, table

WIDTHS = (32, 64, 128, 256, 512)
SMALL_GRAPHS = {"roads_like"}  # below a million edges: not held against op = TRANSPOSE


def graphs_of(ms):
    """In the order of the run."""
    return list(dict.fromkeys(g for f, g, _, _ in ms if f == "spmm_engine"))


def predictions(path):
    """{(graph, features): predicted ms of engine, csr2, csr3, and 1 if `auto` picked the engine}."""
    found = {}
    for run in json.load(open(path))["benchmarks"]:
        if run["name"].startswith("spmm_auto/"):
            _, graph, features = run["name"].split("/")[:3]
            found[graph, int(features)] = tuple(run[k] for k in ("engine_ms", "csr2_ms", "csr3_ms", "picked_engine"))
    return found


def ratio(ms, case, base):
    return ms[case] / ms[base] if case in ms and base in ms else None


def backends(ms, g, f):
    """Engine, the best sound cuSPARSE, the best cuSPARSE whether sound or not."""
    sound = [ms[c, g, f, "f32"] for c in ("spmm_csr2", "spmm_csr3")]
    return ms["spmm_engine", g, f, "f32"], min(sound), min(sound + [ms["csr3_preprocessed", g, f, "f32"]])


def bars(ms):
    """Yields (bar, graph, features, element, measured, limit)."""
    for g in graphs_of(ms):
        for f in WIDTHS:
            engine, sound, _ = backends(ms, g, f)
            yield "auto / faster backend", g, f, "f32", ms["spmm_auto", g, f, "f32"] / min(engine, sound), 1.03
        for f in (64, 128, 256):
            yield "symmetric / none", g, f, "f32", ratio(
                ms, ("spmm_symmetric", g, f, "f32"), ("spmm_engine", g, f, "f32")), 1.05
            yield "sddmm / two rows", g, f, "f32", ratio(ms, ("sddmm", g, f, "f32"), ("two_rows", g, f, "f32")), 1.3
        limit = {"arxiv_like": 0.68, "reviews_like": 0.68, "products_like": 0.68, "reddit_like": 0.6}.get(g)
        for e in ("f16", "bf16"):
            yield "16 bit / fp32 floor", g, 128, e, ratio(ms, ("spmm_engine", g, 128, e), ("floor", g, 128, "f32")), limit
            yield "16 bit / fp32 engine", g, 128, e, ratio(
                ms, ("spmm_engine", g, 128, e), ("spmm_engine", g, 128, "f32")), None
        backward = ("backward", g, 128, "f32")
        yield "backward / forward on the reverse", g, 128, "f32", ratio(ms, backward, ("forward_on_reverse", g, 128, "f32")), 1.05
        yield "backward / op=TRANSPOSE", g, 128, "f32", ratio(
            ms, backward, ("cusparse_transpose", g, 128, "f32")), None if g in SMALL_GRAPHS else 0.5
    for c in ("replay_engine", "replay_csr1", "replay_csr2", "replay_csr3"):
        if (c, "cora", 64, "f32") in ms:
            yield c + " in us", "cora", 64, "f32", ms[c, "cora", 64, "f32"] * 1000, 8


def whole_run(ms, predicted):
    """Yields (bar, measured, limit, lower is better) over all graphs and widths."""
    cells = [(g, f) for g in graphs_of(ms) for f in WIDTHS]
    gain = [math.log(backends(ms, g, f)[2] / ms["spmm_auto", g, f, "f32"]) for g, f in cells]
    yield "best cuSPARSE / auto, geometric mean", math.exp(sum(gain) / len(gain)), 1.35, False
    good = 0
    for g, f in cells:
        engine, sound, _ = backends(ms, g, f)
        picked = engine if predicted[g, f][3] else sound
        good += picked <= 1.05 * min(engine, sound)
    yield "model picks within 5 % of the best", good / len(cells), 0.95, False
    for k, name in enumerate(("engine", "csr2", "csr3")):
        errors = [math.log(predicted[g, f][k] / ms["spmm_" + name, g, f, "f32"]) for g, f in cells]
        yield f"predicted / measured, {name}: root mean square", math.exp(
            math.sqrt(sum(e * e for e in errors) / len(errors))), None, True
        yield f"predicted / measured, {name}: worst", math.exp(max(map(abs, errors))), None, True


def tables(ms):
    rows = []
    for g in graphs_of(ms):
        for f in WIDTHS:
            engine, _, best = backends(ms, g, f)
            rows.append([g, str(f), f"{engine:.3f}"] + [f"{ms[c, g, f, 'f32']:.3f}" for c in (
                "spmm_csr2", "spmm_csr3", "csr3_preprocessed")] + [f"{best / engine:.2f}"])
    print(table(["graph", "features", "engine ms", "csr2 ms", "csr3 ms", "csr3 preprocessed ms",
                 "best cuSPARSE / engine"], rows), "\n")
    rows = []
    for g in graphs_of(ms):
        engine = ms["spmm_engine", g, 128, "f32"]

        def against(case, element="f32", base=engine):
            key = (case, g, 128, element)
            return f"{ms[key]:.3f} ({ms[key] / base:.2f})" if key in ms else ""
        rows.append([g, f"{engine:.3f}", against("spmm_symmetric"), against("spmm_weighted"),
                     against("spmm_engine", "f16"), against("spmm_engine", "bf16"), against("backward"),
                     against("cusparse_transpose"), against("sddmm", base=ms["two_rows", g, 128, "f32"]),
                     against("sddmm", "f16", ms["two_rows", g, 128, "f32"])])
    print(table(["graph", "spmm ms", "symmetric", "weighted", "f16", "bf16", "backward", "op=TRANSPOSE",
                 "sddmm (of two rows)", "sddmm f16"], rows))


def main():
    path = next(p for p in sys.argv[1:] if not p.startswith("--"))
    ms = load(path)
    if "--markdown" in sys.argv:
        tables(ms)
        return
    missed = print_bars(bars(ms))
    for bar, measured, limit, lower in whole_run(ms, predictions(path)):
        verdict = "" if limit is None else "ok" if (measured <= limit) == lower else "MISSED"
        missed += verdict == "MISSED"
        print(f"{bar:62}  {measured:8.3f}  {'' if limit is None else f'>= {limit:.3f}':9}  {verdict}")
    print(f"\n{missed} missed")


if __name__ == "__main__":
    main()
