"""Figures as tables, the machine they were measured on, and what stands in the README."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import bars
import goals

COMPARED = "make bench-compare"


def table(rows):
    """Rows as a table of Markdown, aligned for the terminal."""
    names = list(rows[0])
    lines = [[str(row[name]) for name in names] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(names, *lines)]
    left = lambda at: all(isinstance(row[names[at]], str) for row in rows)
    placed = lambda at, cell: cell.ljust(widths[at]) if left(at) else cell.rjust(widths[at])
    rule = ["-" * width if left(at) else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    shown = [" | ".join(placed(at, cell) for at, cell in enumerate(cells)) for cells in [names, rule, *lines]]
    return "\n".join(f"| {line} |" for line in shown)


def today():
    return time.strftime("%Y-%m-%d")


def machine(*programs):
    """What it ran on, and beside which of these programs, as far as they are there."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    programs = [program for program in programs if shutil.which(program)]
    return {
        "date": today(),
        "processor": f"{os.cpu_count()} x {model.group(1) if model else platform.machine()}",
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 1),
        **{program: version([program, "-v"]) for program in programs},
    }


def version(command):
    """What a program says of itself."""
    said = subprocess.run(command, capture_output=True, text=True)
    return re.search(r"\d+(?:\.\d+)+", (said.stdout + said.stderr).replace("/", " ").split("version: ")[-1]).group()


def versions(peers, binaries):
    """Which versions were compared; of the gateway also which build."""
    found = {peer.name: version(peer.program) for peer in peers if peer.program}
    lock = Path(__file__).parents[2] / "Cargo.lock"
    found["Pingora"] = re.search(r'name = "pingora"\nversion = "(.*?)"', lock.read_text()).group(1)
    gateway = binaries / "moorgate"
    if "Moorgate" in found:
        found["Moorgate"] += f" ({build(gateway)})"
    return found


def build(binary):
    """Which build of the gateway this is: its profile, and what tells it from any other."""
    return f"{binary.parent.name}, sha256 {hashlib.sha256(binary.read_bytes()).hexdigest()[:12]}"


def told(found):
    """Everything, as Markdown."""
    said = [line(found["machine"]), line(found["versions"])]
    if aims := goals.told(found["jobs"]):
        said += ["## Goals", table(aims)]
    if found.get("duties"):
        said += ["## What each was seen to do", table(found["duties"])]
    for job in found["jobs"].values():
        build = f", Moorgate {job['build']}" if job["build"] else ""
        said += [f"## {job['title']}", f"{job['date']}, {job['how']}{build}"]
        said += [table(job["rows"])] if job["rows"] else []
        said += [f"{name} is left out: {why}" for name, why in job["out"].items()]
    return "\n\n".join(said) + "\n"


def about(found):
    """When, where and of what."""
    return f"{line(found['machine'])}; {line(found['versions'])}"


def line(facts):
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def write(results, found, readme, page):
    """The figures, all tables, the chart; the short table of the README, and the goals in the page about what all costs."""
    results.mkdir(exist_ok=True)
    (results / "compare.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (results / "compare.md").write_text(f"# Beside other proxies\n\nBy `make bench-compare`.\n\n{told(found)}")
    bars.write(results / "compare.svg", panels(found["jobs"]))
    if readme and found["jobs"]:
        put(readme, short(found, *(leads(readme, results / name) for name in ("compare.svg", "compare.md"))))
    aims = goals.told(found["jobs"])
    if page and aims:
        put(page, f"{table(aims)}\n\n{about(found)}. Everything: [compare.md]({leads(page, results / 'compare.md')}).")


def leads(page, path):
    """What leads from a page to this file."""
    return os.path.relpath(path.resolve(), page.resolve().parent)


def put(page, text, command=COMPARED):
    """Between the marks of a page, in place of what this command wrote there before."""
    begin, end = f"<!-- written by {command} -->", f"<!-- end of what {command} wrote -->"
    before, mark, rest = page.read_text().partition(begin)
    if not mark:
        raise RuntimeError(f"{page} has no place for this: {begin}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")


def panels(jobs):
    """Of each job with CPU for requests: its title, and figures by contender."""
    cpu = [job for job in jobs.values() if job["rows"] and "user" in job["rows"][0]]
    return [(job["title"], [(row["proxy"], row["CPU µs"], row.get("x nginx")) for row in job["rows"]]) for job in cpu]


# What of a job stands in the short table, where it is not CPU.
SHOWN = {
    "idle": ("MiB in all", "MiB in all"),
    "reload": ("x quiet", "p99, x without reloads"),
    "instructions": ("instructions", "instructions"),
}


def short(found, chart, all_of_it):
    """One line a job, one column a contender."""
    names = list(dict.fromkeys(row["proxy"] for job in found["jobs"].values() for row in job["rows"]))
    rows = []
    for name, job in found["jobs"].items():
        what, unit = SHOWN.get(name, ("CPU µs", "CPU µs a request"))
        of = {row["proxy"]: f"{row[what]:,}" for row in job["rows"]}
        rows.append({"": f"{job['title']}: {unit}", **{other: of.get(other, "") for other in names}})
    return f"![CPU for a request]({chart})\n\n{table(rows)}\n\n{about(found)}. Everything: [compare.md]({all_of_it})."
