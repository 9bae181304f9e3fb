#include "cli/cli.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/remote_request.h"
#include "cli/spec_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct create {
	struct spec spec; /* first: see spec_options.h */
	const char *name, *ttl, *idle_timeout, *workspace;
	struct json *labels; /* NULL: none */
	bool persistent, json;
};

static OPTION_SETTER(set_label)
{
	struct create *c = ctx;
	const char *equals = strchr(value, '=');
	char *name;
	int r;

	if (!equals || equals == value)
		return cay_fail(err, CAY_E_INVALID, 0, "--label: '%.64s' is not NAME=VALUE", value);
	if (!c->labels)
		c->labels = json_new_object();
	name = strndup(value, (size_t)(equals - value));
	if (!name)
		return cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
	r = remote_request_str(c->labels, name, equals + 1, "--label", err);
	free(name);
	return r;
}

static OPTION_SETTER(set_engine)
{
	(void)row;
	return spec_set_engine(&((struct create *)ctx)->spec, value, err);
}

static const struct option_row rows[] = {
	{0, "name", "NAME", "what it is called from then on", OPTION_STORE(struct create, name)},
	{'l', "language", "NAME[@VERSION]", "what it is mostly for: its start is warm",
	 .set = spec_option_language},
	{0, "label", "NAME=VALUE", "a label; again for more", .set = set_label},
	{'e', "env", "K=V", "a variable of all its programs", .set = spec_option_env},
	{0, "env-file", "FILE", "variables, one K=V a line", .set = spec_option_env_file},
	{'m', "memory", "SIZE", "memory limit (512m)", .set = spec_option_limit},
	{0, "cpus", "N", "CPU cores (1.0)", .set = spec_option_limit},
	{0, "pids-limit", "N", "processes and threads (50)", .set = spec_option_limit},
	{0, "disk", "SIZE", "size of /tmp and /workspace together (100m)",
	 .set = spec_option_limit},
	{0, "timeout", "TIME", "of commands that say none (300)", .set = spec_option_limit},
	{0, "ttl", "TIME", "time to live: it ends then, used or not",
	 OPTION_STORE(struct create, ttl)},
	{0, "idle-timeout", "TIME", "ends when nobody used it for so long (3600)",
	 OPTION_STORE(struct create, idle_timeout)},
	{0, "persistent", NULL, "its workspace outlives the daemon",
	 OPTION_STORE(struct create, persistent)},
	{0, "network", "none|allowlist|full", "none (default); full is all that is public",
	 .set = spec_option_network},
	{0, "allow-domain", "DOMAIN", "may be reached: NAME, *.NAME, with :PORT",
	 .set = spec_option_allow_domain},
	{0, "block-domain", "DOMAIN", "may not be, whatever is allowed",
	 .set = spec_option_block_domain},
	{'v', "volume", "SRC:DEST[:ro|rw]", "a host directory, read-only unless rw",
	 .set = spec_option_volume},
	{0, "workspace", "SRC[:ACCESS]", "at /workspace: ro (default), rw or overlay",
	 .set = spec_option_workspace},
	{0, "tier", "TIER", "what the settings have for that tier", .set = spec_option_tier},
	{0, "workspace-name", "NAME", "one that is kept: cay workspace",
	 OPTION_STORE(struct create, workspace)},
	{0, "image", "IMAGE", "what the sandbox is made of (host)", .set = spec_option_image},
	{0, "writable", NULL, "an image's files can be changed, for once",
	 OPTION_STORE(struct spec, writable)},
	{0, "user", "root", "root in the sandbox, nobody outside", .set = spec_option_user},
	{'w', "workdir", "PATH", "working directory (/workspace)", .set = spec_option_workdir},
	{0, "engine", "ENGINE", "native, or docker and podman: a container", .set = set_engine},
	{0, "allow-degraded", NULL, "also where a limit can't be enforced",
	 OPTION_STORE(struct spec, allow_degraded)},
	{0, "json", NULL, "the sandbox as JSON", OPTION_STORE(struct create, json)},
};

static int set_workspace(const struct create *c, struct json *to, struct cay_error *err)
{
	struct json *o = json_new_object();

	if (c->spec.workspace.source) {
		json_free(o);
		return cay_fail(err, CAY_E_INVALID, 0, "--workspace and --workspace-name: which?");
	}
	json_set(to, "workspace", o);
	return remote_request_str(o, "name", c->workspace, "--workspace-name", err);
}

static int make_request(struct create *c, struct json **ret, struct cay_error *err)
{
	const struct {
		const char *key, *value;
	} more[] = {{"name", c->name}, {"ttl", c->ttl}, {"idle_timeout", c->idle_timeout}};
	_cleanup_(json_freep) struct json *j = NULL;

	if (remote_request(&c->spec, REQUEST_SANDBOX, &j, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (more[i].value &&
		    remote_request_str(j, more[i].key, more[i].value, more[i].key, err) < 0)
			return -1;
	if (c->workspace && set_workspace(c, j, err) < 0)
		return -1;
	if (c->labels)
		json_set(j, "labels", take_ptr(&c->labels));
	if (c->persistent)
		json_set_bool(j, "persistent", true);
	*ret = take_ptr(&j);
	return 0;
}

static int create(struct create *c, struct cay_error *err)
{
	_cleanup_(remote_freep) struct remote *r = NULL;
	_cleanup_(json_freep) struct json *body = NULL, *answer = NULL;
	struct remote_ask ask = {.method = "POST", .path = "/v1/sandboxes"};
	const char *id;

	if (make_request(c, &body, err) < 0 || remote_open(&r, err) < 0)
		return -1;
	ask.json = body;
	if (remote_json(r, &ask, &answer, err) < 0)
		return -1;
	if (c->json)
		return cli_print_json(take_ptr(&answer));
	id = json_str(json_get(answer, "id"));
	if (!id || strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz_") != strlen(id))
		return cay_fail(err, CAY_E_ENGINE, 0, "the daemon's answer is no sandbox");
	(void)printf("%s\n", id);
	return 0;
}

static int run(int argc, char **argv)
{
	struct create *c = calloc(1, sizeof(*c));
	struct cay_error err;
	bool json;
	int r;

	if (!c) {
		(void)cay_fail(&err, CAY_E_INTERNAL, ENOMEM, "read the request");
		return cli_error(&err, false);
	}
	r = verb_parse(&verb_create, argc, argv, c, NULL, 0, &err);
	if (r == 0)
		r = create(c, &err);
	else if (r == 1)
		r = 0;
	json = c->json;
	json_free(c->labels);
	spec_done(&c->spec);
	free(c);
	return r < 0 ? cli_error(&err, json) : r;
}

const struct verb verb_create = {
	.name = "create",
	.summary = "make a sandbox that lives on",
	.usage = "[options]",
	.about =
		"Has the daemon make a sandbox whose files and processes stay from one command to\n"
		"the next, and prints its id.\n",
	.examples = "  cay create --name work\n"
		    "  cay create -m 1g --ttl 8h --idle-timeout 30m\n",
	.notes =
		"Three times: --timeout ends a command, --idle-timeout a sandbox nobody uses, and\n"
		"--ttl the sandbox in any case.\n",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run,
};
