"""What stands behind every contender: one nginx, which tells who answered and what it was sent."""

import urllib.request

from contenders import LOOPBACK, Running, free_port

ORIGIN = """
daemon off; user root; worker_processes 1; error_log stderr crit; pid origin.pid; worker_rlimit_nofile {files};
events {{ worker_connections {connections}; }}
http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 300s; sendfile on; tcp_nopush on;
  default_type text/plain; root {folder}; open_file_cache max=16; types {{ }}
  add_header X-Origin $server_addr:$server_port;
  split_clients $request_id $fifth {{ 20% 1; * 0; }}
{servers} }}
"""
# A fifth of the failing one's requests end without an answer; its checks go well.
SERVER = """
server {{ listen {address} backlog=4096;
  location / {{ {fails} return 200 "{body}"; }}
  location = / {{ return 200 "well"; }}
  location /echo {{ return 200 "{echo}"; }}
  location /medium/ {{ try_files /medium/body =404; }}
  location /large/ {{ try_files /large/body =404; }} }}
"""
ECHO = (
    "for=$http_x_forwarded_for proto=$http_x_forwarded_proto host=$http_x_forwarded_host real=$http_x_real_ip "
    "id=$http_x_request_id"
)
SIZES = {"medium": 16 << 10, "large": 1 << 20}


class Origins:
    """1 KiB, or 16 KiB below /medium/, or 1 MiB below /large/."""

    def __init__(self, folder, files):
        for name, size in SIZES.items():
            (folder / name).mkdir()
            (folder / name / "body").write_bytes(b"x" * size)
        ports = [free_port() for _ in range(7)]
        at = [f"{LOOPBACK}:{port}" for port in ports]
        self.few, self.spare = at[:4], at[4]
        self.one_fails = [at[5], *at[1:4]]
        # Every address of 127.0.0.0/8 leads to one socket.
        self.many = [f"127.1.{number // 250}.{number % 250 + 1}:{ports[6]}" for number in range(1000)]
        servers = [server(address, address == at[5]) for address in [*at[:6], f"0.0.0.0:{ports[6]}"]]
        config = folder / "origin.conf"
        limits = {"files": files, "connections": files - 200}
        config.write_text(ORIGIN.format(servers="".join(servers), folder=folder, **limits))
        self.running = Running("origin", ["nginx", "-p", str(folder), "-c", str(config)], ports[0], folder)
        for address in [*at[:6], self.many[0], self.many[-1]]:
            with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
                if answer.read() != b"well":
                    raise RuntimeError(f"another server is at {address}")


def server(address, fails):
    """One of them."""
    fails = "if ($fifth) { return 444; }" if fails else ""
    return SERVER.format(address=address, fails=fails, body="x" * 1024, echo=ECHO)
