/* Whose containers are nobody's any more. */
#include "engine/container/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void we_are_there(void **state)
{
	char own[SWEEP_OWNER_SIZE];

	(void)state;
	assert_int_equal(sweep_owner(own), 0);
	assert_false(sweep_is_gone(own));
}

static void a_child_that_ended_is_gone(void **state)
{
	char own[SWEEP_OWNER_SIZE] = "";
	int pipes[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		(void)sweep_owner(own);
		(void)!write(pipes[1], own, sizeof(own));
		_exit(0);
	}
	assert_int_equal(read(pipes[0], own, sizeof(own)), sizeof(own));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(sweep_is_gone(own));
	(void)close(pipes[0]);
	(void)close(pipes[1]);
}

static void another_with_our_number_is_not_us(void **state)
{
	unsigned long long ns, pid, start;
	char own[SWEEP_OWNER_SIZE], other[SWEEP_OWNER_SIZE];

	(void)state;
	assert_int_equal(sweep_owner(own), 0);
	assert_int_equal(sscanf(own, "%llu-%llu-%llu", &ns, &pid, &start), 3);
	(void)snprintf(other, sizeof(other), "%llu-%llu-%llu", ns, pid, start - 1);
	assert_true(sweep_is_gone(other));
	/* Of another pid namespace nobody can tell. */
	(void)snprintf(other, sizeof(other), "%llu-%llu-%llu", ns + 1, pid, start - 1);
	assert_false(sweep_is_gone(other));
}

static void what_is_no_owner_is_nobodys(void **state)
{
	static const char *const others[] = {"",       "run-1",    "1",
					     "1-2",    "-1--2--3", "1-2-3x",
					     "1-02-3", " 1-2-3",   "99999999999999999999999-1-1"};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(sweep_is_gone(others[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(we_are_there),
		cmocka_unit_test(a_child_that_ended_is_gone),
		cmocka_unit_test(another_with_our_number_is_not_us),
		cmocka_unit_test(what_is_no_owner_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
