#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the JSON of quipu_bench_attention into tables and bars.

  python3 bench/attention_summary.py bench/results/attention.json [--markdown]
"""
import json
import statistics
import sys
from collections import defaultdict

from summary import ORDER, print_bars, table

# The quicker of two published implementations on the same GPU and graph shapes, ms, fp32, 128 features, one head.
PEERS = {
    "gatv2_forward": {"arxiv_like": 0.589, "reviews_like": 0.541, "tolokers_like": 0.338, "roads_like": 0.088,
                      "avazu_like": 4.04, "hm_like": 3.92, "twitch_like": 3.58, "web_like": 12.1, "products_like": 16.8},
    "transformer_forward": {"arxiv_like": 0.762, "reviews_like": 0.829, "tolokers_like": 0.298, "roads_like": 0.138,
                            "avazu_like": 4.87, "hm_like": 4.10, "twitch_like": 4.55, "web_like": 19.4,
                            "products_like": 23.0},
    "gatv2_both": {"arxiv_like": 7.94, "reviews_like": 3.68, "tolokers_like": 1.98, "roads_like": 0.648,
                   "avazu_like": 30.9, "hm_like": 27.5, "twitch_like": 30.9, "web_like": 127, "products_like": 77.0},
    "transformer_both": {"arxiv_like": 3.41, "reviews_like": 2.68, "tolokers_like": 1.25, "roads_like": 0.381,
                         "avazu_like": 20.9, "hm_like": 20.3, "twitch_like": 16.7, "web_like": 41.1,
                         "products_like": 87.4}}
SKEWED = ("avazu_like", "hm_like", "twitch_like", "web_like")
LARGE = ("arxiv_like", "reviews_like", "products_like", "reddit_like", "avazu_like", "hm_like", "twitch_like", "web_like")


def load(path):
    """{(family, graph, features, element, heads): median ms}"""
    times = defaultdict(list)
    for run in json.load(open(path))["benchmarks"]:
        if run.get("run_type") == "aggregate" or run.get("error_occurred"):
            continue
        family, graph, features, element, heads = run["name"].split("/")[:5]
        times[family, graph, int(features), element, int(heads[1:])].append(run["real_time"])
    return {k: statistics.median(v) for k, v in times.items()}


def load_shares(path):
    """The same of workspaces: their bytes to those of all inputs and outputs."""
    shares = {}
    for run in json.load(open(path))["benchmarks"]:
        if "workspace_share" in run:
            family, graph, features, element, heads = run["name"].split("/")[:5]
            shares[family, graph, int(features), element, int(heads[1:])] = run["workspace_share"]
    return shares


def gain(family, graph):
    """How many times as quick as the best peer a family is to be."""
    if family == "gatv2_both":
        return 6 if graph == "arxiv_like" else 4 if graph in SKEWED else 1.9
    if family == "transformer_both":
        return 2.4 if graph in SKEWED else 1.5
    return 1.3


def memory_bars(shares):
    """The largest of every graph; 2 parts in a hundred are the limit."""
    for g in ORDER:
        of_graph = {k: v for k, v in shares.items() if k[1] == g}
        if of_graph:
            case = max(of_graph, key=of_graph.get)
            yield f"workspace of {case[0]}, {case[4]} heads", g, case[2], case[3], of_graph[case], 0.02


def bars(ms):
    """Yields (bar, graph, features, element, measured, limit)."""
    def ratio(case, base):
        return ms[case] / ms[base] if case in ms and base in ms else None

    graphs = [g for g in ORDER if ("floor", g, 128, "f32", 1) in ms]
    for g in graphs:
        for family, limit in (("gat_forward", 1.2), ("gatv2_forward", 1.35), ("transformer_forward", 2.2)):
            for f in (64, 128, 256):
                yield family + " / floor", g, f, "f32", ratio((family, g, f, "f32", 1), ("floor", g, f, "f32", 1)), limit
            for heads in (4, 8):
                yield f"{family}, {heads} heads / 1", g, 128, "f32", ratio(
                    (family, g, 128, "f32", heads), (family, g, 128, "f32", 1)), 1.15
            narrow = {"gatv2_forward": 0.85, "transformer_forward": 0.65}.get(family) if g in LARGE else None
            for f in (128, 256):
                yield family + ", 16 bit / fp32", g, f, "f16", ratio(
                    (family, g, f, "f16", 1), (family, g, f, "f32", 1)), narrow
        for family, limit in (("gat_both", None), ("gatv2_both", 5), ("transformer_both", 7), ("gat_stash", None),
                              ("gatv2_stash", None), ("transformer_stash", 6)):
            for f in (64, 128, 256):
                yield family + " / floor", g, f, "f32", ratio((family, g, f, "f32", 1), ("floor", g, f, "f32", 1)), limit
            yield family + ", 16 bit / fp32", g, 128, "f16", ratio(
                (family, g, 128, "f16", 1), (family, g, 128, "f32", 1)), None
            yield family + ", 8 heads / 1", g, 128, "f32", ratio(
                (family, g, 128, "f32", 8), (family, g, 128, "f32", 1)), 1.15
        for family, cells in PEERS.items():
            if g in cells and (family, g, 128, "f32", 1) in ms:
                yield family + " / best peer", g, 128, "f32", ms[family, g, 128, "f32", 1] / cells[g], 1 / gain(family, g)
    for g in ("avazu-ctr", "hm-categories", "twitch-views", "web-fraud"):
        for family in ("gat_forward", "gatv2_forward", "transformer_forward", "gat_both", "gatv2_both",
                       "transformer_both"):
            yield family + ", twin / flat", g, 128, "f32", ratio(
                (family, g, 128, "f32", 1), (family, g + ",flat", 128, "f32", 1)), 1.15
    for family in ("gat", "gatv2", "transformer"):
        case = ("replay_" + family, "cora", 64, "f32", 1)
        if case in ms:
            yield f"replay_{family} in us", "cora", 64, "f32", ms[case] * 1000, 10


def markdown(ms):
    rows = []
    for g in (g for g in ORDER if ("floor", g, 128, "f32", 1) in ms):
        for f in (64, 128, 256):
            floor = ms["floor", g, f, "f32", 1]

            def cell(family, element="f32", heads=1):
                case = (family, g, f, element, heads)
                return f"{ms[case]:.3f} ({ms[case] / floor:.2f})" if case in ms else ""
            rows.append([g, str(f), f"{floor:.3f}", cell("gat_forward"), cell("gatv2_forward"),
                         cell("transformer_forward"), cell("gatv2_forward", "f16"), cell("transformer_forward", "f16"),
                         cell("gatv2_forward", heads=8), cell("gat_both"), cell("gatv2_both"),
                         cell("transformer_both"), cell("transformer_stash")])
    print(table(["graph", "features", "floor ms", "gat", "gatv2", "transformer", "gatv2 f16", "transformer f16",
                 "gatv2, 8 heads", "gat, both ways", "gatv2, both ways", "transformer, both ways",
                 "the same with a stash"], rows))


if __name__ == "__main__":
    path = next(a for a in sys.argv[1:] if not a.startswith("-"))
    measured = load(path)
    if "--markdown" in sys.argv:
        markdown(measured)
    else:
        sys.exit(1 if print_bars([*bars(measured), *memory_bars(load_shares(path))]) else 0)
