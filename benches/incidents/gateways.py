"""Who stands between clients and origins: nginx as the operators of the incidents had it, and Moorgate.

Both write a line for every request, with the same four fields: when it ended, which ring placed it (of nginx: which
process, since each has the ring it was started with), the status, and every origin it was tried at.
"""

import datetime
import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "versus"))
from contenders import LOOPBACK, Running, free_port  # noqa: E402

WORKERS = 2
TRIED = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+")

NGINX = """
daemon off; user root; worker_processes {workers}; error_log nginx.err error; pid nginx.pid; worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  log_format tries '$msec|$pid|$status|$upstream_addr';
  access_log tries.log tries; keepalive_requests 100000000;
  upstream origin {{ {balance} {servers} keepalive 320; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_connect_timeout 500ms; proxy_read_timeout {read};
      proxy_next_upstream error timeout; proxy_next_upstream_tries {tries}; }} }} }}
"""


class Gateway:
    """A gateway that runs, whichever."""

    def __init__(self, folder, addresses, read):
        self.folder, self.read, self.port = folder, read, free_port()
        folder.mkdir()
        self.write(addresses)
        self.running = Running(self.name, self.command(), self.port, folder)

    def stop(self):
        self.running.stop()

    def lines(self):
        """Every request in its log: when it ended (by the wall clock), its ring, its status, the origins tried."""
        found = []
        for line in (self.folder / "tries.log").read_text().splitlines():
            ended, ring, status, tried = line.split("|")
            found.append((self.time(ended), ring, int(status), TRIED.findall(tried)))
        return found


class Nginx(Gateway):
    """nginx: how origins are chosen, when one is out, and how many tries there are."""

    name = "nginx"

    def __init__(self, folder, addresses, read="20s", balance="", fails="", tries=5):
        self.balance, self.fails, self.tries = balance, fails, tries
        super().__init__(folder, addresses, read)

    def write(self, addresses):
        servers = " ".join(f"server {address} {self.fails};" for address in addresses)
        text = NGINX.format(
            workers=WORKERS, balance=self.balance, servers=servers, port=self.port, read=self.read, tries=self.tries
        )
        (self.folder / "nginx.conf").write_text(text)

    def command(self):
        return ["nginx", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]

    def reload(self, addresses):
        """What `nginx -s reload` does."""
        self.write(addresses)
        self.running.process.send_signal(signal.SIGHUP)

    def status(self):
        """It tells nothing of its origins."""
        return {}

    @staticmethod
    def time(text):
        return float(text)


class Moorgate(Gateway):
    """Moorgate: a section of its pool, the rest as by default."""

    name = "moorgate"

    def __init__(self, binary, folder, addresses, read="20s", pool=None):
        self.binary, self.pool = binary, pool or {}
        self.admin = f"{LOOPBACK}:{free_port()}"
        super().__init__(folder, addresses, read)

    def write(self, addresses):
        log = {"path": str(self.folder / "tries.log"), "format": "{time}|{ring}|{status}|{upstream_addr}"}
        timeouts = {"connect": "500ms", "read": self.read}
        config = {
            "version": 1,
            "process": {
                "threads": WORKERS,
                "listeners": [{"address": f"{LOOPBACK}:{self.port}"}],
                "admin": {"address": self.admin},
                "control_socket": False,
                "max_connections": 16_000,
                "drain": {"lame_duck": "0s", "timeout": "1s"},
                "access_log": log,
            },
            "client_limits": {"keepalive_requests": 100_000_000},
            "pools": {"origin": {"origins": addresses, "timeouts": timeouts, **self.pool}},
        }
        self.config = self.folder / "moorgate.json"
        self.config.write_text(json.dumps(config))

    def command(self):
        return [str(self.binary), "run", "--config", str(self.config)]

    def reload(self, addresses):
        self.write(addresses)
        with urllib.request.urlopen(f"http://{self.admin}/reload", b"", timeout=10) as answer:
            told = json.load(answer)
        if told["result"] != "applied":
            raise RuntimeError(f"not applied: {told}")

    def stop(self):
        """Lets it leave by itself, which writes out the last lines of its log."""
        self.running.process.terminate()
        try:
            self.running.process.wait(5)
        finally:
            super().stop()

    def status(self):
        """What it tells of its origins: states, why, effective weights."""
        with urllib.request.urlopen(f"http://{self.admin}/status", timeout=10) as answer:
            return json.load(answer)["pools"]["origin"]["origins"]

    @staticmethod
    def time(text):
        return datetime.datetime.fromisoformat(text).timestamp()


def owners(binary, folder, addresses, keys):
    """Where each key belongs on the ring of these origins; nginx has the same ring."""
    config = folder / "owners.json"
    process = {"listeners": [{"address": f"{LOOPBACK}:1"}]}
    config.write_text(json.dumps({"version": 1, "process": process, "pools": {"origin": {"origins": addresses}}}))
    command = [str(binary), "key", "--config", str(config), "--pool", "origin", "--raw-from", "-"]
    said = subprocess.run(command, input="\n".join(keys), capture_output=True, text=True, timeout=60, check=True)
    return [line.rpartition("\t")[2] for line in said.stdout.splitlines()]
