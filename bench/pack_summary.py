#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the JSON of quipu_bench_pack into tables and bars.

  python3 bench/pack_summary.py bench/results/pack.json [--markdown]
"""
import json
import statistics
import sys
from collections import defaultdict

from summary import table

LABELS = ("raw", "invariant", "exponent3", "exponent2", "sparse")
LINK = 51  # GB/s of rows that a kernel reads from pinned memory, measured on the same GPU (docs/performance.md)
SMALLEST = {("bf16_normal", 4096): 1.44, ("bf16_normal", 128): 1.30, ("f32_normal", 512): 1.16,
            ("f32_normal", 128): 1.12, ("f32_relu", 128): 1.75, ("f32_ones", 1024): 40, ("f32_ones", 128): 20,
            ("f32_once_f16", 128): 1.95}
MEMORY = {("bf16_normal", 4096): 1.33}
# What invariant bit packing's own code reaches, without addresses: rows are to be no longer than there.
PAPER = {("f32_normal", 128): 1.10, ("bf16_normal", 128): 1.27, ("f32_relu", 128): 1.59, ("f32_ones", 128): 19.5,
         ("f32_ones", 1024): 19.5, ("f32_normal", 32): 1.10}


class Results:
    """Cases by (family, table, width, codec): what each counted, the median of its repetitions."""

    def __init__(self, path):
        runs = defaultdict(list)
        self.failed = []
        for run in json.load(open(path))["benchmarks"]:
            if run.get("run_type") == "aggregate":
                continue
            family, kind, width, codec = run["name"].split("/")[:4]
            if run.get("error_occurred"):
                self.failed.append((family, kind, int(width), codec, run.get("error_message", "")))
            else:
                runs[family, kind, int(width), codec].append(run)
        self.labels = {k: v[0].get("label", "") for k, v in runs.items()}
        self.cells = {k: {c: statistics.median(r[c] for r in v) for c, x in v[0].items()
                          if isinstance(x, (int, float)) and all(c in r for r in v)} for k, v in runs.items()}

    def get(self, family, kind, width, codec, counter="bytes_per_second"):
        return self.cells.get((family, kind, width, codec), {}).get(counter)

    def rate(self, *case):
        """GB/s of rows as they are not packed."""
        found = self.get(*case)
        return found and found / 1e9

    def tables(self, family):
        """In the order of the run."""
        return list(dict.fromkeys((kind, width) for f, kind, width, _ in self.cells if f == family))

    def codecs(self, family, kind, width):
        """Those measured, in the order of the profile."""
        return [c for c in LABELS if (family, kind, width, c) in self.cells]

    def picked(self, family, kind, width, goal):
        """The codec that the profile picked for a goal; None if that was not measured."""
        return next((c for c in LABELS if self.get(family, kind, width, c, "picked_" + goal)), None)

    def best(self, family, kind, width):
        """The quickest launch of a yardstick, GB/s."""
        rates = [c["bytes_per_second"] / 1e9 for k, c in self.cells.items() if k[:3] == (family, kind, width)]
        return max(rates, default=None)


def over(a, b, scale=1):
    return a / b / scale if a is not None and b is not None else None


def bars(r):
    """Yields (bar, table, width, codec, measured, limit); what is measured is to be no less."""
    for kind, width in r.tables("ratio"):
        at = (kind, width)
        for goal, limits in (("smallest", SMALLEST), ("memory", MEMORY)):
            codec = r.picked("ratio", *at, goal)
            if codec:
                yield "stored ratio, picked for " + goal, *at, codec, r.get("ratio", *at, codec, "ratio"), limits.get(at)
        if at in PAPER:
            yield ("invariant codec, ratio without addresses", *at, "invariant",
                   r.get("ratio", *at, "invariant", "payload_ratio"), PAPER[at])
    for kind, width in r.tables("unpack"):
        at = (kind, width)
        memory = r.picked("unpack", *at, "memory")
        for codec in r.codecs("unpack", *at):
            limit = 1.5 if codec == memory else 1.0 if codec == "invariant" else None
            name = ("unpack, memory codec, TB/s" if codec == memory else "unpack, invariant codec, TB/s"
                    if codec == "invariant" else "unpack, TB/s")
            yield name, *at, codec, over(r.rate("unpack", *at, codec), 1000), limit
        yield "unpack, memory codec / copy", *at, memory or "", over(
            memory and r.rate("unpack", *at, memory), r.rate("copy", *at, "raw")), None
    for kind, width in r.tables("gather_hbm"):
        at = (kind, width)
        for codec in r.codecs("gather_hbm", *at):
            yield "gather in HBM / plain raw gather", *at, codec, over(
                r.rate("gather_hbm", *at, codec), r.best("plain_gather", *at)), None
    for kind, width in r.tables("pack"):
        at = (kind, width)
        for codec in r.codecs("pack", *at):
            picked = codec in (r.picked("pack", *at, "smallest"), r.picked("pack", *at, "memory"))
            yield "pack on the device, TB/s of input", *at, codec, over(r.rate("pack", *at, codec), 1000), (
                0.5 if picked else None)
    yield from pinned_bars(r)
    for width, ids in r.tables("large_ordered"):
        raw = r.best("large_zero_copy", width, ids)
        limit = 1.5 if int(width) * 4 > 256 else 4.0 if ids > 65536 else 2.0
        for codec in ("raw", "link"):
            for family, bar in (("large_plain", None), ("large_ordered", limit)):
                yield (f"4 GB, {ids} ids, {family[6:]} / unsorted raw", "f32_normal", int(width), codec,
                       over(r.rate(family, width, ids, codec), raw), bar)
    for family, limit in (("host_unpack", 1.0), ("host_pack", 0.3)):
        for kind, width in r.tables(family):
            for goal in ("smallest", "memory"):
                case = (family, kind, width, goal)
                yield (f"{family.replace('_', ' ')}, one thread, {goal}, GB/s", kind, width, r.labels.get(case, ""),
                       r.rate(*case), limit)
    for family, place in (("profile", "256 MB on the host"), ("profile_device", "1 GB on the device")):
        for at in r.tables(family):
            ms = r.get(family, *at, "sampled", "real_time")
            yield f"profiles a second, {place}", *at, "", over(1000, ms), 50 if family == "profile_device" else None
    yield from bulk_bars(r)


def bulk_bars(r):
    """Only bf16 has a bar; decoding is to take a tenth of the time, and a product to lose a tenth."""
    for kind, width in r.tables("bulk"):
        at = (kind, width)
        picked = r.picked("bulk", *at, "smallest")
        for codec in r.codecs("bulk", *at):
            has_bar = codec == picked and kind.startswith("bf16")
            yield "bulk stream, GB/s", *at, codec, r.rate("bulk", *at, codec), 75 if has_bar else None
            yield "the same, time / unpacking alone", *at, codec, over(1, r.get("bulk", *at, codec, "decode_share")), (
                10 if has_bar else None)
    for kind, width in r.tables("gemm"):
        at = (kind, width)
        alone = r.get("gemm", *at, "alone", "real_time")
        for case in [c for *k, c in r.cells if k == ["gemm", *at] and c != "alone"]:
            beside = r.get("gemm", *at, case, "real_time")
            limit = 1 / 1.1 if case in ("gather_spared_8", "bulk_0") else None
            yield "product alone / beside " + case, *at, "", over(alone, beside), limit


def pinned_bars(r):
    """Only what is picked for gathers over a link has to keep up; the others are shown."""
    for kind, width in r.tables("gather_pinned"):
        at = (kind, width)
        raw = r.best("zero_copy", *at)
        yield "raw zero-copy gather, GB/s", *at, "", raw, None
        for codec in (*r.codecs("gather_pinned", *at), "link"):
            rate = r.rate("gather_pinned", *at, codec)
            yield "gather from pinned memory / raw", *at, codec, over(rate, raw), 1.0 if codec == "link" else None
            yield f"the same, packed bytes / {LINK} GB/s", *at, codec, over(
                link_rate(r, *at, codec), LINK), 0.9 if codec == "link" else None


def link_rate(r, kind, width, codec):
    """GB/s of packed rows that come over the link."""
    rate, packed = r.rate("gather_pinned", kind, width, codec), r.get("gather_pinned", kind, width, codec, "packed_row_bytes")
    row_bytes = width * (2 if kind.startswith("bf16") else 4)
    return rate * packed / row_bytes if rate and packed else None


def print_bars(cells):
    """A line for each cell that was measured; how many missed their bar."""
    missed = 0
    for bar, kind, width, codec, measured, limit in cells:
        if measured is None:
            continue
        verdict = "" if limit is None else "ok" if measured >= limit else "MISSED"
        missed += verdict == "MISSED"
        wanted = "" if limit is None else f">= {limit:.2f}"
        print(f"{bar:42}  {kind:16}  {width:4}  {codec:9}  {measured:8.3f}  {wanted:9}  {verdict}")
    return missed


def grid(r, family, columns, cell, more=()):
    """A table with a row for each table of a family. `more`: (header, cell) behind the codecs."""
    tables = r.tables(family)
    if not tables:
        return
    rows = [[kind, str(width)] + [cell(kind, width, c) for c in columns] + [f(kind, width) for _, f in more]
            for kind, width in tables]
    print(table(["table", "width", *columns, *(name for name, _ in more)], rows) + "\n")


def shown(number, form):
    return "" if number is None else form.format(number)


def markdown(r):
    def ratio(kind, width, codec):
        stored, payload = (r.get("ratio", kind, width, codec, c) for c in ("ratio", "payload_ratio"))
        return "" if stored is None else f"{stored:.3f}" if stored == payload else f"{stored:.3f} ({payload:.3f})"

    def picks(goal):
        return lambda kind, width: r.picked("ratio", kind, width, goal) or ""

    print("Stored ratio, and in brackets without addresses.\n")
    grid(r, "ratio", LABELS, ratio, (("smallest", picks("smallest")), ("memory", picks("memory"))))
    print("Unpacking in device memory, TB/s of output.\n")
    grid(r, "unpack", LABELS, lambda *at: shown(over(r.rate("unpack", *at), 1000), "{:.2f}"),
         (("copy", lambda *at: shown(over(r.rate("copy", *at, "raw"), 1000), "{:.2f}")),))
    print("Gathering in device memory, TB/s of output.\n")
    grid(r, "gather_hbm", LABELS, lambda *at: shown(over(r.rate("gather_hbm", *at), 1000), "{:.2f}"),
         (("plain kernel, raw rows", lambda *at: shown(over(r.best("plain_gather", *at), 1000), "{:.2f}")),))
    print("Packing on the device, TB/s of input.\n")
    grid(r, "pack", LABELS, lambda *at: shown(over(r.rate("pack", *at), 1000), "{:.2f}"))

    def gathered(kind, width, codec):
        rate = r.rate("gather_pinned", kind, width, codec)
        return "" if rate is None else f"{rate:.1f} ({link_rate(r, kind, width, codec):.1f})"
    print("Gathering from pinned memory, GB/s of output, and in brackets of packed rows.\n")
    grid(r, "gather_pinned", LABELS[:4], gathered, (
        ("picked for a link", lambda *at: f"{gathered(*at, 'link')} {r.labels.get(('gather_pinned', *at, 'link'), '')}"),
        ("zero-copy kernel, raw rows", lambda *at: shown(r.best("zero_copy", *at), "{:.1f}"))))

    print("Gathering by id from 4 GB of fp32 in pinned memory, GB/s of output; ordered: by an order made anew.\n")
    if r.tables("large_ordered"):
        columns = [(f, c) for c in ("raw", "link") for f in ("large_plain", "large_ordered")]
        rows = [[width, str(ids), shown(r.best("large_zero_copy", width, ids), "{:.1f}")] +
                [shown(r.rate(f, width, ids, c), "{:.1f}") for f, c in columns]
                for width, ids in r.tables("large_ordered")]
        print(table(["width", "ids", "zero-copy kernel", *(f"{c}, {f[6:]}" for f, c in columns)], rows) + "\n")

    def host(family):
        def cell(kind, width, goal):
            rate = r.rate(family, kind, width, goal)
            return "" if rate is None else f"{rate:.2f} ({r.labels[family, kind, width, goal]})"
        return cell
    for family, doing in (("host_pack", "Packing"), ("host_unpack", "Unpacking")):
        print(f"{doing} on one thread of the host, GB/s of rows.\n")
        grid(r, family, ("smallest", "memory"), host(family))
    for family, of in (("profile", "256 MB on the host"), ("profile_device", "1 GB on the device")):
        print(f"Profile of {of}, by samples.\n")
        grid(r, family, (), None, (("ms", lambda *at, f=family: shown(r.get(f, *at, "sampled", "real_time"), "{:.1f}")),))
    print("1 GB through a bulk stream, GB/s of output, and in brackets what unpacking alone takes of the time.\n")

    def bulk(kind, width, codec):
        rate, share = r.rate("bulk", kind, width, codec), r.get("bulk", kind, width, codec, "decode_share")
        return "" if rate is None else f"{rate:.1f} ({share:.3f})"
    grid(r, "bulk", LABELS[:4], bulk, (("plain copy", lambda *at: shown(r.rate("bulk", *at, "copy"), "{:.1f}")),))
    print("Ten products of bf16 matrices, 8192 cubed, beside packed rows (bf16, 4096 wide) that come over the link.\n")
    rows = [[c, f"{x['real_time']:.1f}", shown(over(x.get("gather_rate"), 1e9), "{:.1f}")]
            for (f, _, _, c), x in r.cells.items() if f == "gemm"]
    print(table(["beside", "ms", "GB/s of rows by themselves"], rows) + "\n")


def main():
    r = Results(next(a for a in sys.argv[1:] if not a.startswith("-")))
    if "--markdown" in sys.argv:
        markdown(r)
        return 0
    for family, kind, width, codec, why in r.failed:
        print(f"{family:42}  {kind:16}  {width:4}  {codec:9}  FAILED: {why}")
    return 1 if print_bars(bars(r)) or r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
