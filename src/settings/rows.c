#include "settings/rows.h"

#include "base/attr.h"
#include "core/egress.h"
#include "core/limit.h"
#include "settings/settings.h"

static const struct row mount_rows[] = {
	{"read", ROW_HOME_PATHS, offsetof(struct settings, mount_read), 0, 0, 0},
	{"write", ROW_HOME_PATHS, offsetof(struct settings, mount_write), 0, 0, 0},
	{"forbid", ROW_HOME_PATHS, offsetof(struct settings, mount_forbid), 0, 0, 0},
};

static const struct row isolation_rows[] = {
	{"allow_degraded", ROW_BOOL, offsetof(struct settings, allow_degraded), 0, 0, 0},
	{"may_degrade", ROW_BOOL, offsetof(struct settings, may_degrade), 1, 0, 0},
};

static const struct row engine_rows[] = {
	{"direct", ROW_BOOL, offsetof(struct settings, allow_direct), 1, 0, 0},
};

static const struct row container_rows[] = {
	{"enabled", ROW_BOOL, offsetof(struct container_settings, enabled), 1, 0, 0},
	{"socket", ROW_PATH, offsetof(struct container_settings, socket), 0, 0, 0},
	{"runtime", ROW_WORD, offsetof(struct container_settings, runtime), 0, 0, 0},
};

static const struct row network_rows[] = {
	{"mode", ROW_NETWORK, offsetof(struct settings, network_mode), NETWORK_FULL, 0, 0},
	{"allow", ROW_RULES, offsetof(struct settings, network_allow), 0, 0, 0},
	{"block", ROW_RULES, offsetof(struct settings, network_block), 0, 0, 0},
	{"address", ROW_ADDRESSES, offsetof(struct settings, network_addresses), 0, 0, 0},
	{"check_names", ROW_BOOL, offsetof(struct settings, network_check_names), 1, 0, 0},
	{"connections", ROW_COUNT, offsetof(struct settings, network_connections), 256, 100000, 1},
	{"total_connections", ROW_COUNT, offsetof(struct settings, network_total_connections), 4096,
	 1000000, 1},
	{"connection_rate", ROW_COUNT, offsetof(struct settings, network_connection_rate), 200,
	 1000000, 0},
	{"lookup_rate", ROW_COUNT, offsetof(struct settings, network_lookup_rate), 200, 1000000, 0},
	{"rate", ROW_SIZE, offsetof(struct settings, network_rate), 0, 1ull << 44, 0},
	{"total_rate", ROW_SIZE, offsetof(struct settings, network_total_rate), 0, 1ull << 44, 0},
	{"bytes", ROW_SIZE, offsetof(struct settings, network_bytes), 0, 1ull << 50, 0},
	{"connect_timeout", ROW_COUNT, offsetof(struct settings, network_connect_timeout), 10, 600,
	 1},
	{"idle_timeout", ROW_COUNT, offsetof(struct settings, network_idle_timeout), 300, 86400, 1},
};

static const struct row selective_rows[] = {
	{"sandbox", ROW_RISKS, offsetof(struct settings, risks), 0, 0, 0},
};

/* What each begins with is said by settings_init(). */
static const struct row tier_rows[] = {
	{"network", ROW_NETWORK, offsetof(struct tier_settings, network), 0, 0, 0},
	{"engines", ROW_ENGINES, offsetof(struct tier_settings, engines), 0, 0, 0},
	{"mounts", ROW_MOUNTS, offsetof(struct tier_settings, mounts), 0, 0, 0},
};

