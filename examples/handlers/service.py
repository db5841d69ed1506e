"""A handler as a web service, with Python's standard library: it spells each message, letter by letter.

python3 examples/handlers/service.py 8801
turnkeeper run --http http://127.0.0.1:8801/
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

newest_token: dict[str, int] = {}
lock = Lock()


class Service(BaseHTTPRequestHandler):
    """Answers each turn with a stream of JSON lines."""

    def do_POST(self) -> None:
        """Take a turn."""
        turn = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_newest(turn["thread"], int(self.headers["Turnkeeper-Token"])):
            self.send_error(409, "a newer runner has this thread")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.end_headers()
        for message in turn["prompts"]:
            self.say("event", event=" ".join(str(message["content"])))
        self.say("answer", answer={"spelled": len(turn["prompts"])})

    def is_newest(self, thread: str, token: int) -> bool:
        """Whether no runner with a greater token has been here: the fence of this service's own side effects."""
        with lock:
            newest_token[thread] = max(token, newest_token.get(thread, 0))
            return token == newest_token[thread]

    def say(self, kind: str, **line: object) -> None:
        """Write a line. It fails when the runner has hung up: the run was stopped, or is another runner's now."""
        self.wfile.write(json.dumps({"type": kind, **line}).encode() + b"\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
