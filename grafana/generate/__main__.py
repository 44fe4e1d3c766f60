"""Writes all generated files under `grafana/`: `python3 grafana/generate`. With `--check` it writes nothing and fails if a
file differs from the generated text."""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import alerts  # noqa: E402
import boards  # noqa: E402
import slos  # noqa: E402

HERE = pathlib.Path(__file__).parent.parent
MADE = "# Made by `python3 grafana/generate`; change that, not this.\n"
RUNBOOK = "docs/runbook.md"


def scalar(value):
    """A scalar as YAML: JSON's strings and numbers are YAML, too."""
    return json.dumps(value, ensure_ascii=False)


def yaml(value, depth=0):
    pad = "  " * depth
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            if isinstance(inner, (dict, list)) and inner:
                lines.append(f"{pad}{key}:\n{yaml(inner, depth + 1)}")
            else:
                lines.append(f"{pad}{key}: {'[]' if inner == [] else scalar(inner)}")
        return "\n".join(lines)
    lines = []
    for inner in value:
        text = yaml(inner, depth + 1).lstrip() if isinstance(inner, dict) else scalar(inner)
        lines.append(f"{pad}- {text}")
    return "\n".join(lines)


def annotations(alert):
    return {
        "summary": alert["summary"],
        "description": alert["description"],
        "runbook_url": f"{RUNBOOK}#{alert['runbook']}",
        "dashboard": f"/d/{alert['dashboard']}",
    }


def rule(alert):
    return {
        "alert": alert["name"],
        "expr": alert["expr"],
        "for": alert["wait"],
        "labels": {"severity": alert["severity"]},
        "annotations": annotations(alert),
    }


def at(alert):
    return alert.get("at", "18m")


def after_min(alert):
    return int(at(alert).removesuffix("m"))


def test(alert, series, expected):
    found = [{"exp_labels": {**labels, "severity": alert["severity"]}, "exp_annotations": annotations(alert)}
             for labels in expected]
    return {
        "interval": alert.get("interval", "1m"),
        "input_series": [{"series": name, "values": values} for name, values in series],
        "alert_rule_test": [
            {"eval_time": at(alert), "alertname": alert["name"], "exp_alerts": found}
        ],
    }


def tests(found):
    made = []
    for alert in found:
        made += [test(alert, series, expected) for series, expected in alert["fires"]]
        made += [test(alert, series, []) for series in alert["quiet"]]
    return made


def suite(rules, every, found):
    """A file of tests. Rules over days are evaluated seldom, so that a test takes seconds and not minutes."""
    groups = ["porchlight-objectives"] if "recording" in rules else []
    return {
        "rule_files": [f"../{name}.yaml" for name in rules],
        "evaluation_interval": every,
        # The recording rules must run before the alerts that read them.
        "group_eval_order": [*groups, "porchlight-budgets", "porchlight-causes"],
        "tests": tests(found),
    }


def files():
    burning = slos.alerts()
    fast = [alert for alert in burning if alert["severity"] == "page"]
    slow = [alert for alert in burning if alert["severity"] != "page"]
    within_days = [alert for alert in alerts.ALERTS if after_min(alert) >= 600]
    within_minutes = [alert for alert in alerts.ALERTS if after_min(alert) < 600]
    rules = {"groups": [{"name": "porchlight-objectives", "rules": slos.recording_rules()}]}
    firing = {
        "groups": [
            {"name": "porchlight-budgets", "rules": [rule(alert) for alert in burning]},
            {"name": "porchlight-causes", "rules": [rule(alert) for alert in alerts.ALERTS]},
        ]
    }
    for name, value in {
        "rules/recording.yaml": rules,
        "rules/alerts.yaml": firing,
        "rules/tests/budgets-fast.yaml": suite(["recording", "alerts"], "5m", fast),
        "rules/tests/budgets-slow.yaml": suite(["recording", "alerts"], "30m", slow),
        "rules/tests/causes-fast.yaml": suite(["alerts"], "1m", within_minutes),
        "rules/tests/causes-slow.yaml": suite(["alerts"], "10m", within_days),
    }.items():
        yield HERE / name, MADE + yaml(value) + "\n"
    for made in boards.all_boards(slos.SLOS):
        name = made["uid"].removeprefix("porchlight-")
        yield HERE / "dashboards" / f"{name}.json", json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main():
    differing = []
    for path, text in files():
        if path.exists() and path.read_text() == text:
            continue
        differing.append(str(path.relative_to(HERE.parent)))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if differing and "--check" in sys.argv:
        sys.exit("not as `python3 grafana/generate` writes them: " + ", ".join(differing))


main()
