#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Checks the alerts and the dashboard against each other, the documents and a scrape.

    scripts/check-dashboard.py [--scrape FILE]

FILE holds what GET /metrics answers. Without it, names of metrics and labels are not checked, and a line says so.
Expressions are parsed by promtool, which has to be on the PATH. Exit codes: 0 all is well, 1 something is not, 64 wrong usage,
69 promtool is missing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FEWEST_PANELS = 20
COLUMNS = 24

# What Prometheus adds to every series, and what it writes of alerts.
COMMON_LABELS = {"job", "instance", "le"}
ALERT_LABELS = {"alertname", "alertstate", "severity"}
# Grafana's own variables, by something of their kind.
BUILT_IN = {"__rate_interval": "5m", "__interval": "1m", "__range": "1h", "__interval_ms": "60000", "__range_s": "3600"}

METRIC = re.compile(r"\b(?:siwatch|process)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"\b((?:siwatch|process)_[a-z0-9_]+)\{((?:[^}\"]|\"[^\"]*\")*)\}")
MATCHER = re.compile(r"([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*\"[^\"]*\"")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))|\[\[(\w+)\]\]")


class Problems(list):
    def add(self, where, what):
        self.append(f"{where}: {what}")


class Scrape:
    """The metrics of a scrape, and the labels of those that have series."""

    def __init__(self, text):
        self.kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        self.labels = {}
        for name, labels in re.findall(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? \S+$", text, re.M):
            family = self.family(name) or name
            self.kinds.setdefault(family, "untyped")
            self.labels.setdefault(family, set()).update(re.findall(r"(\w+)=\"", re.sub(r"\\.", "", labels)))

    def family(self, name):
        """The metric that a sample's name belongs to; None if there is none. A histogram has no sample of its bare name."""
        if name in self.kinds:
            return None if self.kinds[name] == "histogram" else name
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        return base if base != name and self.kinds.get(base) == "histogram" else None


def metrics_in(expression):
    return sorted(set(METRIC.findall(re.sub(r"\"[^\"]*\"", '""', expression))))


def check_names(where, expression, scrape, problems, legend=""):
    """Every metric is in the scrape, and so is every label asked of it."""
    known = set(COMMON_LABELS | ALERT_LABELS) if "ALERTS" in expression else set(COMMON_LABELS)
    complete = True
    for name in metrics_in(expression):
        family = scrape.family(name)
        if family is None:
            problems.add(where, f"no metric {name} in the scrape.")
        if family is None or family not in scrape.labels:
            complete = False  # a metric without a series yet does not tell its labels
            continue
        known |= scrape.labels[family]
        for matchers in [matchers for metric, matchers in SELECTOR.findall(expression) if metric == name]:
            for label in MATCHER.findall(matchers):
                if label not in scrape.labels[family] | COMMON_LABELS:
                    problems.add(where, f"{name} has no label {label}.")
    if not complete:
        return
    asked = {label.strip() for labels in GROUPING.findall(expression) for label in labels.split(",")}
    asked |= set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend))
    if "ALERTS" in expression:
        known |= {"app"}
    for label in sorted(asked - known - {""}):
        problems.add(where, f"none of its metrics has a label {label}.")


class Promtool:
    def __init__(self):
        self.path = shutil.which("promtool")

    def parses(self, expressions):
        """None if all of them parse, else what promtool says. A rules file is YAML, and so is JSON."""
        rules = [{"record": f"parsed:{number}", "expr": expression} for number, expression in enumerate(expressions)]
        with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
            json.dump({"groups": [{"name": "parsed", "rules": rules}]}, file)
            file.flush()
            tool = subprocess.run([self.path, "check", "rules", file.name], capture_output=True, text=True, check=False)
        if tool.returncode == 0:
            return None
        said = re.search(r"could not parse expression: (.*)", tool.stdout + tool.stderr)
        return said[1] if said else (tool.stdout + tool.stderr).strip()

    def count(self, rules):
        """How many rules promtool finds in the file; None if it finds fault with it."""
        tool = subprocess.run([self.path, "check", "rules", str(rules)], capture_output=True, text=True, check=False)
        found = re.search(r"(\d+) rules found", tool.stdout + tool.stderr)
        return int(found[1]) if tool.returncode == 0 and found else None


# The dashboard


def all_panels(panels):
    for panel in panels:
        yield panel
        yield from all_panels(panel.get("panels", []))


def filled(expression, variables, where, problems):
    """The expression with something in the place of every variable."""

    def value(match):
        name = match[1] or match[2] or match[3]
        if name not in variables and name not in BUILT_IN:
            problems.add(where, f"${name} is no variable of the dashboard.")
        return BUILT_IN.get(name, "x")

    return VARIABLE.sub(value, expression)


