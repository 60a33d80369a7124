#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Compares the lines of Swift of each module with its budget in scripts/line_budget.txt. Files and functions of Sources have limits too.

Whoever needs more lines finds them elsewhere in the module, or raises the budget in the commit that says why. `--set` writes down what
is reached."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUDGET = ROOT / "scripts/line_budget.txt"
LONGEST_FILE = 250
# Without the lines of a text, such as SQL.
LONGEST_FUNCTION = 60

# swift-format puts the end of a function below its beginning.
BEGINNING = re.compile(r"( *)(?:@\S+ )*(?:[a-z]+(?:\([a-z]+\))? )*(?:func|init|var|subscript)\b.*")


def long_functions(lines):
    """The first lines of functions that are too long, and their lengths."""
    for number, line in enumerate(lines):
        begins = BEGINNING.fullmatch(line)
        if not begins or not (line.endswith("{") or line.endswith("(")):
            continue
        length, is_text = 1, False
        for next_line in lines[number + 1:]:
            is_text ^= next_line.count('"""') % 2 == 1
            length += not is_text
            if next_line == begins[1] + "}" or next_line.startswith(begins[1] + ")") and not next_line.endswith("{"):
                break
        if length > LONGEST_FUNCTION:
            yield line.strip(), length


reached, wrong = {}, []
for path in sorted(path for folder in ("Sources", "Instruments", "Tests") for path in (ROOT / folder).rglob("*.swift")):
    lines = path.read_text(encoding="utf-8").splitlines()
    name = path.relative_to(ROOT)
    module = "/".join(name.parts[:2])
    reached[module] = reached.get(module, 0) + len(lines)
    if module.startswith("Sources"):
        if len(lines) > LONGEST_FILE:
            wrong.append(f"{name} has {len(lines)} lines; {LONGEST_FILE} are allowed.")
        wrong += [f"{name}: {line} … has {length} lines; {LONGEST_FUNCTION} are allowed." for line, length in long_functions(lines)]

if "--set" in sys.argv:
    BUDGET.write_text("".join(f"{count:6} {module}\n" for module, count in sorted(reached.items())), encoding="utf-8")
budget = {module: int(count) for count, module in map(str.split, BUDGET.read_text(encoding="utf-8").splitlines())}
wrong += [f"{module} has {count} lines; scripts/line_budget.txt allows {budget.get(module, 0)}."
          for module, count in sorted(reached.items()) if count > budget.get(module, 0)]
print("\n".join(wrong) or f"{sum(reached.values()):,} lines of Swift are within the budgets of their modules.")
sys.exit(bool(wrong))
