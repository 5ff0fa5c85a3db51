"""`handshakes.py PORT SECONDS new|resumed`: a request on a connection by TLS of its own, again and again.

Prints how long each took from connecting to the end of the answer, in ms. That a session was resumed, or was not, is
looked at each time.
"""

import json
import socket
import ssl
import sys
import time

REQUEST = b"GET /img/%d.jpg?w=640&v=%d HTTP/1.1\r\nHost: img.example.com\r\nConnection: close\r\n\r\n"


def ask(context, port, key, session):
    """One request; the session that may be resumed after it, and whether this one was."""
    plain = socket.create_connection(("127.0.0.1", port), 10)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with context.wrap_socket(plain, server_hostname="img.example.com", session=session) as stream:
        stream.sendall(REQUEST % (key, key))
        answer = b""
        while part := stream.recv(65536):
            answer += part
        if b" 200 " not in answer[:16] or not answer.endswith(b"x" * 1024):
            sys.exit(f"answered with {answer[:80]}")
        return stream.session, stream.session_reused


def main():
    port, seconds, resumed = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "resumed"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    session, _ = ask(context, port, 0, None) if resumed else (None, False)
    took, end, key = [], time.monotonic() + seconds, 0
    while time.monotonic() < end:
        began, key = time.perf_counter(), (key + 1) % 1000
        after, was = ask(context, port, key, session if resumed else None)
        took.append((time.perf_counter() - began) * 1000)
        if was != resumed:
            sys.exit(f"session resumed: {was}, wanted: {resumed}")
        session = after if resumed else None
    print(json.dumps(took))


if __name__ == "__main__":
    main()
