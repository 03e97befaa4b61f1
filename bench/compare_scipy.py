#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host executor beside scipy.sparse on one graph file, sum of fp32 rows, in turns.

  python3 bench/compare_scipy.py build/bin/quipu GRAPH.mtx [features]
"""
import json
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import scipy.io


def quipu_ms(command, graph, features, threads):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([command, "bench", graph, "--op", "sum", "--features", str(features), "--device", "host",
                        "--threads", str(threads), "--unweighted", "--repeat", "15", "--json", out.name],
                       check=True, stdout=subprocess.DEVNULL)
        return json.load(open(out.name))["results"][0]["median_ms"]


def scipy_ms(matrix, features):
    x = numpy.random.default_rng(1).standard_normal((matrix.shape[1], features), dtype=numpy.float32)
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        matrix @ x
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def main():
    command, graph = sys.argv[1:3]
    features = int(sys.argv[3]) if len(sys.argv) > 3 else 64
    matrix = scipy.io.mmread(graph).tocsr().astype(numpy.float32)
    rounds = [(quipu_ms(command, graph, features, 1), quipu_ms(command, graph, features, 2),
               scipy_ms(matrix, features)) for _ in range(5)]
    one, two, reference = (statistics.median(column) for column in zip(*rounds))
    print(f"{graph}: {matrix.shape[0]} rows, {matrix.nnz} edges, {features} features")
    print(f"scipy.sparse {reference:8.2f} ms")
    print(f"quipu, 1 thread  {one:8.2f} ms, {reference / one:.2f} x scipy")
    print(f"quipu, 2 threads {two:8.2f} ms, {one / two:.2f} x one thread")


if __name__ == "__main__":
    main()
