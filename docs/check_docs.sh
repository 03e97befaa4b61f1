#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Code in README.md and docs/*.md comes from programs that are compiled and run. Each cpp block stands
# under a comment <!-- from: path#name --> and equals the lines between `// [doc: name]` and
# `// [doc end]` of that file. Also checks that links to files of the repository lead somewhere.
#   docs/check_docs.sh            checks; exit code 1 names what differs
#   docs/check_docs.sh --update   copies the code into the documents
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 - "$@" <<'PYTHON'
import pathlib, re, sys, textwrap

update = sys.argv[1:] == ["--update"]
begins = re.compile(r"\s*// \[doc: (\w+)\]")
block = re.compile(r"^(?:<!-- from: (?P<path>[^#\s]+)#(?P<name>\w+) -->\n)?```cpp\n(?P<code>.*?)^```$",
                   re.M | re.S)
link = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
complaints = []


def excerpts(path):
    """Name to text; excerpts may lie inside each other."""
    found, opened = {}, []
    for line in path.read_text().splitlines():
        if match := begins.fullmatch(line):
            if match[1] in found:
                complaints.append(f"{path}: two excerpts named {match[1]}")
            found[match[1]] = []
            opened.append(match[1])
        elif line.strip() == "// [doc end]":
            if not opened:
                raise SystemExit(f"{path}: [doc end] without a beginning")
            opened.pop()
        else:
            for name in opened:
                found[name].append(line)
    if opened:
        raise SystemExit(f"{path}: excerpt {opened[-1]} does not end")
    return {name: textwrap.dedent("\n".join(lines)) + "\n" for name, lines in found.items()}


def check_block(page, text, match):
    where = f"{page}:{text.count(chr(10), 0, match.start('code'))}"
    if match["path"] is None:
        complaints.append(f"{where}: a cpp block without <!-- from: path#name --> above it")
        return match[0]
    source = pathlib.Path(match["path"])
    wanted = excerpts(source).get(match["name"]) if source.is_file() else None
    if wanted is None:
        complaints.append(f"{where}: no excerpt {match['name']} in {source}")
        return match[0]
    if wanted != match["code"] and not update:
        complaints.append(f"{where}: differs from {source}#{match['name']}; "
                          "docs/check_docs.sh --update copies it")
    return f"<!-- from: {match['path']}#{match['name']} -->\n```cpp\n{wanted}```"


pages = [pathlib.Path("README.md"), *sorted(pathlib.Path("docs").glob("*.md"))]
blocks = 0
for page in pages:
    text = page.read_text()
    blocks += len(block.findall(text))
    if len(block.findall(text)) != len(re.findall(r"^```(?:cpp|c\+\+|cuda)\b", text, re.M)):
        complaints.append(f"{page}: a block of code that is not a plain ```cpp block")
    updated = block.sub(lambda match: check_block(page, text, match), text)
    if update and updated != text:
        page.write_text(updated)
    for target in link.findall(text):
        if not (page.parent / target).exists():
            complaints.append(f"{page}: a link to {target}, which is not there")
for complaint in complaints:
    print(complaint)
if complaints:
    sys.exit(1)
print(f"docs: {blocks} blocks of code in {len(pages)} pages as in their programs")
PYTHON
