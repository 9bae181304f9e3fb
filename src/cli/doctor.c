#include "cli/cli.h"

#include "base/attr.h"
#include "base/json.h"
#include "cli/doctor_engines.h"
#include "cli/options.h"
#include "engine/native/probe.h"
#include "engine/container/sweep.h"
#include "engine/workspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct request {
	bool json, clean;
};

static const struct option_row rows[] = {
	{0, "json", NULL, "as one JSON object", OPTION_STORE(struct request, json)},
	{0, "clean", NULL, "remove what killed runs left behind, and say how much",
	 OPTION_STORE(struct request, clean)},
};

static void print_verdict(const struct probe *p)
{
	const char *word = p->ok ? "ok" : p->required ? "FAIL" : "no";
	enum style style = p->ok ? STYLE_GOOD : p->required ? STYLE_BAD : STYLE_DOUBT;

	(void)printf("%s%-5s%s ", cli_style(STDOUT_FILENO, style), word,
		     cli_style(STDOUT_FILENO, STYLE_PLAIN));
}

static void print_table(const struct probe *p, size_t n, bool ok)
{
	const char *said = "";

	for (size_t i = 0; i < n; i++) {
		print_verdict(&p[i]);
		(void)printf("%-18s %-28s", p[i].control, p[i].how);
		if (!p[i].ok)
			(void)printf(" %s", p[i].why);
		(void)printf("\n");
		if (p[i].ok || !p[i].todo[0] || strcmp(p[i].todo, said) == 0)
			continue; /* one cause, one line, however many rows it has */
		said = p[i].todo;
		(void)printf("      %-18s -> %s\n", "", said);
	}
	doctor_engines_print();
	(void)printf("\n%s\n", ok ? "A default run is fully enforced."
				  : "A default run can't be fully enforced: see FAIL above.");
}

static struct json *store_json(const struct probe_store *s)
{
	struct json *o = json_new_object();

	json_set_str(o, "store", s->store);
	json_set_int(o, "count", (int64_t)s->images);
	json_set_int(o, "bytes", (int64_t)s->bytes);
	json_set_int(o, "budget_bytes", (int64_t)s->budget_bytes);
	return o;
}

static int print_json(const struct probe *p, size_t n, const struct probe_store *s, bool ok)
{
	struct json *o = json_new_object(), *list = json_new_array();

	for (size_t i = 0; i < n; i++) {
		struct json *row = json_new_object();

		json_set_str(row, "control", p[i].control);
		json_set_str(row, "how", p[i].how);
		json_set_bool(row, "ok", p[i].ok);
		json_set_bool(row, "required", p[i].required);
		json_set_str(row, "reason", p[i].why);
		json_set_str(row, "todo", p[i].todo);
		json_add(list, row);
	}
	json_set_bool(o, "ok", ok);
	json_set(o, "controls", list);
	json_set(o, "images", store_json(s));
	json_set(o, "engines", doctor_engines_json());
	return cli_print_json(o);
}

/* Without settings nobody can tell where engines are. */
static int sweep_containers(void)
{
	struct settings settings;
	struct cay_error err;
	int n = 0;

	settings_init(&settings);
	if (settings_load(&settings, &err) < 0)
		cli_say("containers are not looked for: %s", err.text);
	else
		n = sweep_engines(&settings);
	settings_done(&settings);
	return n;
}

static int clean(bool json)
{
	int n = probe_clean() + workspace_sweep() + sweep_containers();
	struct json *o;

	if (!json) {
		(void)printf("removed %d leftover%s\n", n, n == 1 ? "" : "s");
		return 0;
	}
	o = json_new_object();
	json_set_int(o, "removed", n);
	return cli_print_json(o);
}

static int examine(bool json)
{
	struct probe *probes = calloc(PROBES_MAX, sizeof(*probes));
	struct probe_store store;
	bool ok = true;
	int r = 0;
	size_t n;

	if (!probes)
		return EXIT_OURS;
	n = probe_all(probes, &store);
	for (size_t i = 0; i < n; i++)
		ok &= probes[i].ok || !probes[i].required;
	if (json)
		r = print_json(probes, n, &store, ok);
	else
		print_table(probes, n, ok);
	free(probes);
	return ok ? r : 1;
}

static int run_doctor(int argc, char **argv)
{
	struct request q = {0};
	struct cay_error err;
	int r = verb_parse(&verb_doctor, argc, argv, &q, NULL, 0, &err);

	if (r != 0)
		return r < 0 ? cli_error(&err, q.json) : 0;
	return q.clean ? clean(q.json) : examine(q.json);
}

const struct verb verb_doctor = {
	.name = "doctor",
	.summary = "try each control of the sandbox and say what is missing",
	.usage = "[--json] [--clean]",
	.about = "Tries each control of the sandbox for real and prints what works, how, and\n"
		 "what to do where it does not. Exit code 0 only if a default `cay run` would\n"
		 "be fully enforced. It is about this machine, whatever CAY_HOST says. Behind\n"
		 "the controls: Podman and Docker, where they are, and what they can't do.\n",
	.examples = "  cay doctor\n"
		    "  cay doctor --clean\n",
	.rows = rows,
	.n_rows = ARRAY_LEN(rows),
	.run = run_doctor,
};
