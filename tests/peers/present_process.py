"""A process that answers its peers with one session until it is killed: `present_process.py SESSION`."""

import asyncio
import sys

from turnkeeper.adapters.peer_sockets import SocketPeers


async def main(session: str) -> None:
    """Print the address, and answer."""
    async with SocketPeers("127.0.0.1") as peers:
        peers.present(session)
        sys.stdout.write(f"{peers.address}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
