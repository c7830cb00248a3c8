// SPDX-License-Identifier: Apache-2.0 OR MIT

// Serves os.Args[2] by HTTP on port os.Args[1]. Go makes its system calls itself: nothing can be preloaded.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
)

func serve(c net.Conn) {
	defer c.Close()
	// All of the request: closed with a part of it unread, the connection would be reset, and the answer lost.
	request := bufio.NewReader(c)
	for {
		line, err := request.ReadString('\n')
		if err != nil {
			return
		}
		if line == "\r\n" {
			break
		}
	}
	f, err := os.Open(os.Args[2])
	if err != nil {
		return
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		return
	}
	fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n", s.Size())
	io.Copy(c, f)
}

func main() {
	l, err := net.Listen("tcp", ":"+os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go serve(c)
	}
}
