/*
 * spec_options.h: what sets a spec, for the rows of verbs that have such options. Their
 * ctx begins with a struct spec.
 */
#pragma once

#include "cli/options.h"

#include <stddef.h>

option_setter spec_option_language, spec_option_env, spec_option_env_file, spec_option_stdin,
	spec_option_limit, spec_option_wait, spec_option_volume, spec_option_workspace,
	spec_option_workdir, spec_option_image, spec_option_user, spec_option_network,
	spec_option_tier, spec_option_allow_domain, spec_option_block_domain;

/* The API's name of the limit, for an option that may be called otherwise. */
const char *spec_option_limit_name(const struct option_row *row);

/* All of a stream that goes into a request: at most max bytes. what: for the error. */
int spec_read_all(int fd, size_t max, const char *what, char **ret, size_t *ret_len,
		  struct cay_error *err);
