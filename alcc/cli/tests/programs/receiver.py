# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Takes uploads into the folder that is named."""
import http.server
import os
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        remaining = int(self.headers["Content-Length"])
        with open(os.path.join(sys.argv[1], os.path.basename(self.path)), "wb") as file:
            while remaining and (chunk := self.rfile.read(min(remaining, 65536))):
                file.write(chunk)
                remaining -= len(chunk)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


http.server.ThreadingHTTPServer(("0.0.0.0", 8082), Receiver).serve_forever()
