#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh checkout to a result, in one command:
#   cmake/bootstrap.sh quickstart   builds the quipu command and aggregates over two graphs
#   cmake/bootstrap.sh test         builds everything, runs all tests and, for a moment, the fuzzers
#   cmake/bootstrap.sh bench        builds the benchmarks and runs them on the GPU
# Installs missing Debian packages when it may; names them otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=build
jobs=$(nproc)

say() { printf '\n== %s\n' "$*"; }
stop() {
  echo "bootstrap: $*" >&2
  exit 1
}

# ---- what must be there ------------------------------------------------------------------------

has_program() { command -v "$1" >/dev/null; }
has_file() { compgen -G "$1" >/dev/null; }

# Prints the Debian packages that are missing for a task.
missing_packages() {
  has_program g++ || echo g++
  has_program cmake || echo cmake
  has_program ninja || echo ninja-build
  has_file '/usr/include/CLI/CLI.hpp' || echo libcli11-dev
  has_file '/usr/include/nlohmann/json.hpp' || echo nlohmann-json3-dev
  has_file '/usr/include/fmt/format.h' || echo libfmt-dev
  has_file '/usr/include/zip.h' || echo libzip-dev
  if [[ $1 == test ]]; then
    has_file '/usr/include/catch2/catch*.hpp' || echo catch2
    has_file '/usr/include/rapidcheck.h' || echo librapidcheck-dev
  fi
  if [[ $1 == bench ]]; then
    has_file '/usr/include/benchmark/benchmark.h' || echo libbenchmark-dev
  fi
}

# These make the work quicker or checks deeper; everything works without them.
optional_packages() {
  has_program ccache || echo ccache
  if [[ $1 == test ]]; then
    has_program clang++-14 || echo clang-14
    has_file '/usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' || echo libclang-rt-14-dev
    has_program clang-format-14 || echo clang-format-14
  fi
}

as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  else
    sudo -n "$@"
  fi
}
may_install() {
  has_program apt-get && { [[ $(id -u) == 0 ]] || { has_program sudo && sudo -n true 2>/dev/null; }; }
}
apt_install() {
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y --no-install-recommends "$@" >/dev/null
}

install_packages() {
  local needed optional
  mapfile -t needed < <(missing_packages "$1")
  mapfile -t optional < <(optional_packages "$1")
  if ((${#needed[@]} + ${#optional[@]} == 0)); then return 0; fi
  if ! may_install; then
    if ((${#needed[@]})); then stop "please install: ${needed[*]}"; fi
    echo "bootstrap: goes on without: ${optional[*]}"
    return 0
  fi
  say "installing ${needed[*]} ${optional[*]}"
  as_root apt-get update >/dev/null || true
  if ((${#needed[@]})); then
    apt_install "${needed[@]}" || stop "cannot install: ${needed[*]}"
  fi
  local package
  for package in "${optional[@]}"; do
    apt_install "$package" || echo "bootstrap: goes on without: $package"
  done
}

find_nvcc() {
  if ! has_program nvcc && [[ -x /usr/local/cuda/bin/nvcc ]]; then
    export PATH="/usr/local/cuda/bin:$PATH"
  fi
  has_program nvcc || stop "no nvcc on PATH or in /usr/local/cuda/bin:" \
    "install the CUDA toolkit, 13.0 or later (developer.nvidia.com/cuda-downloads)"
}

has_gpu() { has_program nvidia-smi && nvidia-smi -L 2>/dev/null | grep -q GPU; }

configure() { # preset, settings
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >"$log" 2>&1 || {
    cat "$log"
    stop "configuring failed"
  }
}

# ---- the tasks ---------------------------------------------------------------------------------

quickstart() {
  say "building the quipu command"
  configure dev
  ninja -C "$build" -j "$jobs" quipu_cli
  local device=host
  if has_gpu; then device=cuda; fi
  local quipu="$build/bin/quipu"
  say "sums over Zachary's karate club, on: $device"
  "$quipu" aggregate examples/data/karate.mtx --op sum --features 64 --device "$device"
  say "a graph with the shape of ogbn-arxiv, on: $device"
  "$quipu" bench synthetic:arxiv_like --op sum --features 64 --device "$device"
}

# Each fuzzer for a minute, side by side. Returns 1 when one finds something.
fuzz() {
  local seconds=60 programs=() pids=() program failed=0 i
  if ! ninja -C "$build" -t query quipu_fuzz >/dev/null 2>&1; then
    echo "skipped: no clang with a fuzzer runtime"
    return 0
  fi
  ninja -C "$build" -j "$jobs" quipu_fuzz || return 1
  for program in "$build"/bin/*_fuzz; do
    programs+=("$program")
    mkdir -p "$build/fuzz/$(basename "$program")"
    "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
      -artifact_prefix="$build/fuzz/" "$build/fuzz/$(basename "$program")" \
      >"$build/fuzz/$(basename "$program").log" 2>&1 &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    program=$(basename "${programs[i]}")
    if wait "${pids[i]}"; then
      echo "$program: nothing found in $seconds s"
    else
      echo "$program: FAILED, see below; the input lies in $build/fuzz"
      tail -n 40 "$build/fuzz/$program.log"
      failed=1
    fi
  done
  return "$failed"
}

run_tests() {
  say "building everything"
  configure ci
  ninja -C "$build" -j "$jobs"
  local fuzz_outcome=0
  say "fuzzing the readers"
  fuzz || fuzz_outcome=1
  say "size of the library"
  size -t "$build"/libquipu.* | tail -n 1
  ls -lh "$build"/libquipu.* | awk '{print $5, $9}'
  say "tests: host, package, and device (skipped without a GPU)"
  ctest --test-dir "$build" --output-on-failure -j "$jobs" -L '^(host|package|device|slow)$'
  if ((fuzz_outcome)); then stop "the tests pass, fuzzing does not: see above"; fi
}

bench() {
  say "building the benchmarks"
  configure dev -DQUIPU_BUILD_BENCH=ON
  ninja -C "$build" -j "$jobs"
  if ! has_gpu; then
    echo "no GPU here: the benchmarks are built, in $build/bin, and not run"
    return 0
  fi
  "$build/bin/quipu" bench synthetic:arxiv_like --op sum,mean,max --features 64,256 --device cuda
  local program
  for program in "$build"/bin/quipu_bench*; do
    [[ -x $program ]] || continue
    say "$(basename "$program")"
    "$program"
  done
}

task=${1:-}
case $task in
  quickstart | test | bench) ;;
  *) stop "say one of: quickstart, test, bench" ;;
esac
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_packages "$task"
find_nvcc
case $task in
  quickstart) quickstart ;;
  test) run_tests ;;
  bench) bench ;;
esac
