"""Caddy. Its hash is of the target, its limits are plugins; it goes elsewhere while a failure has put an origin out."""

import urllib.request

CONFIG = """
{{
	admin 127.0.0.1:{admin}
	auto_https off
	grace_period 30s
	log default {{
		level ERROR
	}}
	servers {{
		protocols h1 h2
		timeouts {{
			idle 65s
		}}
	}}
}}
(job) {{
	bind 127.0.0.1
	log {{
		output file {folder}/access.log {{
			roll_disabled
		}}
	}}
	reverse_proxy {servers} {{
		lb_policy uri_hash
		lb_retries 1
		fail_duration 200ms
		health_uri /
		health_interval 5s
		header_up X-Real-IP {{remote_host}}
		header_up X-Request-ID {{http.request.uuid}}
		transport http {{
			dial_timeout 1s
			response_header_timeout 10s
			keepalive 60s
			keepalive_idle_conns 4096
			keepalive_idle_conns_per_host 320
			compression off
		}}
	}}
}}
http://:{plain} {{
	import job
}}
https://:{tls} {{
	tls {certificate} {key}
	import job
}}
"""


class Caddy:
    name, program, log = "Caddy", ["caddy", "version"], "access.log"

    def configure(self, folder, task, ports):
        told = CONFIG.format(**vars(task), **vars(ports), servers=" ".join(task.addresses), folder=folder)
        (folder / "Caddyfile").write_text(told)

    def command(self, folder, task, _ports):
        run = ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
        return ["env", *home(folder), f"GOMAXPROCS={task.threads}", *run]

    def checked(self, folder):
        return ["env", *home(folder), "caddy", "validate", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]

    def reload(self, running, ports):
        config = (running.folder / "Caddyfile").read_bytes()
        kind = {"Content-Type": "text/caddyfile"}
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{ports.admin}/load", config, kind), timeout=30)


def home(folder):
    """Where it keeps what is its own."""
    return [f"{name}={folder}" for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")]
