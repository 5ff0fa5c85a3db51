"""A gRPC server of plain bytes, for the wire tests: no protobuf, every method of `t.T` does what its name says.

Started with the PEM files of a certificate and its key; prints one line, `PLAIN SECURE`: its ports without and with TLS.
Ends when its standard input does.
"""

import asyncio
import json
import os
import sys

import grpc


class Seen:
    cancelled = 0
    held = 0


async def unary(request, context):
    metadata = {name: value for name, value in context.invocation_metadata()}
    context.set_trailing_metadata((("x-back", metadata.get("x-sent", "")), ("x-back-bin", b"\x00\xff")))
    await context.send_initial_metadata((("x-first", "1"),))
    return request


async def fail(request, context):
    await context.abort(grpc.StatusCode.NOT_FOUND, "nothing at 100 % of them", (("x-why", "gone"),))


async def down(request, context):
    for number in range(int(request)):
        yield b"%d" % number


async def up(requests, context):
    count = size = 0
    async for request in requests:
        count, size = count + 1, size + len(request)
    return b"%d %d" % (count, size)


async def both(requests, context):
    async for request in requests:
        yield request


async def hang(request, context):
    Seen.held += 1
    try:
        await asyncio.Event().wait()
    finally:
        Seen.cancelled += 1


async def ticks(request, context):
    try:
        while True:
            yield b"tick"
            await asyncio.sleep(0.02)
    finally:
        Seen.cancelled += 1


async def seen(request, context):
    return json.dumps({"cancelled": Seen.cancelled, "held": Seen.held}).encode()


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Down": grpc.unary_stream_rpc_method_handler(down),
    "Up": grpc.stream_unary_rpc_method_handler(up),
    "Both": grpc.stream_stream_rpc_method_handler(both),
    "Hang": grpc.unary_unary_rpc_method_handler(hang),
    "Ticks": grpc.unary_stream_rpc_method_handler(ticks),
    "Seen": grpc.unary_unary_rpc_method_handler(seen),
}


async def main(certificate, key):
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", METHODS),))
    with open(certificate, "rb") as chain, open(key, "rb") as private:
        credentials = grpc.ssl_server_credentials([(private.read(), chain.read())])
    plain = server.add_insecure_port("127.0.0.1:0")
    secure = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    print(f"127.0.0.1:{plain} 127.0.0.1:{secure}", flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
