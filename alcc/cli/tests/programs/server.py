# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A small web server with asyncio: /NAME by write and drain, /sendfile/NAME by the loop's sendfile."""
import asyncio
import os
import sys


async def serve(reader, writer):
    request = await reader.readuntil(b"\r\n\r\n")
    path = request.split()[1].decode()
    name = os.path.join(sys.argv[1], os.path.basename(path))
    with open(name, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
        if path.startswith("/sendfile/"):
            await writer.drain()
            await asyncio.get_running_loop().sendfile(writer.transport, file, fallback=False)
        else:
            while chunk := file.read(65536):
                writer.write(chunk)
                await writer.drain()
    writer.close()
    await writer.wait_closed()


async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", 8080)
    await server.serve_forever()


asyncio.run(main())
