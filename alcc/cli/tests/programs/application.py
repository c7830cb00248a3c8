# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A WSGI application: /NAME in pieces, /sendfile/NAME by the server's own way to send a file."""
import os


def application(environ, start_response):
    path = environ["PATH_INFO"]
    file = open(os.path.join(os.environ["FILES"], os.path.basename(path)), "rb")
    length = os.fstat(file.fileno()).st_size
    start_response("200 OK", [("Content-Length", str(length))])
    if path.startswith("/sendfile/"):
        return environ["wsgi.file_wrapper"](file)
    return iter(lambda: file.read(65536), b"")
