#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks what no compiler does: which folder includes which, length and names of files, format.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

found=0
report() {
  echo "$1"
  found=1
}

# The folders that each folder of include/quipu may include, besides itself.
declare -A below=(
  [core]=""
  [math]="core"
  [lane]="core math"
  [graph]="core math lane"
  [engine]="core math lane graph"
  [sparse]="core math lane graph engine"
  [reduce]="core math lane graph engine"
  [attention]="core math lane graph engine"
  [block]="core math lane graph engine"
  [pack]="core math lane graph engine"
  [io]="core math lane graph engine pack"
  [interop]="core"
)

# Every include of ours as "file:line:path", the path as written; and relative to include/ or src/.
includes() {
  grep -rnoE --include='*.hpp' --include='*.cuh' --include='*.cpp' --include='*.cu' --include='*.in' \
    '^ *# *include *[<"][^>"]+[>"]' "$@" 2>/dev/null | sed -E 's/# *include *[<"]//; s/[>"]$//; s/: +/:/g'
}

check_layer() {
  local file=$1 line=$2 path=$3 own target
  own=${file#*/}
  own=${own#quipu/}
  own=${own%%/*}
  if [[ $path == quipu/* ]]; then
    target=${path#quipu/}
  elif [[ $file == src/* && -e src/$path ]]; then
    target=$path
  else
    return 0
  fi
  if [[ $target != */* ]]; then return 0; fi # a header beside the folders, such as version.hpp
  target=${target%%/*}
  if [[ $target != "$own" ]]; then
    if [[ -z ${below[$own]+known} ]]; then
      report "$file:$line: folder '$own' has no place in the order of layers (cmake/check_tree.sh)"
    elif [[ " ${below[$own]} " != *" $target "* ]]; then
      report "$file:$line: $own may not include $target"
    fi
    if [[ $path == */detail/* ]]; then
      report "$file:$line: detail/ is for its own folder alone: $path"
    fi
  fi
}

check_vendor() {
  local file=$1 line=$2 path=$3
  case $path in
    cub/device/* | thrust/*)
      [[ $file == src/*.cu || $file == src/*.cuh || $file == src/*.cu.in ]] ||
        report "$file:$line: device-wide CUB and Thrust belong into src/*.cu: $path"
      ;;
    cub/*)
      [[ $file == src/*.cu || $file == src/*.cuh || $file == include/quipu/lane/* ]] ||
        report "$file:$line: CUB belongs into lane/ and src/*.cu: $path"
      ;;
    cusparse*)
      cusparse_files+=("$file")
      ;;
  esac
}

cusparse_files=()
while IFS=: read -r file line path; do
  check_layer "$file" "$line" "$path"
  check_vendor "$file" "$line" "$path"
done < <(includes include src)
if ((${#cusparse_files[@]} > 1)); then
  report "cuSPARSE belongs into one header, not ${#cusparse_files[@]}: ${cusparse_files[*]}"
fi

# Examples keep to what is public; tests use detail/ only of the folder they test. Tuning programs in
# bench/ measure what is inside.
while IFS=: read -r file line path; do
  if [[ $path == quipu/*/detail/* ]]; then
    folder=${path#quipu/}
    [[ $file == test/"${folder%%/*}"/* ]] || report "$file:$line: detail/ is not public: $path"
  fi
done < <(includes examples test)

mapfile -t files < <(find include src examples bench test -type f \
  \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' -o -name '*.in' \
  -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) | sort)
for file in "${files[@]}"; do
  lines=$(wc -l <"$file")
  if ((lines > 500)); then report "$file: $lines lines, more than 500"; fi
  if ! head -3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0\|Made by CMake'; then
    report "$file: no SPDX line"
  fi
  stem=$(basename "$file")
  if [[ _${stem%%.*}_ =~ _(fast|new|old|v[0-9]+|helpers?|utils?|common|misc)_ ]]; then
    report "$file: '${BASH_REMATCH[1]}' in a name tells nothing"
  fi
done

formatter=$(command -v clang-format-14 || true)
if [[ -z $formatter ]]; then
  echo "format: not checked, no clang-format-14"
else
  mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -E '\.(hpp|cuh|cpp|cu)$')
  complaints=$("$formatter" --dry-run -Werror "${sources[@]}" 2>&1 || true)
  badly=$(grep -oE '^[^: ]+:[0-9]+' <<<"$complaints" | sort -u -t: -k1,1 || true)
  while IFS= read -r place; do
    [[ -z $place ]] || report "$place: run clang-format-14 -i"
  done <<<"$badly"
fi

if ((found)); then exit 1; fi
echo "tree: ${#files[@]} files in order"
