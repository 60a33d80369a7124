# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The siwatch authors
"""Plants a fault into a copy of the alerts, the dashboard or the runbooks, and sees check-dashboard.py find it."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES, TESTS, DASHBOARD, ALERTS = (
    "etc/prometheus/siwatch.rules.yml",
    "etc/prometheus/siwatch.rules.test.yml",
    "etc/grafana/siwatch.json",
    "docs/alerts.md",
)


def scrape_of(text):
    """A scrape with every metric that a text names, each as its name suggests, and with the labels it is asked for."""
    lines, histograms = [], set(re.findall(r"\b(siwatch_\w+)_(?:bucket|sum|count)\b", text))
    for name in sorted({re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(?:siwatch|process)_\w+", text)} | histograms):
        if name in histograms:
            lines += [f"# TYPE {name} histogram", f'{name}_bucket{{le="+Inf"}} 0', f"{name}_sum 0", f"{name}_count 0"]
        elif name == "siwatch_refreshes_total":
            lines += [f"# TYPE {name} counter", f'{name}{{app="a \\"b\\" {{c}}",outcome="valid"}} 0']
        else:
            lines.append(f"# TYPE {name} gauge")  # declared, and no series yet
    return "\n".join(lines) + "\n"


class CheckDashboardTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in (RULES, TESTS, TESTS.replace(".test", ".days.test"), DASHBOARD, ALERTS):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        self.scrape = scrape_of((ROOT / RULES).read_text() + (ROOT / DASHBOARD).read_text())

    def check(self):
        (self.root / "scrape").write_text(self.scrape)
        script = [sys.executable, ROOT / "scripts/check-dashboard.py", "--root", self.root, "--scrape", self.root / "scrape"]
        return subprocess.run(script, capture_output=True, text=True, check=False)

    def replace(self, path, old, new):
        text = (self.root / path).read_text()
        self.assertIn(old, text)
        (self.root / path).write_text(text.replace(old, new, 1))

    def edit(self, change):
        dashboard = json.loads((self.root / DASHBOARD).read_text())
        change(dashboard)
        (self.root / DASHBOARD).write_text(json.dumps(dashboard))

    def assertFound(self, problem):
        check = self.check()
        self.assertEqual((check.returncode, problem in check.stderr), (1, True), check.stdout + check.stderr)

    def test_well(self):
        check = self.check()
        self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_same_id(self):
        self.edit(lambda dashboard: dashboard["panels"][3].update(id=dashboard["panels"][2]["id"]))
        self.assertFound("another panel has the same id")

    def test_overlap(self):
        self.edit(lambda dashboard: dashboard["panels"][3]["gridPos"].update(dashboard["panels"][2]["gridPos"]))
        self.assertFound("it overlaps")

    def test_too_wide(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["gridPos"].update(w=25))
        self.assertFound("beyond the grid")

    def test_too_few(self):
        self.edit(lambda dashboard: dashboard.update(panels=dashboard["panels"][:20]))
        self.assertFound("20 are wanted")

    def test_expression(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr="sum by app (siwatch_credentials)"))
        self.assertFound("does not parse")

    def test_variable(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr='siwatch_credentials{app="$apps"}'))
        self.assertFound("$apps is no variable")

    def test_data_source(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(datasource={"uid": "P1809F7CD0C75ACF3"}))
        self.assertFound("its data source is not the dashboard's variable")

    def test_unknown_metric(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr="siwatch_seal_total"))
        self.assertFound("no metric siwatch_seal_total")

    def test_histogram_by_its_bare_name(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr="siwatch_notification_lag_seconds"))
        self.assertFound("no metric siwatch_notification_lag_seconds")

    def test_unknown_label(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr='siwatch_refreshes_total{outcom="valid"}'))
        self.assertFound("has no label outcom")

    def test_unknown_label_of_a_sum(self):
        self.edit(lambda dashboard: dashboard["panels"][-1]["targets"][0].update(expr="sum by (ap) (siwatch_refreshes_total)"))
        self.assertFound("has a label ap.")

    def test_unknown_metric_of_an_alert(self):
        self.scrape = self.scrape.replace("siwatch_store_full ", "siwatch_store_empty ")
        self.assertFound("SiwatchStoreFull: no metric siwatch_store_full")

    def test_no_runbook(self):
        self.replace(ALERTS, "## SiwatchDown\n", "## SiwatchUp\n")
        self.assertFound("SiwatchDown: docs/alerts.md has no section")

    def test_no_summary(self):
        self.replace(RULES, "          summary: siwatch on {{ $labels.instance }} runs and is not ready\n", "")
        self.assertFound("SiwatchNotReady: it has no summary")

    def test_no_test(self):
        text = (self.root / TESTS).read_text()
        (self.root / TESTS).write_text(text.replace("alertname: SiwatchDown\n", "alertname: SiwatchUp\n"))
        self.assertFound("SiwatchDown: no test expects it to fire")

    def test_not_a_scrape(self):
        self.scrape = "<html>\n"
        self.assertFound("no scrape of siwatch")


if __name__ == "__main__":
    unittest.main()
