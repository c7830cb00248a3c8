/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Linked statically, so that nothing can be preloaded: serves ARGV[2] by HTTP on port ARGV[1], again
 * and again until the client has enough if there is a third argument.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
	int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (argc != 3 && argc != 4)
		return 2;
	signal(SIGCHLD, SIG_IGN);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(l, (struct sockaddr *)&a, sizeof a) || listen(l, 16))
		return 1;
	for (;;) {
		int s = accept(l, 0, 0), f;
		char request[4096];
		struct stat st;
		off_t at = 0;

		if (s < 0 || fork()) {
			close(s);
			continue;
		}
		/* Nobody may read any more: the connection would end after minutes. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		f = open(argv[2], O_RDONLY);
		if (f < 0 || fstat(f, &st) || read(s, request, sizeof request) <= 0)
			return 1;
		if (argc == 3)
			dprintf(s, "HTTP/1.0 200 OK\r\nContent-Length: %ld\r\n\r\n", (long)st.st_size);
		do {
			for (at = 0; at < st.st_size;)
				if (sendfile(s, f, &at, st.st_size - at) <= 0)
					return 1;
		} while (argc == 4);
		return 0;
	}
}
