/*
 * owner.h: whose a run, a sandbox or a line of the audit log is: a user of this
 * machine's, known by the socket, or a key. Everything is kept by owner, and
 * nobody but an operator sees what is another's: to others it is not there.
 */
#pragma once

#include "core/id.h"

#include <stdbool.h>
#include <sys/types.h>

enum owner_kind { OWNER_UID, OWNER_KEY };

struct owner {
	enum owner_kind kind;
	uid_t uid;         /* OWNER_UID */
	char key[ID_SIZE]; /* OWNER_KEY: its id */
};

/* Whose what is everybody's is: an id that no user has, so it is no caller's own. */
#define OWNER_EVERYBODY ((struct owner){.kind = OWNER_UID, .uid = (uid_t)-1})

#define OWNER_SIZE 24

/* "uid:1000", or the key's id, into text. */
const char *owner_text(const struct owner *o, char text[OWNER_SIZE]);

/* 0, or -EINVAL for what is no such text. */
int owner_parse(const char *text, struct owner *ret);

bool owner_is(const struct owner *a, const struct owner *b);

/* Who asks. */
struct viewer {
	struct owner owner;
	bool all; /* an operator: sees everybody's */
};
