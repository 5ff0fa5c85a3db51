"""Pingora's own proxy service, as in `stock.rs`: it hashes and forwards, without a log, headers, a limit or checks."""


class Stock:
    log = None

    def __init__(self, name, binary):
        self.name, self.binary, self.program = name, str(binary), None

    def configure(self, _folder, _task, _ports):
        """All is told by its arguments."""

    def command(self, _folder, task, ports):
        listens = [f"127.0.0.1:{ports.plain}", f"127.0.0.1:{ports.tls}", task.certificate, task.key]
        return [self.binary, *listens, str(task.threads), *task.addresses]

    # It has no configuration to read again.
    reload = None
