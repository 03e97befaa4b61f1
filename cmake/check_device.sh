#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What every change of a kernel ends with, on a machine with a GPU: the device tests, then memcheck over
# all but the slow ones, then racecheck over a few that use shared memory (it takes minutes where rows
# are long).
#   cmake/check_device.sh build/device/bin/quipu_device_tests
set -euo pipefail
tests=${1:?say where quipu_device_tests is}

"$tests"
# One test asks for more memory than there is, on purpose: that is no error of the API.
compute-sanitizer --report-api-errors no --error-exitcode 1 "$tests" '~[slow]'
for few in 'the device engine*' 'device: several reductions keep*' 'bad arguments are refused*' 'device and host build*' \
  'changed weights*' 'products give the same*' 'a graph may go*' 'gradients of attention know*' \
  'slices of a row meet*' 'totals of rows in parts*' 'device: a warp packs*' 'device: a warp updates*'; do
  # A name that matches nothing must not pass for a check.
  [[ $("$tests" "$few" --list-tests) != *"0 matching test cases"* ]]
  compute-sanitizer --tool racecheck --error-exitcode 1 "$tests" "$few"
done
