/*
 * cay-guest: PID 1 of the containers that Docker and Podman make for us (inside.h). Its standard
 * input and output are the wire to its keeper.
 */
#include "engine/container/inside.h"

#include <unistd.h>

int main(void)
{
	return inside_serve(STDIN_FILENO, STDOUT_FILENO);
}
