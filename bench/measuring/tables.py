"""What was measured as rows of text: for the terminal, and as tables of Markdown."""
import math

from machine import least_seconds
from systems import REFERENCE, SYSTEMS


def seconds_text(value):
    if value is None:
        return "–"
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1 or unit == "µs":
            number = value * scale
            return f"{number:.{0 if number >= 100 else 1 if number >= 10 else 2}f} {unit}"
    return ""


def bytes_text(value):
    if value is None:
        return "–"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale or unit == "kB":
            number = value / scale
            return f"{number:.{0 if number >= 100 else 1}f} {unit}"
    return ""


def share_of_limit(results, model, setting, facts):
    """The part of the measured time that the machine needs at least; None where it is not known."""
    batch, dtype, threads = setting.split("-")
    peak, exported = results.peak(int(threads[1:])), results.exports.get(f"{model}/{batch}-{dtype}")
    if not peak or not exported or "flops" not in exported or "median" not in facts:
        return None, ""
    least, limit = least_seconds(peak, dtype, exported["flops"], exported["bytes"])
    return least / facts["median"], limit


def share_text(share):
    """With "?" where it is more than can be."""
    return "–" if share is None else f"{100 * share:.0f} %{' ?' if share > 1.05 else ''}"


def ratio_to_reference(results, model, setting, facts):
    """Time over Kiln's, and "*" where the two did not take turns in one run."""
    reference = results.get(model, setting, REFERENCE)
    if not reference or "median" not in reference or "median" not in facts:
        return None, ""
    return facts["median"] / reference["median"], "" if facts["run"] == reference["run"] else "*"


def error_text(facts):
    if "ratio" not in facts:
        return facts.get("verdict", "–")
    own = facts["eager_error"]
    times = f" ({facts['error'] / own:.1f}×)" if own else ""
    return f"{facts['error']:.1e}{times}{'' if facts['right'] else ' !'}"


def spread_text(facts):
    """Of one round nothing is known of it."""
    return "–" if len(facts.get("rounds", (0, 0))) < 2 else f"±{100 * facts['spread']:.1f} %"


COLUMNS = ["system", "median", "spread", "× Kiln", "of limit", "difference", "error", "compile", "load", "first call", "size", "memory"]


def compile_text(facts):
    """The compilation; of Kiln's how much of it went into packing weights and writing them."""
    weights = f" ({seconds_text(facts['weights'])} weights)" if facts.get("weights") else ""
    return seconds_text(facts.get("compile")) + weights


def model_rows(results, model, setting, systems):
    """(rows, failures) of one model: rows as COLUMNS, failures as (system, why)."""
    rows, failures = [], []
    for name in systems:
        facts = results.get(model, setting, name)
        if facts is None:
            continue
        if facts["status"] != "ok":
            failures.append((SYSTEMS[name].label, facts["why"]))
            continue
        ratio, mark = ratio_to_reference(results, model, setting, facts)
        share, _ = share_of_limit(results, model, setting, facts)
        held = facts["resident"] - facts["resident_before"]
        rows.append([SYSTEMS[name].label, seconds_text(facts["median"]), spread_text(facts),
                     "–" if ratio is None else f"{ratio:.2f}{mark}", share_text(share),
                     f"{facts['difference']:.1e}" if "difference" in facts else "–", error_text(facts),
                     compile_text(facts), seconds_text(facts["load"]), seconds_text(facts["first"]),
                     bytes_text(facts.get("size")), f"{bytes_text(facts['resident'])} ({bytes_text(held)})"])
    return rows, failures


def text_table(columns, rows):
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    lines = []
    for row in [columns, *rows]:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown_table(columns, rows):
    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    return "\n".join([line(columns), line(["---"] + ["---:"] * (len(columns) - 1)), *map(line, rows)])


def summary(results, setting, models, systems):
    """Columns and rows: each model's times, Kiln's first and the others as multiples of it, and their geometric means."""
    present = [name for name in systems if any(results.get(model, setting, name) for model in models)]
    columns = ["model"] + [SYSTEMS[name].label for name in present]
    rows, ratios, apart = [], {name: [] for name in present}, {}
    for model in models:
        row = [model]
        for name in present:
            facts = results.get(model, setting, name)
            if facts is None:
                row.append("")
                continue
            if facts["status"] != "ok":
                row.append("fails")
                continue
            ratio, mark = ratio_to_reference(results, model, setting, facts)
            wrong = "" if facts.get("right") else " !"
            if name == REFERENCE or ratio is None:
                row.append(seconds_text(facts["median"]) + wrong)
            else:
                row.append(f"{ratio:.2f}{mark}{wrong}")
            if ratio is not None and facts.get("right"):
                ratios[name].append(ratio)
                apart[name] = apart.get(name) or mark
        if any(row[1:]):
            rows.append(row)
    means = ["geometric mean"]
    for name in present:
        values = ratios[name]
        means.append(f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}{apart[name]} ({len(values)})" if values else "–")
    return columns, rows + [means] if rows else rows


LEGEND = ("× Kiln: time over Kiln's, above 1 Kiln is quicker (* not measured in the same run). of limit: the time that this machine "
          "needs at least, by its measured multiply-adds and memory, over the time taken (? above it: convolutions by Winograd's transform multiply less than is counted, or the limits were measured while the machine was busy, and --limits measures them again). difference: the largest to eager. error: the "
          "largest to float64, beside how many times eager's own it is (! more than rounding). compile: with empty caches, and how much of it "
          "packing and writing the weights took where that is known; first call: the "
          "first after loading. memory: resident of the process, and how much of it came with the model.")
