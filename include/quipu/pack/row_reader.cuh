// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Readers of packed rows for kernels: raw_reader, exponent_reader, sparse_reader and
/// invariant_reader. A group of `Lanes` lanes, all of which take part, reads a record and hands its
/// elements to a sink, 16 bytes of them side by side a lane, `Batch` times at once. A group of
/// fewer than 32 lanes takes records of at most one batch.
///
/// - sink.put(first, count, elements): elements [first, first + count) of the record; an array of
///   elements_of_lane<Word>
/// - sink.fill(lane, lanes, count, element), for sparse records: all `count` of them are `element`,
///   but for those that follow by sink.set(place, element)
/// - sink.put_bytes(first, count, words), for invariant records, whose `Word` is a unit: bytes
///   [first, first + count) of the record, whole elements; an array of four words of 32 bits
///
/// `read(lane, row, part, sink)` tells whether the record is sound as far as this lane saw: of one
/// that is not at least one lane says so, and some elements may be handed over. Nothing outside the
/// packed bytes is read. `residence` says how many threads do well, as launch bounds.
#include "quipu/pack/detail/device_records.cuh"
#include "quipu/pack/detail/exponent_reader.cuh"
#include "quipu/pack/detail/invariant_reader.cuh"
#include "quipu/pack/detail/sparse_reader.cuh"