#define SCOPE_ROWS                                                                                 \
	{"idle_timeout",                                                                           \
	 ROW_TIME,                                                                                 \
	 offsetof(struct scope_settings, idle_timeout_ms),                                         \
	 3600 * 1000,                                                                              \
	 365ull * 24 * 3600 * 1000,                                                                \
	 1000},                                                                                    \
		{"workspace", ROW_DIRECTORY, offsetof(struct scope_settings, workspace), 0, 0, 0}, \
		{"image", ROW_IMAGE, offsetof(struct scope_settings, image), 0, 0, 0},             \
		{"network",     ROW_NETWORK, offsetof(struct scope_settings, network),             \
		 NETWORK_MODES, 0,           0},                                                   \
		{"allow", ROW_RULES, offsetof(struct scope_settings, allow), 0, 0, 0},             \
	{                                                                                          \
		"tier", ROW_TIER, offsetof(struct scope_settings, tier), TIERS, 0, 0               \
	}

static const struct row session_rows[] = {SCOPE_ROWS};

static const struct row agent_rows[] = {
	SCOPE_ROWS,
	{"keep", ROW_BOOL, offsetof(struct scope_settings, keep), 1, 0, 0},
};

static const struct row shared_rows[] = {
	SCOPE_ROWS,
	{"keep", ROW_BOOL, offsetof(struct scope_settings, keep), 0, 0, 0},
	{"everybody", ROW_BOOL, offsetof(struct scope_settings, everybody), 0, 0, 0},
};

#define SCOPE_SECTION(text, kind, its_rows)                                                 \
	{                                                                                   \
		.name = (text), .offset = offsetof(struct settings, scopes[kind]),          \
		.rows = (its_rows), .n_rows = ARRAY_LEN(its_rows), .has_limits = true,      \
		.limits_offset = offsetof(struct scope_settings, limits), .unlimited = true \
	}

static const struct row serve_rows[] = {
	{"settings", ROW_LIVE, offsetof(struct settings, serve_settings), LIVE_NARROW, 0, 0},
	{"max_runs", ROW_COUNT, offsetof(struct settings, serve_max_runs), 256, 10000, 0},
	{"max_sandboxes", ROW_COUNT, offsetof(struct settings, serve_max_sandboxes), 100, 10000, 0},
	{"queue", ROW_COUNT, offsetof(struct settings, serve_queue), 1000, 10000, 0},
	{"queue_per_key", ROW_COUNT, offsetof(struct settings, serve_queue_per_key), 100, 10000, 0},
	{"wait", ROW_COUNT, offsetof(struct settings, serve_wait), 30, 3600, 0},
	{"history_days", ROW_COUNT, offsetof(struct settings, serve_history_days), 30, 3650, 0},
	{"history_size", ROW_SIZE, offsetof(struct settings, serve_history_size), 1ull << 30,
	 1ull << 44, 0},
	{"audit_days", ROW_COUNT, offsetof(struct settings, serve_audit_days), 90, 3650, 0},
	{"host", ROW_HOSTS, offsetof(struct settings, serve_hosts), 0, 0, 0},
	{"mode", ROW_MODE, offsetof(struct settings, serve_mode), MODE_ALL, 0, 0},
	{"direct_user", ROW_USER, offsetof(struct settings, serve_direct_user), 0, 0, 0},
	{"direct_over_tcp", ROW_BOOL, offsetof(struct settings, serve_direct_over_tcp), 0, 0, 0},
};

static const struct row workspaces_rows[] = {
	{"max", ROW_COUNT, offsetof(struct settings, workspaces_max), 10, 10000, 0},
	{"max_total", ROW_COUNT, offsetof(struct settings, workspaces_max_total), 100, 10000, 0},
	{"size", ROW_SIZE, offsetof(struct settings, workspaces_size), 1ull << 30, 1ull << 44, 0},
	{"max_size", ROW_SIZE, offsetof(struct settings, workspaces_max_size), 10ull << 30,
	 1ull << 44, 0},
	{"keep_days", ROW_COUNT, offsetof(struct settings, workspaces_keep_days), 0, 3650, 0},
};

static const struct row warm_rows[] = {
	{"enabled", ROW_BOOL, offsetof(struct settings, warm_enabled), 1, 0, 0},
	{"set", ROW_SETS, offsetof(struct settings, warm_sets), 0, 0, 0},
	{"image", ROW_WORDS, offsetof(struct settings, warm_images), 0, 0, 0},
	{"memory", ROW_SIZE, offsetof(struct settings, warm_memory), 256ull << 20, 1ull << 44, 0},
};

