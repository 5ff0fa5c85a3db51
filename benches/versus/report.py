"""Rows as a table, and the machine they were measured on."""

import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path


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


def machine(*programs):
    """What it ran on, and beside which of these programs, as far as they are there."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    programs = [program for program in programs if shutil.which(program)]
    said = {program: subprocess.run([program, "-v"], capture_output=True, text=True) for program in programs}
    version = lambda one: re.search(r"\d+(?:\.\d+)+", one.stdout + one.stderr).group()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": f"{os.cpu_count()} x {model.group(1) if model else platform.machine()}",
        "kernel": platform.release(),
        "load": round(os.getloadavg()[0], 1),
        **{program: version(one) for program, one in said.items()},
    }
