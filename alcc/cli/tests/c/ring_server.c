/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Serves ARGV[2] by HTTP on port ARGV[1], one client after the other: accepts, receives and sends by io_uring alone. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring;
static char *submissions, *completions;
static struct io_uring_params p;
static struct io_uring_sqe *entries;

static unsigned *at(char *queue, unsigned offset)
{
	return (unsigned *)(queue + offset);
}

static int start(void)
{
	ring = syscall(SYS_io_uring_setup, 4, &p);
	if (ring < 0)
		return -1;
	submissions = mmap(0, p.sq_off.array + p.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
			   MAP_SHARED, ring, IORING_OFF_SQ_RING);
	completions = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
			   PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entries = mmap(0, p.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		       IORING_OFF_SQES);
	return submissions == MAP_FAILED || completions == MAP_FAILED || entries == MAP_FAILED;
}

/* One operation, and its result. */
static int operation(int what, int fd, const void *data, unsigned bytes)
{
	unsigned *tail = at(submissions, p.sq_off.tail), *head = at(completions, p.cq_off.head);
	unsigned slot = *tail & *at(submissions, p.sq_off.ring_mask);
	struct io_uring_cqe *done = (struct io_uring_cqe *)(completions + p.cq_off.cqes);
	int result;

	memset(&entries[slot], 0, sizeof(*entries));
	entries[slot].opcode = what;
	entries[slot].fd = fd;
	entries[slot].addr = (unsigned long)data;
	entries[slot].len = bytes;
	at(submissions, p.sq_off.array)[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
		exit(1);
	result = done[*head & *at(completions, p.cq_off.ring_mask)].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return result;
}

static void all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		int n = operation(IORING_OP_SEND, fd, data, bytes < 1 << 18 ? bytes : 1 << 18);

		if (n <= 0)
			return;
		data += n;
		bytes -= n;
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	int l = socket(AF_INET, SOCK_STREAM, 0), on = 1, f;
	struct stat st;
	char *file;

	if (argc != 3 || start())
		return 2;
	signal(SIGPIPE, SIG_IGN);
	f = open(argv[2], O_RDONLY);
	if (f < 0 || fstat(f, &st))
		return 1;
	file = mmap(0, st.st_size, PROT_READ, MAP_PRIVATE, f, 0);
	a.sin_port = htons(atoi(argv[1]));
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (file == MAP_FAILED || bind(l, (struct sockaddr *)&a, sizeof a) || listen(l, 16))
		return 1;
	for (;;) {
		char request[4096], head[100];
		int s = operation(IORING_OP_ACCEPT, l, 0, 0);

		if (s < 0)
			return 1;
		if (operation(IORING_OP_RECV, s, request, sizeof request) > 0) {
			snprintf(head, sizeof head, "HTTP/1.0 200 OK\r\nContent-Length: %ld\r\n\r\n",
				 (long)st.st_size);
			all(s, head, strlen(head));
			all(s, file, st.st_size);
		}
		close(s);
	}
}
