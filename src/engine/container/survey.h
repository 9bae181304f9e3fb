/*
 * survey.h: what there is of engines on this machine, by asking them.
 */
#pragma once

#include "engine/container/docker.h"
#include "settings/settings.h"

struct survey {
	enum spec_engine engine;
	bool usable;
	char path[108]; /* of its socket; "": no place could be told */
	char why[128];  /* who said that it is there */
	/* Of one that answers; one harmless line each. */
	char version[64];
	int api; /* N of 1.N, what is spoken with it; 0: it does not answer */
	char cgroup_driver[32], cgroup_version[16], runtime[64];
	bool rootless;
	char lacks[256]; /* what a container can't have there, separated by commas; "": nothing */
	/* Of one that is not usable, or lacks something: what to do. */
	struct cay_error error;
};

/* ENGINE_DOCKER or ENGINE_PODMAN. Takes as long as the engine does, up to half a minute. */
void survey_engine(enum spec_engine engine, const struct settings *s, struct survey *ret);

/* Whether it may be used and answers; an engine that systemd starts when it is asked is started. */
bool survey_is_there(enum spec_engine engine, const struct settings *s);
