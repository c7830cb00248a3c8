# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A web server that takes what comes with the first packet of a connection (TCP Fast Open).

Arguments: its port, the folder that it serves, and a file that gets a line for each request: 1 if it came so."""
import http.server
import os
import socket
import sys

TCP_FASTOPEN = 23
SYN_DATA = 32

with open("/proc/sys/net/ipv4/tcp_fastopen", "w") as setting:
    setting.write("3")


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        options = self.request.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]
        with open(sys.argv[3], "a") as opened:
            print(int(options & SYN_DATA != 0), file=opened)
        super().do_GET()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 16)
        super().server_bind()


os.chdir(sys.argv[2])
Server(("", int(sys.argv[1])), Handler).serve_forever()
