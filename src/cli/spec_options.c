#include "cli/spec_options.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"
#include "spec/request.h"
#include "spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

OPTION_SETTER(spec_option_language)
{
	return spec_set_language(ctx, value, err);
}

OPTION_SETTER(spec_option_env)
{
	return spec_add_env(ctx, value, err);
}

OPTION_SETTER(spec_option_env_file)
{
	_cleanup_(buf_done) struct buf text = BUF(ENV_FILE_MAX_BYTES);
	int r = fd_read_file_at(AT_FDCWD, value, &text);

	if (r == 0)
		r = buf_append_str(&text, "");
	if (r < 0)
		return cay_fail(err, r == -EFBIG ? CAY_E_TOO_LARGE : CAY_E_NOT_FOUND, -r,
				"--env-file %s", value);
	return spec_add_env_lines(ctx, value, text.data, err);
}

OPTION_SETTER(spec_option_stdin)
{
	struct spec *s = ctx;

	free(s->stdin_file);
	s->stdin_file = strdup(value);
	return s->stdin_file ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "read the request");
}

const char *spec_option_limit_name(const struct option_row *row)
{
	static const char *const names[][2] = {
		{"pids-limit", "pids"},
		{"cpu-time", "cpu_time"},
		{"output-limit", "output"},
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i][0], row->name) == 0)
			return names[i][1];
	return row->name;
}

OPTION_SETTER(spec_option_limit)
{
	if (spec_set_limit(ctx, spec_option_limit_name(row), value, err) < 0)
		return cay_wrap(err, "--%s", row->name);
	return 0;
}

OPTION_SETTER(spec_option_wait)
{
	uint64_t unused;

	(void)ctx;
	if (parse_duration(value, 0, REQUEST_WAIT_MAX * 1000ull, &unused) == 0)
		return 0;
	(void)cay_fail(err, CAY_E_INVALID, 0, "--%s can't be '%.64s': a time up to an hour",
		       row->name, value);
	return cay_hint(err, "seconds, or 500ms, 30s, 5m; 0 does not wait");
}

OPTION_SETTER(spec_option_volume)
{
	return spec_add_mount(ctx, value, err);
}

OPTION_SETTER(spec_option_workspace)
{
	return spec_set_workspace(ctx, value, err);
}

OPTION_SETTER(spec_option_image)
{
	return spec_set_image(ctx, value, err) < 0 ? cay_wrap(err, "--image") : 0;
}

OPTION_SETTER(spec_option_user)
{
	return spec_set_user(ctx, value, err) < 0 ? cay_wrap(err, "--user") : 0;
}

OPTION_SETTER(spec_option_workdir)
{
	return spec_set_workdir(ctx, value, err);
}

OPTION_SETTER(spec_option_network)
{
	return spec_set_network(ctx, value, err) < 0 ? cay_wrap(err, "--network") : 0;
}

OPTION_SETTER(spec_option_tier)
{
	return spec_set_tier(ctx, value, err) < 0 ? cay_wrap(err, "--tier") : 0;
}

OPTION_SETTER(spec_option_allow_domain)
{
	return spec_allow_domain(ctx, value, err) < 0 ? cay_wrap(err, "--allow-domain") : 0;
}

OPTION_SETTER(spec_option_block_domain)
{
	return spec_block_domain(ctx, value, err) < 0 ? cay_wrap(err, "--block-domain") : 0;
}

int spec_read_all(int fd, size_t max, const char *what, char **ret, size_t *ret_len,
		  struct cay_error *err)
{
	struct buf all = BUF(max);
	int r = fd_read_all(fd, &all);

	if (r == -EFBIG)
		r = cay_fail(err, CAY_E_TOO_LARGE, 0, "%s: more than %zu bytes", what, max);
	else if (r < 0)
		r = cay_fail(err, CAY_E_INVALID, -r, "%s", what);
	if (r < 0) {
		buf_done(&all);
		return -1;
	}
	*ret_len = all.len;
	*ret = buf_take(&all);
	return *ret ? 0 : cay_fail(err, CAY_E_INTERNAL, ENOMEM, "%s", what);
}