static const struct row images_rows[] = {
	{"store", ROW_PATH, offsetof(struct settings, images_store), 0, 0, 0},
	{"budget", ROW_SIZE, offsetof(struct settings, images_budget), 0, 1ull << 50, 0},
	{"allow", ROW_WORDS, offsetof(struct settings, images_allow), 0, 0, 0},
	{"alias", ROW_ALIASES, offsetof(struct settings, images_aliases), 0, 0, 0},
	{"pull", ROW_PULL, offsetof(struct settings, images_pull), PULL_MISSING, 0, 0},
	{"mirror", ROW_MIRRORS, offsetof(struct settings, images_mirrors), 0, 0, 0},
	{"plain_http", ROW_REGISTRIES, offsetof(struct settings, images_plain_http), 0, 0, 0},
	{"stall_timeout", ROW_COUNT, offsetof(struct settings, images_stall_timeout), 30, 3600, 1},
};

static const struct row language_rows[] = {
	{"prefer", ROW_VERSION, offsetof(struct language_settings, prefer), 0, 0, 0},
	{"path", ROW_PATHS, offsetof(struct language_settings, paths), 0, 0, 0},
	{"image", ROW_WORDS, offsetof(struct language_settings, images), 0, 0, 0},
};

const struct section sections[] = {
	{.name = "limits", .offset = offsetof(struct settings, limits), .has_limits = true},
	{.name = "maximum",
	 .offset = offsetof(struct settings, maximum),
	 .has_limits = true,
	 .unlimited = true},
	{.name = "mounts", .rows = mount_rows, .n_rows = ARRAY_LEN(mount_rows)},
	{.name = "isolation", .rows = isolation_rows, .n_rows = ARRAY_LEN(isolation_rows)},
	{.name = "engine", .rows = engine_rows, .n_rows = ARRAY_LEN(engine_rows)},
	{.name = "docker",
	 .offset = offsetof(struct settings, docker),
	 .rows = container_rows,
	 .n_rows = ARRAY_LEN(container_rows)},
	{.name = "podman",
	 .offset = offsetof(struct settings, podman),
	 .rows = container_rows,
	 .n_rows = ARRAY_LEN(container_rows)},
	{.name = "network", .rows = network_rows, .n_rows = ARRAY_LEN(network_rows)},
	{.name = "selective", .rows = selective_rows, .n_rows = ARRAY_LEN(selective_rows)},
	{.name = "tier",
	 .rows = tier_rows,
	 .n_rows = ARRAY_LEN(tier_rows),
	 .has_limits = true,
	 .limits_offset = offsetof(struct tier_settings, limits),
	 .unlimited = true,
	 .names = SECTION_TIER},
	SCOPE_SECTION("scope session", SCOPE_SESSION, session_rows),
	SCOPE_SECTION("scope agent", SCOPE_AGENT, agent_rows),
	SCOPE_SECTION("scope shared", SCOPE_SHARED, shared_rows),
	{.name = "serve", .rows = serve_rows, .n_rows = ARRAY_LEN(serve_rows)},
	{.name = "workspaces", .rows = workspaces_rows, .n_rows = ARRAY_LEN(workspaces_rows)},
	{.name = "warm", .rows = warm_rows, .n_rows = ARRAY_LEN(warm_rows)},
	{.name = "images", .rows = images_rows, .n_rows = ARRAY_LEN(images_rows)},
	{.name = "language",
	 .rows = language_rows,
	 .n_rows = ARRAY_LEN(language_rows),
	 .names = SECTION_LANGUAGE},
};

const size_t n_sections = ARRAY_LEN(sections);

size_t section_keys(const struct section *sec)
{
	return sec->n_rows + (sec->has_limits ? n_limit_rows : 0);
}

const char *section_key(const struct section *sec, size_t i)
{
	return i < sec->n_rows ? sec->rows[i].key : limit_rows[i - sec->n_rows].name;
}
