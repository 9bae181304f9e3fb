/*
 * plan_impl.h: what plan.c and plan_check.c share.
 */
#pragma once

/* The island's own: a mount over them would take a control away. NULL: the target is free. */
const char *plan_target_owner(const char *target);
