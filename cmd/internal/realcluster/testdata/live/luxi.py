"""Sends the requests on standard input to the daemon of the queue, and prints each with its answer."""
import json, socket, sys

for line in sys.stdin:
    method, _, args = line.strip().partition(" ")
    client = socket.socket(socket.AF_UNIX)
    client.connect("/run/ganeti/socket/ganeti-query")
    client.sendall(json.dumps({"method": method, "args": json.loads(args), "version": 3000000}).encode() + b"\3")
    answer = b""
    while not answer.endswith(b"\3"):
        more = client.recv(1 << 16)
        if not more:
            break
        answer += more
    client.close()
    print(line.strip())
    print(answer[:-1].decode())
