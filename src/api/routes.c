#include "api/api.h"

#include "api/audit.h"
#include "api/batches.h"
#include "api/caller.h"
#include "api/contexts.h"
#include "api/events.h"
#include "api/exchange.h"
#include "api/files.h"
#include "api/health.h"
#include "api/images.h"
#include "api/keys.h"
#include "api/logs.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/run_history.h"
#include "api/runs.h"
#include "api/runtimes.h"
#include "api/sandboxes.h"
#include "api/scopes.h"
#include "api/settings.h"
#include "api/terminal.h"
#include "api/workspace.h"
#include "api/workspaces.h"
#include "base/clock.h"
#include "core/error.h"

/* One a line. */
/* clang-format off */
const struct route *const api_routes[] = {
	&route_health,
	&route_run_create,
	&route_run_list,
	&route_run_get,
	&route_run_cancel,
	&route_run_events,
	&route_sandbox_create,
	&route_sandbox_list,
	&route_sandbox_get,
	&route_sandbox_patch,
	&route_sandbox_delete,
	&route_sandbox_pause,
	&route_sandbox_resume,
	&route_sandbox_run,
	&route_scope_list,
	&route_scope_end,
	&route_context_list,
	&route_context_get,
	&route_context_delete,
	&route_context_interrupt,
	&route_context_restart,
	&route_context_input,
	&route_file_read,
	&route_file_write,
	&route_file_remove,
	&route_file_list,
	&route_file_stat,
	&route_file_mkdir,
	&route_file_move,
	&route_file_pack,
	&route_file_unpack,
	&route_file_watch,
	&route_workspace_diff,
	&route_workspace_read,
	&route_named_create,
	&route_named_list,
	&route_named_get,
	&route_named_remove,
	&route_named_reset,
	&route_named_snapshot,
	&route_named_forget,
	&route_named_restore,
	&route_named_archive,
	&route_logs,
	&route_terminal,
	&route_openapi,
	&route_audit_list,
	&route_batch_create,
	&route_events,
	&route_key_create,
	&route_key_list,
	&route_key_revoke,
	&route_metrics,
	&route_settings_get,
	&route_settings_put,
	&route_settings_history,
	&route_runtime_list,
	&route_image_list,
	&route_image_pull,
	&route_image_remove,
	NULL,
};
/* clang-format on */

struct api *api_of(const struct exchange *x)
{
	return exchange_server_ctx(x);
}

struct viewer api_viewer(const struct exchange *x)
{
	return caller_of(x)->viewer;
}

int api_check_open(const struct exchange *x, struct cay_error *err)
{
	return api_of(x)->draining ? cay_fail(err, CAY_E_AT_CAPACITY, 0, "the daemon is ending")
				   : 0;
}
