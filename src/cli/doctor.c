#include "cli/cli.h"
int cli_doctor(int argc _unused_, char **argv _unused_)
{
	return 0;
}
