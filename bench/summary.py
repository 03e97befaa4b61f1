#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the JSON of quipu_bench_reduce into tables: every case as a ratio to a yardstick of the same
run, and the bars with what was measured.

  python3 bench/summary.py bench/results/reduce.json [bench/results/graph.json] [--markdown]
"""
import json
import math
import statistics
import sys
from collections import defaultdict

NODES = {"roads_like": 57_073, "arxiv_like": 169_343, "reviews_like": 148_801, "tolokers_like": 11_758,
         "hm_like": 46_563, "avazu_like": 76_269, "twitch_like": 168_114, "web_like": 2_890_331,
         "web-fraud": 2_890_331, "reddit_like": 232_965, "products_like": 2_449_029}
# Random gather of 128-1024 byte rows on this GPU by table size in MB: GB/s, measured (the middle of each range).
CEILING = [(40, 9600), (80, 6250), (200, 4800), (1000, 4100), (8000, 3900)]


def ceiling(table_bytes):
    """The gather ceiling for a table of this size, between the measured sizes by its logarithm."""
    mb = table_bytes / 1e6
    if mb <= CEILING[0][0]:
        return CEILING[0][1]
    for (a, x), (b, y) in zip(CEILING, CEILING[1:]):
        if mb <= b:
            return x + (y - x) * math.log(mb / a) / math.log(b / a)
    return CEILING[-1][1]


PLAIN = {  # a plain row kernel, ms, fp32, measured on the same GPU: what the floor has to reproduce
    "arxiv_like": (0.143, 0.235, 0.481), "reviews_like": (0.130, 0.219, 0.454),
    "tolokers_like": (0.049, 0.083, 0.156), "roads_like": (0.019, 0.036, 0.054),
    "products_like": (4.33, 7.85, 16.9), "reddit_like": (3.23, 6.56, 14.4)}


PEERS_MAX = {  # best peer, ms, fp32, 128 features, measured on the same GPU (docs/performance.md)
    "arxiv_like": 0.381, "reviews_like": 0.351, "tolokers_like": 0.145, "roads_like": 0.098,
    "avazu_like": 1.70, "hm_like": 1.61, "twitch_like": 1.46, "web_like": 20.4, "products_like": 11.8}


PEERS_SCATTER = {  # the peers' plain scatter-add for the gradient of max, ms, same source
    "arxiv_like": 0.415, "reviews_like": 0.379, "tolokers_like": 0.036, "roads_like": 0.100, "avazu_like": 0.188,
    "hm_like": 0.120, "twitch_like": 0.534, "web_like": 7.09, "products_like": 8.21}


GATHERED = {}  # GB of rows that a case reads, by the same key as its time


def load(path):
    """{(family, graph, features, element): median ms}"""
    times = defaultdict(list)
    for run in json.load(open(path))["benchmarks"]:
        if run.get("run_type") == "aggregate" or run.get("error_occurred"):
            continue
        parts = run["name"].split("/")
        family, graph = parts[0], parts[1]
        features = next((int(p) for p in parts[2:] if p.isdigit()), 0)
        element = next((p for p in parts[2:] if p in ("f32", "f16", "bf16")), "f32")
        times[family, graph, features, element].append(run["real_time"])
        GATHERED[family, graph, features, element] = run.get("gathered_GB", 0)
    return {k: statistics.median(v) for k, v in times.items()}


def bars(ms):
    """Yields (bar, graph, features, element, measured ratio, limit)."""
    def ratio(case, base):
        return ms[case] / ms[base] if case in ms and base in ms else None

    graphs = sorted({g for f, g, _, _ in ms if f == "floor"})
    for g in graphs:
        for f in (64, 128, 256):
            limit = 0.85 if g == "web-fraud" else 0.8 if f == 64 and g in (
                "arxiv_like", "roads_like", "reviews_like") else 1.0
            yield "sum fp32 / floor", g, f, "f32", ratio(("sum", g, f, "f32"), ("floor", g, f, "f32")), limit
            if g in PLAIN and ("floor", g, f, "f32") in ms:
                plain = PLAIN[g][(64, 128, 256).index(f)]
                yield "floor, off the plain kernel by", g, f, "f32", abs(ms["floor", g, f, "f32"] / plain - 1), 0.1
        yield "sum fp32 / floor by halves", g, 64, "f32", ratio(
            ("sum", g, 64, "f32"), ("floor_by_halves", g, 64, "f32")), None
        for e in ("f16", "bf16"):
            limit = {"arxiv_like": 0.68, "reviews_like": 0.68, "products_like": 0.68, "reddit_like": 0.6}.get(g)
            yield "sum 16 bit / fp32 floor", g, 128, e, ratio(("sum", g, 128, e), ("floor", g, 128, "f32")), limit
        base = ("floor", g, 128, "f32")
        yield "max / floor", g, 128, "f32", ratio(("max", g, 128, "f32"), base), 1.25 if g in PEERS_MAX else None
        if g in PEERS_MAX and ("max", g, 128, "f32") in ms:
            yield "max / best peer", g, 128, "f32", ms["max", g, 128, "f32"] / PEERS_MAX[g], 1 / 1.2
        yield "sum+mean+min+max / floor", g, 128, "f32", ratio(("several", g, 128, "f32"), base), 1.6
        yield "sum backward / reverse floor", g, 128, "f32", ratio(
            ("sum_backward", g, 128, "f32"), ("floor_reverse", g, 128, "f32")), 1.1
        scatter = ("plain_scatter", g, 128, "f32")
        yield "max backward, any / scatter-add", g, 128, "f32", ratio(("max_backward_any", g, 128, "f32"), scatter), None
        if g in PEERS_SCATTER and scatter in ms:
            yield "max backward, any / peers' scatter", g, 128, "f32", ms["max_backward_any", g, 128, "f32"] / PEERS_SCATTER[g], 1.0
            yield "max backward, same bits / peers' scatter", g, 128, "f32", ms["max_backward", g, 128, "f32"] / PEERS_SCATTER[g], 2.0
        yield "max backward, same bits / scatter-add", g, 128, "f32", ratio(("max_backward", g, 128, "f32"), scatter), None
    for g in ("avazu-ctr", "hm-categories", "twitch-views", "web-fraud"):
        for op in ("twin_sum", "twin_max"):
            yield op + " / flat", g, 128, "f32", ratio((op, g, 128, "f32"), (op, g + ",flat", 128, "f32")), 1.15
    for op in ("replay_sum", "replay_max"):
        if (op, "cora", 64, "f32") in ms:
            yield op + " in us", "cora", 64, "f32", ms[op, "cora", 64, "f32"] * 1000, 10
    if ("make_graph", "products_like", 0, "f32") in ms:
        yield "make_graph in ms", "products_like", 0, "", ms["make_graph", "products_like", 0, "f32"], 60


def print_bars(cells):
    """A line for each cell that was measured; how many missed their bar."""
    missed = 0
    for bar, graph, features, element, measured, limit in cells:
        if measured is None:
            continue
        verdict = "" if limit is None else "ok" if measured <= limit else "MISSED"
        missed += verdict == "MISSED"
        wanted = "" if limit is None else f"<= {limit:.3f}"
        print(f"{bar:42}  {graph:16}  {features:4}  {element:4}  {measured:8.3f}  {wanted:9}  {verdict}")
    return missed


def table(header, rows):
    """A Markdown table, columns padded."""
    cells = [header] + rows
    widths = [max(len(r[c]) for r in cells) for c in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(r, widths)) + " |" for r in cells]
    lines.insert(1, "| " + " | ".join("-" * w for w in widths) + " |")
    return "\n".join(lines)


def shown(ms, case):
    return f"{ms[case]:.3f}" if case in ms else ""


def graph_tables(ms):
    graphs = [g for g in ORDER if ("floor", g, 128, "f32") in ms]
    rows = []
    for g in graphs:
        for f in (64, 128, 256):
            sparse = [ms[c, g, f, "f32"] for c in ("cusparse_default", "cusparse_csr2", "cusparse_csr3") if (c, g, f, "f32") in ms]
            floor, ours = ms["floor", g, f, "f32"], ms["sum", g, f, "f32"]
            rows.append([g, str(f), f"{ours:.3f}", f"{floor:.3f}", f"{min(sparse):.3f}" if sparse else "",
                         f"{ours / floor:.2f}", f"{GATHERED['sum', g, f, 'f32'] / ours * 1e3:.0f}",
                         f"{GATHERED['sum', g, f, 'f32'] / ours * 1e3 / ceiling(NODES[g] * f * 4):.2f}",
                         shown(ms, ("floor_by_halves", g, f, "f32"))])
    print(table(["graph", "features", "quipu ms", "floor ms", "cuSPARSE ms", "quipu / floor", "GB/s gathered",
                 "of the ceiling", "floor by halves ms"], rows), "\n")
    rows = []
    for g in graphs:
        floor = ms["floor", g, 128, "f32"]

        def against(case, base):
            return f"{ms[case]:.3f} ({ms[case] / base:.2f})" if case in ms else ""
        rows.append([g, shown(ms, ("floor", g, 128, "f32")), against(("sum", g, 128, "f16"), floor),
                     against(("sum", g, 128, "bf16"), floor), against(("max", g, 128, "f32"), floor),
                     f"{PEERS_MAX[g]:.3f}" if g in PEERS_MAX else "",
                     against(("several", g, 128, "f32"), floor),
                     against(("sum_backward", g, 128, "f32"), ms.get(("floor_reverse", g, 128, "f32"), floor))])
    print(table(["graph", "floor ms", "sum f16", "sum bf16", "max + argument", "best peer's max",
                 "sum, mean, min, max", "sum backward"], rows), "\n")
    rows = []
    for g in graphs:
        base = ms.get(("plain_scatter", g, 128, "f32"))
        if base is None:
            continue
        rows.append([g, f"{base:.3f}"] + [f"{ms[c, g, 128, 'f32']:.3f} ({ms[c, g, 128, 'f32'] / base:.2f})" for c in (
            "max_backward_any", "max_backward", "max_backward_gather", "max_backward_scatter")])
    print(table(["graph", "plain scatter-add ms", "any order", "same bits", "same bits, gather", "same bits, scatter"], rows))


ORDER = ["roads_like", "arxiv_like", "reviews_like", "tolokers_like", "hm_like", "avazu_like", "twitch_like",
         "web_like", "web-fraud", "reddit_like", "products_like"]


def main():
    ms = {}
    for path in sys.argv[1:]:
        if not path.startswith("--"):
            ms.update(load(path))
    if "--markdown" in sys.argv:
        graph_tables(ms)
        return
    print("times in ms")
    for (family, graph, features, element), t in sorted(ms.items(), key=lambda kv: (kv[0][1], kv[0][0], kv[0][2])):
        print(f"{graph:22}  {family:24}  {features:4}  {element:4}  {t:9.4f}")
    print("\nbars")
    print(f"\n{print_bars(bars(ms))} missed")


if __name__ == "__main__":
    main()