def check_layout(panels, problems):
    seen, titles, placed = set(), set(), []
    for panel in all_panels(panels):
        where = f"panel “{panel.get('title', '')}” ({panel.get('id')})"
        if not isinstance(panel.get("id"), int):
            problems.add(where, "it has no id.")
        elif panel["id"] in seen:
            problems.add(where, "another panel has the same id.")
        seen.add(panel.get("id"))
        if not panel.get("title"):
            problems.add(where, "it has no title.")
        place = panel.get("gridPos", {})
        if not all(isinstance(place.get(side), int) for side in "xywh") or min(place["w"], place["h"]) < 1:
            problems.add(where, "it has no place in the grid.")
            continue
        if place["x"] < 0 or place["y"] < 0 or place["x"] + place["w"] > COLUMNS:
            problems.add(where, f"it reaches beyond the grid's {COLUMNS} columns.")
        for other, taken in placed:
            if (
                place["x"] < taken["x"] + taken["w"]
                and taken["x"] < place["x"] + place["w"]
                and place["y"] < taken["y"] + taken["h"]
                and taken["y"] < place["y"] + place["h"]
            ):
                problems.add(where, f"it overlaps {other}.")
        placed.append((where, place))
        if panel.get("type") != "row":
            titles.add(where)
    if len(titles) < FEWEST_PANELS:
        problems.add("dashboard", f"it has {len(titles)} panels; {FEWEST_PANELS} are wanted.")


def expressions_of(dashboard, problems):
    """Every expression of the dashboard with its place: (where, as written, filled in, legend)."""
    variables = {variable["name"]: variable for variable in dashboard.get("templating", {}).get("list", [])}
    sources = {f"${{{name}}}" for name, variable in variables.items() if variable.get("type") == "datasource"}
    if not sources:
        problems.add("dashboard", "it has no variable for the data source.")
    found = []

    def take(where, expression, source, legend=""):
        if (source or {}).get("uid") not in sources:
            problems.add(where, "its data source is not the dashboard's variable.")
        if not expression:
            problems.add(where, "it has no expression.")
            return
        found.append((where, expression, filled(expression, variables, where, problems), legend))

    for panel in all_panels(dashboard.get("panels", [])):
        if panel.get("type") == "row":
            continue
        where = f"panel “{panel.get('title', '')}” ({panel.get('id')})"
        if not panel.get("description"):
            problems.add(where, "it has no description.")
        if panel.get("type") != "table" and not panel.get("fieldConfig", {}).get("defaults", {}).get("unit"):
            problems.add(where, "it has no unit.")
        targets = panel.get("targets", [])
        if not targets:
            problems.add(where, "it shows nothing.")
        names = [target.get("refId") for target in targets]
        if len(set(names)) < len(names):
            problems.add(where, "two of its queries have the same refId.")
        for target in targets:
            take(where, target.get("expr"), target.get("datasource"), target.get("legendFormat", ""))
    for name, variable in variables.items():
        if variable.get("type") != "query":
            continue
        query = variable.get("query")
        query = query.get("query", "") if isinstance(query, dict) else query or ""
        parts = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", query)
        if not parts:
            problems.add(f"variable {name}", "its query is no label_values(metric, label).")
            continue
        take(f"variable {name}", parts[1], variable.get("datasource"), "{{" + parts[2] + "}}")
    for annotation in dashboard.get("annotations", {}).get("list", []):
        if not annotation.get("builtIn"):
            titles = annotation.get("titleFormat", "") + annotation.get("textFormat", "")
            take(f"annotation {annotation.get('name')}", annotation.get("expr"), annotation.get("datasource"), titles)
    return found


def check_dashboard(path, promtool, scrape, problems):
    try:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        problems.add(path.name, f"it is no JSON: {error}.")
        return 0, 0
    for key in ("uid", "title", "schemaVersion"):
        if not dashboard.get(key):
            problems.add("dashboard", f"it has no {key}.")
    if dashboard.get("id") is not None:
        problems.add("dashboard", "its id has to be null: Grafana gives it one.")
    check_layout(dashboard.get("panels", []), problems)
    expressions = expressions_of(dashboard, problems)
    if promtool.parses([expression for _, _, expression, _ in expressions]):
        for where, written, expression, _ in expressions:
            said = promtool.parses([expression])
            if said:
                problems.add(where, f"{written} does not parse: {said}.")
    if scrape:
        for where, _, expression, legend in expressions:
            check_names(where, expression, scrape, problems, legend)
    return sum(panel.get("type") != "row" for panel in all_panels(dashboard.get("panels", []))), len(expressions)


