/* cay-api: the unprivileged half of `cay serve`, started by it and by nobody else. */
#include <stdio.h>

int main(void)
{
	(void)fputs("cay-api: is started by `cay serve`\n", stderr);
	return 125;
}
