/* Settings files: what is taken is within bounds, and shown so that it could be read again. */
#include "fuzz.h"

#include "base/buf.h"
#include "core/address.h"
#include "core/limit.h"
#include "settings/live.h"
#include "settings/settings.h"
#include "spec/risk.h"
#include "spec/version.h"

struct shown {
	const char *section;
	struct buf text;
};

static void show(void *ctx, const char *section, const char *key, const char *value,
		 const char *origin)
{
	struct shown *s = ctx;

	CHECK(strcmp(origin, "default") == 0 || strncmp(origin, "file:", 5) == 0);
	CHECK(buf_printf(&s->text, "[%s]\n%s=%s\n", section, key, value) == 0);
}

static void check_limits(const struct settings *s)
{
	for (size_t i = 0; i < n_limit_rows; i++) {
		const struct limit_row *row = &limit_rows[i];
		uint64_t v = limit_get(&s->limits, row), max = limit_get(&s->maximum, row);

		CHECK(v == 0 ? row->initial == 0 : v >= row->min && v <= row->max);
		CHECK(max == 0 || (max >= row->min && max <= row->max));
	}
}

/* Absolute or of a home, and without what would keep a rule from ever matching. */
static void check_paths(const struct strv *paths, bool home)
{
	for (size_t i = 0; i < paths->len; i++) {
		const char *p = paths->items[i];

		CHECK(p[0] == '/' || (home && p[0] == '~' && p[1] == '/'));
		for (p = strchr(p, '/'); p; p = strchr(p, '/')) {
			size_t n = strcspn(++p, "/");

			CHECK(n > 0 || (!*p && p[-1] == '/'));
			CHECK(!(n == 1 && p[0] == '.') && !(n == 2 && p[0] == '.' && p[1] == '.'));
		}
	}
}

/* Kept as they are written again. */
static void check_rules(const struct strv *rules)
{
	CHECK(rules->len <= EGRESS_RULES_MAX);
	for (size_t i = 0; i < rules->len; i++) {
		struct domain_rule rule;
		struct cay_error err;
		char text[DOMAIN_RULE_SIZE];

		CHECK(domain_rule_parse(rules->items[i], &rule, &err) == 0);
		domain_rule_text(&rule, text);
		CHECK(strcmp(text, rules->items[i]) == 0);
	}
}

static void check_network(const struct settings *s)
{
	CHECK(s->network_mode < NETWORK_MODES);
	for (enum tier t = TIER_SANDBOX; t < TIERS; t++)
		CHECK(s->tiers[t].network < NETWORK_MODES &&
		      s->tiers[t].mounts <= TIER_MOUNTS_WRITE);
	check_rules(&s->network_allow);
	check_rules(&s->network_block);
	for (size_t i = 0; i < s->network_addresses.len; i++) {
		struct address_rule rule;
		struct cay_error err;

		CHECK(address_rule_parse(s->network_addresses.items[i], &rule, &err) == 0);
	}
	CHECK(s->network_connections > 0 && s->network_idle_timeout > 0);
}

/* What is kept is what would be read. */
static void check_risks(const struct strv *risks)
{
	for (size_t i = 0; i < risks->len; i++) {
		struct cay_error err;
		char text[RISK_SIZE];

		CHECK(risk_parse(risks->items[i], text, &err) == 0);
		CHECK(strcmp(text, risks->items[i]) == 0);
	}
}

static void check_settings(const struct settings *s)
{
	check_risks(&s->risks);
	check_limits(s);
	check_network(s);
	check_paths(&s->mount_read, true);
	check_paths(&s->mount_write, true);
	check_paths(&s->mount_forbid, true);
	for (size_t i = 0; i < s->n_languages; i++) {
		const struct language_settings *l = &s->languages[i];

		CHECK(settings_language(s, l->name) == l);
		CHECK(!l->prefer || version_is_request(l->prefer));
		check_paths(&l->paths, false);
	}
}

static void check_shown(const struct settings *s)
{
	struct shown first = {.text = BUF(8 << 20)}, second = {.text = BUF(8 << 20)};
	struct settings again;
	struct cay_error err;

	settings_show(s, show, &first);
	settings_init(&again);
	CHECK(settings_parse(&again, "file", buf_str(&first.text), &err) == 0);
	settings_show(&again, show, &second);
	CHECK(strcmp(buf_str(&first.text), buf_str(&second.text)) == 0);
	settings_done(&again);
	buf_done(&first.text);
	buf_done(&second.text);
}

static void differs(void *ctx, const char *name, const struct strv *was, const struct strv *is)
{
	(void)was;
	CHECK(strcmp(name, "limits.memory") == 0);
	CHECK(is->len == 1 && strcmp(is->items[0], "1g") == 0);
	(*(size_t *)ctx)++;
}

/* Nothing else is changed by an edit, and the same one again changes nothing. */
static void check_edit(const char *text)
{
	_cleanup_(buf_done) struct buf first = BUF(8 << 20), second = BUF(8 << 20);
	_cleanup_(strv_done) struct strv values = {0};
	struct cay_error err;
	size_t n = 0;

	CHECK(strv_add(&values, "1g") == 0);
	if (live_edit(text, "limits.memory", &values, &first, &err) < 0)
		return;
	CHECK(live_diff(text, buf_str(&first), differs, &n) == 0 && n <= 1);
	CHECK(live_edit(buf_str(&first), "limits.memory", &values, &second, &err) == 0);
	n = 0;
	CHECK(live_diff(buf_str(&first), buf_str(&second), differs, &n) == 0 && n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	_cleanup_(freep) char *text = input_rest(&in);
	struct settings s;
	struct cay_error err = {0};

	check_edit(text);
	settings_init(&s);
	if (settings_parse(&s, "file", text, &err) < 0)
		CHECK(err.code == CAY_E_INVALID && strncmp(err.text, "file:", 5) == 0);
	/* Also after a failure: what stood before the wrong line holds. */
	check_settings(&s);
	check_shown(&s);
	settings_done(&s);
	return 0;
}