# The alerts


def alerts_in(text):
    """The alerts of a rules file as it is written here, by name. The standard library reads no YAML."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for chunk in re.split(r"^ *- alert: *", text, flags=re.M)[1:]:
        name, *lines = chunk.splitlines()
        values, key, indent = {}, None, 0
        for line in lines:
            start = re.match(r"( *)(\w+):(?: (.*))?$", line)
            if start and (key is None or len(start[1]) <= indent):
                indent, key = len(start[1]), start[2] if start[3] else None  # without a value it holds further keys
                values[start[2]] = re.sub(r"^[|>]-?$", "", start[3] or "").strip("\"'")
            elif key and line.strip():
                values[key] = f"{values[key]}\n{line.strip()}".strip()
        yield name, values


def anchors_in(text):
    """The anchors that a Markdown renderer gives to headings."""
    titles = re.findall(r"^#+ +(.*?) *$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def tested_in(texts):
    """The alerts that a test expects to fire, and those that one expects not to."""
    cases = [case for text in texts for case in re.split(r"^ *- alertname: *", text, flags=re.M)[1:]]
    fires = {case.split()[0] for case in cases if re.search(r"^ *- exp_labels:", case, re.M)}
    silent = {case.split()[0] for case in cases if re.search(r"^ *exp_alerts: \[\]", case, re.M)}
    return fires, silent


def check_rules(path, runbooks, promtool, scrape, problems):
    alerts = list(alerts_in(path.read_text(encoding="utf-8")))
    names = [name for name, _ in alerts]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add(name, "there are two alerts of this name.")
    found = promtool.count(path)
    if found is None:
        problems.add(path.name, "promtool check rules finds fault with it.")
    elif found != len(alerts):
        problems.add(path.name, f"promtool finds {found} rules in it and this script {len(alerts)}; write it as the others are.")
    anchors = anchors_in(runbooks.read_text(encoding="utf-8"))
    fires, silent = tested_in(file.read_text(encoding="utf-8") for file in sorted(path.parent.glob("*.test.yml")))
    for name, values in alerts:
        for key in ("expr", "summary", "description", "runbook_url"):
            if not values.get(key):
                problems.add(name, f"it has no {key}.")
        if values.get("severity") not in ("page", "ticket"):
            problems.add(name, "its severity is neither page nor ticket.")
        page, _, anchor = values.get("runbook_url", "").partition("#")
        if not page.endswith("docs/alerts.md") or anchor != name.lower() or anchor not in anchors:
            problems.add(name, f"docs/alerts.md has no section for it, or its runbook_url does not lead to #{name.lower()}.")
        if name not in fires:
            problems.add(name, "no test expects it to fire.")
        if name not in silent:
            problems.add(name, "no test expects it not to fire.")
        if scrape and values.get("expr"):
            check_names(name, values["expr"], scrape, problems)
    for name in sorted((fires | silent) - set(names)):
        problems.add(name, "it is tested and is no alert.")
    return len(alerts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.error = lambda message: sys.exit(usage(message))
    parser.add_argument("--scrape", type=Path, help="what GET /metrics answers")
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder with etc and docs in it")
    arguments = parser.parse_args()

    promtool = Promtool()
    if promtool.path is None:
        print("promtool is not on the PATH; Debian has it in the package prometheus.", file=sys.stderr)
        return 69
    problems = Problems()
    scrape = None
    try:
        if arguments.scrape:
            scrape = Scrape(arguments.scrape.read_text(encoding="utf-8"))
            if not scrape.family("siwatch_build_info"):
                problems.add(str(arguments.scrape), "it is no scrape of siwatch.")
        rules = arguments.root / "etc/prometheus/siwatch.rules.yml"
        alerts = check_rules(rules, arguments.root / "docs/alerts.md", promtool, scrape, problems)
        panels, expressions = check_dashboard(arguments.root / "etc/grafana/siwatch.json", promtool, scrape, problems)
    except OSError as error:
        print(f"{error.filename} cannot be read: {error.strerror}.", file=sys.stderr)
        return 1
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems.", file=sys.stderr)
        return 1
    print(f"{alerts} alerts, {panels} panels and {expressions} expressions are well.")
    if scrape is None:
        print("Names of metrics and labels were NOT checked: give a scrape with --scrape FILE.")
    return 0


def usage(message):
    print(f"{message[:1].upper()}{message[1:]}.", file=sys.stderr)
    return 64


if __name__ == "__main__":
    sys.exit(main())
