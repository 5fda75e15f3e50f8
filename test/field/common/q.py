"""q.py tcp|udp SOURCE|- ADDRESS PORT [TIMES]: asks, and counts the answers."""
import json, socket, sys

proto, source, address, port = sys.argv[1:5]
answers = {}
for _ in range(int(sys.argv[5]) if len(sys.argv) > 5 else 1):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if proto == 'tcp' else socket.SOCK_DGRAM); s.settimeout(1)
    try:
        if source != '-': s.bind((source, 0))
        s.connect((address, int(port)))
        if proto == 'udp': s.send(b'x')
        answer = s.recv(200).decode().strip()
    except OSError as error: answer = f'{type(error).__name__}: {error}'
    s.close(); answers[answer] = answers.get(answer, 0) + 1
print(proto, source, address, port, json.dumps(answers))
