# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Both ends of gpsd. `gps.py feed PORT`: a receiver of 64 satellites, five reports a second. `gps.py watch HOST PORT SECONDS`: a
client, which says whether the server kept it and every report came whole."""
import functools
import json
import operator
import socket
import sys
import time


def sentence(text):
    return "$%s*%02X\r\n" % (text, functools.reduce(operator.xor, map(ord, text)))


def report(n, at):
    clock = time.strftime("%H%M%S", time.gmtime(at)) + ".%02d" % (at * 100 % 100)
    lines = []
    for talker, base in ("GP", 1), ("GL", 65), ("GA", 1), ("GB", 1):
        for part in range(4):
            seen = ""
            for i in range(4 * part, 4 * part + 4):
                seen += ",%02d,%02d,%03d,%02d" % (base + i, 20 + i % 4 * 10, (i * 20) % 360, 30 + (i + n) % 20)
            lines.append("%sGSV,4,%d,16%s" % (talker, part + 1, seen))
    lines.append("GPGGA,%s,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,," % clock)
    lines.append("GPGSA,A,3,01,02,03,04,05,06,07,08,09,10,11,12,1.0,0.9,2.1")
    lines.append("GPRMC,%s,A,4807.038,N,01131.000,E,022.4,084.4,%s,003.1,W" % (clock, time.strftime("%d%m%y", time.gmtime(at))))
    return "".join(map(sentence, lines)).encode()


def feed(port):
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        connection, start, n = listener.accept()[0], time.time(), 0
        try:
            while True:
                n += 1
                time.sleep(max(0, start + n / 5 - time.time()))
                connection.sendall(report(n, start + n / 5))
        except OSError:
            pass


def watch(host, port, seconds):
    server = socket.create_connection((host, port))
    server.sendall(b'?WATCH={"enable":true,"json":true,"nmea":true};\n')
    server.settimeout(5)
    end, got = time.time() + seconds, b""
    while time.time() < end:
        part = server.recv(65536)
        if not part:
            print("the server has closed the connection")
            return
        got += part
    lines = got.split(b"\n")[:-1]
    reports = [json.loads(line) for line in lines if line.startswith(b"{")]
    skies = sum(report["class"] == "SKY" for report in reports)
    # It asks again, so that the server has something to read.
    server.sendall(b"?VERSION;\n")
    print("kept,", "reports whole" if skies > seconds else "reports missing")


if sys.argv[1] == "feed":
    feed(int(sys.argv[2]))
else:
    watch(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
