/*
 * auth.h: what a registry says about who may ask it: challenges (WWW-Authenticate), and answers of
 * those who give out tokens. Some stranger's words, all of them. Pure.
 */
#pragma once

#include <stddef.h>

#define AUTH_TEXT_SIZE  1024
#define AUTH_TOKEN_SIZE (16u << 10)
#define AUTH_ANSWER_MAX (64u << 10) /* bytes of an answer with a token */

/* In the order in which we would rather have them. */
enum auth_kind { AUTH_NONE, AUTH_BASIC, AUTH_BEARER };

struct challenge {
	enum auth_kind kind;
	char realm[AUTH_TEXT_SIZE], service[AUTH_TEXT_SIZE], scope[AUTH_TEXT_SIZE]; /* of BEARER */
};

/*
 * The best of the challenges that a header has; a scheme that is not known is passed over, and one
 * of AUTH_BEARER without a realm is none. 0 also where there is none, or -EINVAL.
 */
int challenge_parse(const char *header, struct challenge *ret);

/* The token of such an answer: characters that can stand in a header. 0 or -EINVAL. */
int token_parse(const char *text, size_t len, char ret[AUTH_TOKEN_SIZE]);
