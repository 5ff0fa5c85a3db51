"""A WebSocket server and its clients, by the library that Debian ships (python3-websockets).

`websocket.py serve` prints its port and then, for each connection that ends, its path and the code it ended with.
`websocket.py CLIENT HOST:PORT [NUMBER]` runs a client to its end and fails loudly when anything is not as it should be.
"""

import asyncio
import os
import sys

import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatusCode

LONG = 20


async def served(socket, path):
    try:
        if path == "/first":
            await socket.send("before you ask")
        if path == "/fragments":
            await socket.send(piece for piece in ["in ", "three ", "pieces"])
            await socket.send(bytes([n]) * 70_000 for n in range(20))
        if path == "/ping":
            await asyncio.wait_for(await socket.ping(b"how far?"), LONG)
            await socket.send("pong came")
        if path.startswith("/close/"):
            await socket.close(int(path.rsplit("/", 1)[1]), "as asked")
        async for message in socket:
            await socket.send(message)
    except ConnectionClosed:
        pass
    finally:
        await socket.wait_closed()
        print(path, socket.close_code, socket.close_reason, flush=True)


async def serve():
    options = {"max_size": None, "ping_interval": None, "subprotocols": ["chat"], "backlog": 1024}
    async with websockets.serve(served, "127.0.0.1", 0, **options) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def connect(to, path, **options):
    return websockets.connect(f"ws://{to}{path}", max_size=None, ping_interval=None, open_timeout=LONG, **options)


async def talk(to):
    """Messages of all kinds and sizes, both ways."""
    async with connect(to, "/echo", subprotocols=["chat"]) as socket:
        assert socket.subprotocol == "chat"
        for size in [0, 1, 125, 126, 65_535, 65_536, 3_000_001]:
            for message in ["x" * size, os.urandom(size)]:
                await socket.send(message)
                assert await socket.recv() == message, size
        await socket.send(piece for piece in ["a", "b" * 70_000, "c"])
        assert await socket.recv() == "a" + "b" * 70_000 + "c"
        await asyncio.wait_for(await socket.ping(b"there?"), LONG)
    async with connect(to, "/first") as socket:
        assert await socket.recv() == "before you ask"
    async with connect(to, "/fragments") as socket:
        assert await socket.recv() == "in three pieces"
        assert await socket.recv() == b"".join(bytes([n]) * 70_000 for n in range(20))
    async with connect(to, "/ping") as socket:
        assert await socket.recv() == "pong came"


async def close(to):
    """Codes both ways."""
    for code in [1000, 1001, 1008, 1011, 3000, 4999]:
        async with connect(to, f"/close/{code}") as socket:
            try:
                await socket.recv()
                raise AssertionError(code)
            except ConnectionClosed:
                assert (socket.close_code, socket.close_reason) == (code, "as asked"), socket.close_code
        socket = await connect(to, f"/echo?{code}")
        await socket.close(code, "mine")


async def refused(to):
    """An origin that does not switch says why."""
    try:
        async with connect(to, "/echo", extra_headers={"Sec-WebSocket-Version": "777"}):
            raise AssertionError("it switched")
    except InvalidStatusCode as error:
        # 10.4 sends its own version beside ours; the server sees two
        assert error.status_code in (400, 426), error


async def idle(to):
    """Silent for less than `stream`, and then for longer."""
    async with connect(to, "/echo") as socket:
        for _ in range(2):
            await asyncio.sleep(1)
            await socket.send("still there?")
            assert await socket.recv() == "still there?"
        try:
            await asyncio.wait_for(socket.recv(), LONG)
            raise AssertionError("it was not cut")
        except ConnectionClosed:
            assert socket.close_code == 1006, socket.close_code


async def many(to, count):
    """So many upgrades, a hundred at once, each good for a message both ways and a clean end."""

    async def one(number):
        async with at_once:
            async with connect(to, "/echo", compression=None) as socket:
                await socket.send(str(number))
                assert await socket.recv() == str(number)
            assert socket.close_code == 1000, (number, socket.close_code)

    at_once = asyncio.Semaphore(100)
    await asyncio.gather(*(one(number) for number in range(int(count))))


async def stay(to):
    """Says that it is there, and waits to be told to go."""
    async with connect(to, "/echo?stay") as socket:
        await socket.send("there")
        print(await socket.recv(), flush=True)
        try:
            await asyncio.wait_for(socket.recv(), LONG)
        except ConnectionClosed:
            print(socket.close_code, flush=True)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
