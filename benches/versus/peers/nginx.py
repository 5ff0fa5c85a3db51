"""nginx."""

import signal

CONFIG = """
daemon off; user root; worker_processes {threads}; error_log stderr crit; pid nginx.pid;
worker_rlimit_nofile {files}; worker_shutdown_timeout 30s;
events {{ worker_connections {connections}; }}
http {{
  log_format upstream '$remote_addr [$time_local] "$request" $status $host$request_uri $upstream_addr $upstream_status '
                      '$upstream_response_time $request_time $body_bytes_sent';
  access_log access.log upstream buffer=64k flush=1s;
  sendfile on; tcp_nopush on; keepalive_timeout 65s; keepalive_requests 100000000;
  limit_req_zone $binary_remote_addr zone=clients:10m rate={limit}r/s;
  upstream origin {{
    hash $host$request_uri consistent;
    {servers}
    keepalive 2048; keepalive_requests 100000000; keepalive_timeout 60s;
  }}
  ssl_certificate {certificate}; ssl_certificate_key {key};
  ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m;
  server {{
    listen 127.0.0.1:{plain} backlog=4096 reuseport;
    listen 127.0.0.1:{tls} ssl http2 backlog=4096 reuseport;
    location / {{
      limit_req zone=clients burst={limit} nodelay;
      proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Request-ID $request_id;
      proxy_connect_timeout 1s; proxy_read_timeout 10s;
      proxy_next_upstream error timeout; proxy_next_upstream_tries 2;
      proxy_buffer_size 16k; proxy_buffers 16 32k; proxy_busy_buffers_size 256k; proxy_max_temp_file_size 0;
    }}
  }}
}}
"""


class Nginx:
    name, program, log = "nginx", ["nginx", "-v"], "access.log"

    def configure(self, folder, task, ports):
        servers = "\n    ".join(f"server {address} max_fails=0;" for address in task.addresses)
        (folder / "nginx.conf").write_text(
            CONFIG.format(**vars(task), **vars(ports), servers=servers, connections=task.files - 100)
        )

    def command(self, folder, _task, _ports):
        return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]

    def checked(self, folder):
        return ["nginx", "-t", "-q", "-p", str(folder), "-c", str(folder / "nginx.conf")]

    def reload(self, running, _ports):
        running.process.send_signal(signal.SIGHUP)
