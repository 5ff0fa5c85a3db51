"""Instructions for a request: the slope between two numbers of requests, the same on any machine, however busy."""

import re

import load

FEW, MANY = 1000, 5000
# HAProxy's and Go's threads, and Envoy's size, are beyond what valgrind runs well.
ABLE = ("nginx", "Pingora", "Moorgate")


def run(bench, _rounds):
    """Of those that valgrind can run."""
    rows = []
    for peer in bench.everybody:
        if not peer.name.startswith(ABLE):
            continue
        bench.progress(peer.name)
        few, many = (count(bench, peer, requests) for requests in (FEW, MANY))
        rows.append({"proxy": peer.name, "instructions": round((many - few) / (MANY - FEW))})
    if rows and rows[0]["proxy"] == "nginx":
        rows = [{**row, "x nginx": round(row["instructions"] / rows[0]["instructions"], 2)} for row in rows]
    return {"how": f"between {FEW} and {MANY} requests", "rows": rows}


def count(bench, peer, requests):
    """Instructions of a whole life with so many requests."""
    files = bench.folder / "callgrind.%p"
    wrapped = ["valgrind", "--tool=callgrind", "--trace-children=yes", f"--callgrind-out-file={files}"]
    running, ports = bench.start(peer, bench.task(bench.origins.few, threads=1), wrapped)
    load.exactly(ports.plain, requests)
    running.stop(patience=60)
    total = 0
    for found in bench.folder.glob("callgrind.*"):
        total += int(re.search(r"^(?:totals|summary): (\d+)", found.read_text(), re.M).group(1))
        found.unlink()
    return total
