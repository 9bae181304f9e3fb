/*
 * scope.h: the sandbox that a scope has (core/scope.h): what it is made of, and whether a request
 * can have it. What the settings say of such scopes holds; the rest is as the request has it that
 * makes it. Pure.
 */
#pragma once

#include "core/error.h"
#include "settings/settings.h"
#include "spec/request.h"

/*
 * The request for the sandbox of q, a run with a scope. s is the caller's copy, within which what
 * the settings say of the scope is lowered; where the sandbox is for everybody, it is the
 * operator's, and q says nothing of it. CAY_E_POLICY: q asks for more than the scope has.
 * *ret is the caller's to request_body_done(), also after a failure.
 */
int scope_request(const struct settings *s, const struct request_body *q, bool for_everybody,
		  struct request_body *ret, struct cay_error *err);

/* What the settings say of q's scope. */
const struct scope_settings *scope_of(const struct settings *s, const struct request_body *q);

/*
 * Whether q's run can have a sandbox whose spec is this one, decided: CAY_E_CONFLICT names what it
 * asks for otherwise. Its image is not looked at, whose name may be written in several ways.
 */
int scope_check(const struct request_body *q, const struct spec *is, struct cay_error *err);

/* Whether a command in a scope's sandbox can have this time and output: CAY_E_POLICY. */
int scope_check_command(const struct settings *s, const char *scope, const struct limits *asked,
			struct cay_error *err);

/*
 * Which domains of those that are asked for the scope's sandbox allows: all, or where none is asked
 * for by name those of its settings, from which *ret may borrow. CAY_E_POLICY: it has not all of
 * them.
 */
int scope_allow(const struct settings *s, const char *scope, const struct strv *asked,
		const struct strv **ret, struct cay_error *err);

/*
 * Whether a caller with these settings may have all that a sandbox of somebody else's has;
 * CAY_E_POLICY. But for its image, which is image_may_use()'s to judge.
 */
int scope_may_use(const struct settings *s, const struct spec *is, struct cay_error *err);
