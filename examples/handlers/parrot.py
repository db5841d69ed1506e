"""A server that speaks the OpenAI protocol, to try the chat handler without a model: it repeats what it hears.

python3 examples/handlers/parrot.py 8802
turnkeeper run --chat http://127.0.0.1:8802/v1 --model parrot
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Parrot(BaseHTTPRequestHandler):
    """Streams the last message back, word by word."""

    def do_POST(self) -> None:
        """Take a request for a completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        heard = [message["content"] for message in asked["messages"] if message["role"] == "user"]
        for word in f"You said {len(heard)} things, and last: {heard[-1]}".split(" "):
            self.say({"delta": {"content": word + " "}, "finish_reason": None})
        self.say({"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, choice: dict[str, object]) -> None:
        """Send a piece of the answer."""
        chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, **choice}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Parrot)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
