"""This gateway, with what it does by default."""

import json
import urllib.request


class Gateway:
    name, log = "Moorgate", "access.log"

    def __init__(self, binary):
        self.binary, self.program = str(binary), [str(binary), "--version"]

    def configure(self, folder, task, ports):
        (folder / "moorgate.json").write_text(json.dumps(config(folder, task, ports), indent=1))

    def command(self, folder, _task, _ports):
        return [self.binary, "run", "--config", str(folder / "moorgate.json")]

    def checked(self, folder):
        return [self.binary, "check", "--config", str(folder / "moorgate.json")]

    def reload(self, _running, ports):
        answer = json.load(urllib.request.urlopen(f"http://127.0.0.1:{ports.admin}/reload", b"", timeout=30))
        if answer["result"] != "applied":
            raise RuntimeError(f"not applied: {answer}")


def config(folder, task, ports):
    """The configuration; requests on a connection without end, as for the others."""
    return {
        "version": 1,
        "process": {
            "threads": task.threads,
            "listeners": [
                {"address": f"127.0.0.1:{ports.plain}"},
                {"address": f"127.0.0.1:{ports.tls}", "tls": {}},
            ],
            "admin": {"address": f"127.0.0.1:{ports.admin}"},
            "control_socket": False,
            "max_connections": min(16_000, task.files - 4000),
            "access_log": {"path": str(folder / "access.log"), "format": "upstream"},
        },
        "certificates": [{"cert": task.certificate, "key": task.key}],
        "client_limits": {"keepalive_requests": 100_000_000},
        "pools": {
            "origin": {
                "args": {"drop": ["utm_*"]},
                "origins": task.addresses,
                "connections": {"max_requests": False, "keepalive": 4096, "keepalive_timeout": "60s"},
                "health": {"probe": {"interval": "5s", "http": {"path": "/"}}},
            }
        },
        "routes": [
            {
                "name": "all",
                "pool": "origin",
                "limits": {
                    "rate": {"name": "clients", "key": "{client_ip}", "rate": f"{task.limit}/s", "burst": task.limit}
                },
            }
        ],
    }
