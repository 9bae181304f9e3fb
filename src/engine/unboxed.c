#include "engine/unboxed.h"

#include "engine/rlimit.h"
#include "policy/command.h"
#include "policy/mounts.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * A word of the plan's, as it is here: a path below the workspace, or one that
 * names the compiler's directory, also behind an option.
 */
static int add_word(struct strv *to, const struct workspace *w, const char *word)
{
	const char *build = strstr(word, ISLAND_BUILD);

	if (build && w->build[0])
		return strv_addf(to, "%.*s%s%s", (int)(build - word), word, w->build,
				 build + strlen(ISLAND_BUILD));
	if (strncmp(word, ISLAND_WORKSPACE "/", strlen(ISLAND_WORKSPACE "/")) == 0)
		return strv_addf(to, "%s%s", w->home, word + strlen(ISLAND_WORKSPACE));
	if (strcmp(word, "HOME=" ISLAND_WORKSPACE) == 0)
		return strv_addf(to, "HOME=%s", w->home);
	return strv_add(to, word);
}

int unboxed_words(struct strv *to, const struct workspace *w, const struct plan *p,
		  struct plan_list l)
{
	const char *s = plan_first(p, l);
	int r = 0;

	for (uint32_t n = 0; n < l.len && r == 0; n++, s = plan_next(s))
		r = add_word(to, w, s);
	return r;
}

/* A path on the island means the same below the workspace here; others are the host's own. */
static const char *host_path(const char *path)
{
	if (path_is_within(path, ISLAND_WORKSPACE))
		return path[strlen(ISLAND_WORKSPACE)] ? path + strlen(ISLAND_WORKSPACE) + 1 : ".";
	return path;
}

int unboxed_enter(const struct workspace *w, const struct plan *p)
{
	return chdir(w->home) < 0 || chdir(host_path(plan_str(p, p->workdir))) < 0 ? -errno : 0;
}

int unboxed_limit(const struct limits *l)
{
	int r = rlimit_lower(RLIMIT_CORE, 0);

	if (r == 0 && l->open_files)
		r = rlimit_lower(RLIMIT_NOFILE, l->open_files);
	if (r == 0 && l->file_size_bytes)
		r = rlimit_lower(RLIMIT_FSIZE, l->file_size_bytes);
	if (r == 0 && l->cpu_time_ms)
		r = rlimit_lower(RLIMIT_CPU, (l->cpu_time_ms + 999) / 1000);
	return r < 0 ? -errno : 0;
}
