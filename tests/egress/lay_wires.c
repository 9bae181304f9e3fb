/*
 * lay_wires FD: wires the network that it is started in as the launcher does, and sends the
 * sockets over FD, a SOCK_SEQPACKET. For tests of cay-egress alone.
 */
#include "base/fd.h"
#include "base/parse.h"
#include "engine/native/wires.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	int wires[EGRESS_FDS], r;
	struct cay_error err;
	uint64_t fd;

	if (argc != 2 || parse_u64(argv[1], 3, 1 << 20, &fd) < 0)
		return 2;
	if (wires_lay(wires, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	r = msg_send((int)fd, "", 1, wires, EGRESS_FDS);
	wires_close(wires);
	return r < 0;
}
