/* What is made of the words of a process that downloads, and is a stranger's by now. */
#include "image/fetch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct fetcher fetcher;
static int its_end;

static int begin(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	fetcher = (struct fetcher){.channel = pair[0]};
	its_end = pair[1];
	return 0;
}

static int end(void **state)
{
	(void)state;
	(void)close(its_end);
	fetcher_stop(&fetcher);
	return 0;
}

static void texts_end_whatever_the_news_are(void **state)
{
	static const int news[] = {FETCH_MORE, FETCH_DONE, FETCH_FAILED, 1000};
	struct fetch_report report;

	(void)state;
	for (size_t i = 0; i < sizeof(news) / sizeof(news[0]); i++) {
		memset(&report, 'x', sizeof(report));
		report.news = (enum fetch_news)news[i];
		assert_int_equal(send(its_end, &report, sizeof(report), 0), sizeof(report));
		fetcher_report(&fetcher, &report);
		assert_int_equal(report.news, news[i] == 1000 ? FETCH_FAILED : news[i]);
		assert_int_equal(report.err.code, CAY_E_INTERNAL);
		assert_int_equal(report.err.exit_code, 125);
		assert_int_equal(strlen(report.err.text), sizeof(report.err.text) - 1);
		assert_int_equal(strlen(report.err.hint), sizeof(report.err.hint) - 1);
		assert_int_equal(strlen(report.type), sizeof(report.type) - 1);
		assert_int_equal(strlen(report.digest), sizeof(report.digest) - 1);
	}
}

static void half_a_report_is_its_end(void **state)
{
	struct fetch_report report = {.news = FETCH_DONE};

	(void)state;
	assert_int_equal(send(its_end, &report, sizeof(report) - 1, 0), sizeof(report) - 1);
	fetcher_report(&fetcher, &report);
	assert_int_equal(report.news, FETCH_FAILED);
	assert_string_equal(report.err.text, "the process that downloads ended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(texts_end_whatever_the_news_are, begin, end),
		cmocka_unit_test_setup_teardown(half_a_report_is_its_end, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
