"""A registrar that does nothing but answer, for measuring generators: ``sink.py PORT NONCE COUNT``.

The first REGISTER of a dialogue (empty response) gets a fixed AKA challenge, the next one a 200.
After COUNT of these it prints a line, so that the generator's CPU can be read at that moment.
"""

import re
import select
import socket
import sys

_COPIED = re.compile(rb"^(?:Via|From|To|Call-ID|CSeq):[^\r]*\r\n", re.M)


def _answer(head: bytes, challenge: bytes) -> bytes:
    copied = b"".join(_COPIED.findall(head)).replace(b"\r\nCall-ID", b";tag=sink\r\nCall-ID", 1)
    if b'response=""' in head:
        return b"SIP/2.0 401 Unauthorized\r\n" + copied + challenge
    return (
        b"SIP/2.0 200 OK\r\n"
        + copied
        + b"Contact: <sip:user@127.0.0.1>;expires=600000\r\nContent-Length: 0\r\n\r\n"
    )


def serve(port: int, nonce: str, count: int) -> None:
    """Answer until killed."""
    challenge = (
        f'WWW-Authenticate: Digest realm="ims.test", nonce="{nonce}", algorithm=AKAv1-MD5, '
        'qop="auth"\r\nContent-Length: 0\r\n\r\n'
    ).encode()
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    sockets: dict[int, socket.socket] = {}
    registered = 0
    print("listening", flush=True)
    while True:
        for fd, _mask in poll.poll():
            if fd == listener.fileno():
                for _ in range(64):
                    try:
                        sock, _address = listener.accept()
                    except BlockingIOError:
                        break
                    sock.setblocking(False)
                    sockets[sock.fileno()] = sock
                    poll.register(sock.fileno(), select.EPOLLIN)
                continue
            sock = sockets[fd]
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                poll.unregister(fd)
                del sockets[fd]
                sock.close()
                continue
            for head in data.split(b"\r\n\r\n")[:-1]:
                answer = _answer(head + b"\r\n", challenge)
                sock.send(answer)
                registered += answer.startswith(b"SIP/2.0 200")
                if registered == count:
                    registered = 0
                    print("registered", flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
