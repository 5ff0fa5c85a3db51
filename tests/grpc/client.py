"""A gRPC client for the wire tests: plays one scene through the gateway and prints what came of it as one line of JSON.

`client.py TARGET AUTHORITY SCENE [CA]`; with the PEM file of an authority the gateway is asked over TLS.
"""

import asyncio
import faulthandler
import json
import os
import sys
import time
import traceback

import grpc

NO_LIMIT = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def channel(target, authority, ca, own_connection=0, retries=0):
    options = [("grpc.default_authority", authority), ("grpc.enable_retries", retries), ("x.number", own_connection), *NO_LIMIT]
    if own_connection:
        options.append(("grpc.use_local_subchannel_pool", 1))
    if ca is None:
        return grpc.aio.insecure_channel(target, options=options)
    options.append(("grpc.ssl_target_name_override", authority))
    with open(ca, "rb") as pem:
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(pem.read()), options=options)


def plain(metadata):
    return {name: value for name, value in metadata or ()}


def told(error):
    return [error.code().name, error.details(), plain(error.trailing_metadata()).get("x-why")]


async def outcome(call):
    """The name of the code that a call ends with, its words, and how long it took."""
    began = time.monotonic()
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return told(error) + [time.monotonic() - began]
    return ["OK", "", None, time.monotonic() - began]


async def seen(stub):
    return json.loads(await stub.unary_unary("/t.T/Seen")(b""))


async def cancelled(stub, least):
    """Waits until the server saw so many calls end before their time."""
    until = time.monotonic() + 10
    while (count := (await seen(stub))["cancelled"]) < least and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return count


async def calls(stub):
    """Each kind of call, with metadata, errors and large messages."""
    call = stub.unary_unary("/t.T/Unary")(b"hello", metadata=(("x-sent", "there"),), timeout=20)
    answer = await call
    first, last = plain(await call.initial_metadata()), plain(await call.trailing_metadata())
    down = [int(message) async for message in stub.unary_stream("/t.T/Down")(b"500")]

    async def some():
        for _ in range(100):
            yield b"x" * 1000

    up = await stub.stream_unary("/t.T/Up")(some())
    both = stub.stream_stream("/t.T/Both")()
    in_turn = 0
    for number in range(50):
        await both.write(b"%d" % number)
        in_turn += await both.read() == b"%d" % number
    await both.done_writing()
    end = await both.read() is grpc.aio.EOF
    big = b"0123456789abcdef" * (1 << 20)
    return {
        "unary": [answer.decode(), first.get("x-first"), last.get("x-back"), last.get("x-back-bin", b"").hex()],
        "down": down == list(range(500)),
        "up": up.decode(),
        "both": [in_turn, end, (await both.code()).name],
        "fail": (await outcome(stub.unary_unary("/t.T/Fail")(b"")))[:3],
        "big": await stub.unary_unary("/t.T/Unary")(big) == big,
        "none": (await outcome(stub.unary_unary("/t.T/None")(b"")))[:2],
    }


async def ends(stub):
    """Calls that end before their time: the server sees it."""
    late = await outcome(stub.unary_unary("/t.T/Hang")(b"", timeout=0.3))
    after_deadline = await cancelled(stub, 1)
    ticks = stub.unary_stream("/t.T/Ticks")(b"")
    assert await ticks.read() == b"tick"
    ticks.cancel()
    after_cancel = await cancelled(stub, 2)
    hang = stub.unary_unary("/t.T/Hang")(b"")
    asked = asyncio.ensure_future(outcome(hang))
    while (await seen(stub))["held"] < 2:
        await asyncio.sleep(0.01)
    hang.cancel()
    asked.cancel()
    return {"late": late, "seen": [after_deadline, after_cancel, await cancelled(stub, 3)]}


async def one(stub):
    """One call that is to fail."""
    return (await outcome(stub.unary_unary("/t.T/Unary")(b"x", timeout=10)))[:2]


async def cut(stub):
    """Reads until somebody ends it; says when it has begun."""
    ticks = stub.unary_stream("/t.T/Ticks")(b"")
    assert await ticks.read() == b"tick"
    print("begun", flush=True)
    try:
        while await ticks.read() is not grpc.aio.EOF:
            pass
        return [(await ticks.code()).name, await ticks.details()]
    except grpc.aio.AioRpcError as error:
        return told(error)[:2]


async def thousand(stubs):
    """A thousand streams open at once: each has got its first answer before any sends its second message."""

    async def begin(stub):
        call = stub.stream_stream("/t.T/Both")()
        await call.write(b"1")
        assert await call.read() == b"1"
        return call

    async def finish(call):
        await call.write(b"2")
        assert await call.read() == b"2"
        await call.done_writing()
        return await call.read() is grpc.aio.EOF and await call.code() == grpc.StatusCode.OK

    open_calls = await asyncio.gather(*(begin(stub) for stub in stubs for _ in range(100)))
    return sum(await asyncio.gather(*map(finish, open_calls)))


async def many(stub):
    """Five hundred calls, twenty at a time: how many went well, and what the others ended with."""
    failed = []

    async def some():
        for _ in range(25):
            told_of = await outcome(stub.unary_unary("/t.T/Unary")(b"x", timeout=10))
            if told_of[0] != "OK":
                failed.append(told_of[:2])

    await asyncio.gather(*(some() for _ in range(20)))
    return [500 - len(failed), failed]


async def main(target, authority, scene, ca=None):
    if scene == "thousand":
        stubs = [channel(target, authority, ca, number) for number in range(1, 11)]
        told_of = await thousand(stubs)
    else:
        # A call that crosses a GOAWAY is sent again by the library, as by any client that changed nothing: RFC 9113, 6.8.
        stub = channel(target, authority, ca, retries=int(scene == "many"))
        told_of = await {"calls": calls, "ends": ends, "one": one, "cut": cut, "many": many}[scene](stub)
    print(json.dumps(told_of), flush=True)


async def play():
    try:
        await asyncio.wait_for(main(*sys.argv[1:]), 40)
    except BaseException:
        # Calls that are left would be waited for.
        traceback.print_exc()
        os._exit(1)


# The library may hold up the loop itself, which then ends nothing.
faulthandler.dump_traceback_later(50, exit=True)
asyncio.run(play())
