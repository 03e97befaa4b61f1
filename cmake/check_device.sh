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
compute-sanitizer --tool racecheck --error-exitcode 1 "$tests" \
  '[engine],several*special*,*refus*,*graph*~[slow],changed weights*,products give the same*'
