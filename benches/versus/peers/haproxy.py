"""HAProxy. It writes no files itself: its log goes to standard output, which is one."""

import signal

# Through which large answers go without being copied: one for each of them that is on its way.
PIPES = 128

CONFIG = """
global
  nbthread {threads}
  maxconn {clients}
  maxpipes {pipes}
  hard-stop-after 30s
  stats socket {folder}/haproxy.sock mode 600 expose-fd listeners level user
  log stdout format raw local0
  ssl-default-bind-options ssl-min-ver TLSv1.2
  tune.pool-high-fd-ratio 90
  tune.pool-low-fd-ratio 80
defaults
  mode http
  log global
  log-format "%ci [%t] %{{+Q}}r %ST %si:%sp %Tr %Ta %B"
  option http-keep-alive
  option redispatch 1
  option dontlognull
  option splice-response
  http-reuse always
  retries 1
  retry-on conn-failure empty-response
  timeout connect 1s
  timeout client 65s
  timeout http-keep-alive 65s
  timeout http-request 10s
  timeout server 10s
frontend clients
  bind 127.0.0.1:{plain} backlog 4096
  bind 127.0.0.1:{tls} backlog 4096 ssl crt {folder}/both.pem alpn h2,http/1.1
  stick-table type ip size 100k expire 30s store http_req_rate(1s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {limit} }}
  option forwardfor
  unique-id-format %[uuid()]
  unique-id-header X-Request-ID
  http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Real-IP %[src]
  default_backend origin
backend origin
  balance hash baseq
  hash-type consistent
  option httpchk GET /
  default-server check inter 5s pool-purge-delay 60s
{servers}
"""


class HAProxy:
    name, program, log = "HAProxy", ["haproxy", "-v"], "HAProxy.out"

    def configure(self, folder, task, ports):
        (folder / "both.pem").write_text(open(task.certificate).read() + open(task.key).read())
        servers = "\n".join(f"  server o{number} {address}" for number, address in enumerate(task.addresses))
        own = {"servers": servers, "folder": folder, "clients": self.clients(task), "pipes": PIPES}
        told = CONFIG.format(**vars(task), **vars(ports), **own)
        (folder / "haproxy.cfg").write_text(told)

    def clients(self, task):
        """It sets two descriptors aside for each client, more for checks and pipes, and does not start with too few."""
        return (task.files - 200 - 2 * len(task.addresses) - 2 * PIPES) // 2

    def command(self, folder, _task, _ports):
        return ["haproxy", "-W", "-db", "-f", str(folder / "haproxy.cfg")]

    def checked(self, folder):
        return ["haproxy", "-c", "-f", str(folder / "haproxy.cfg")]

    def reload(self, running, _ports):
        running.process.send_signal(signal.SIGUSR2)
