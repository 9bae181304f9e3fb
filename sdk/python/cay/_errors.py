"""What cay could not do. What a program did is a result, and an exception only with check=True."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Type

if TYPE_CHECKING:
    from ._result import SandboxResult


class SandboxError(Exception):
    """The family's head; code says whose fault it is, as the API has it."""

    def __init__(self, message: str, *, code: str = "internal", hint: str = "",
                 details: Optional[Mapping[str, Any]] = None, request_id: Optional[str] = None,
                 status: Optional[int] = None, retry_after: Optional[int] = None,
                 result: Optional[SandboxResult] = None) -> None:
        super().__init__(message)
        self.message, self.code, self.hint = message, code, hint
        self.details: Dict[str, Any] = dict(details or {})
        self.request_id, self.status, self.retry_after = request_id, status, retry_after
        self.result = result  # of a program, with check=True

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class SandboxTimeoutError(SandboxError, TimeoutError):
    """A program's time was over (check=True), or nothing came of a call in time."""


class SandboxResourceError(SandboxError):
    """Something is used up, too large, or a limit can't be enforced here."""


class SandboxPolicyError(SandboxError):
    """The operator or the key does not allow it."""


class SandboxNotFoundError(SandboxError, KeyError):
    """There is no such sandbox, run, file, image or language."""


_BY_CODE: Dict[str, Type[SandboxError]] = {
    "unauthorized": SandboxPolicyError,
    "policy_denied": SandboxPolicyError,
    "not_found": SandboxNotFoundError,
    "image_not_found": SandboxNotFoundError,
    "runtime_not_found": SandboxNotFoundError,
    "expired": SandboxNotFoundError,
    "too_large": SandboxResourceError,
    "not_enforceable": SandboxResourceError,
    "rate_limited": SandboxResourceError,
    "at_capacity": SandboxResourceError,
}

_BY_STATUS: Dict[str, Type[SandboxError]] = {
    "timeout": SandboxTimeoutError,
    "out_of_memory": SandboxResourceError,
    "output_limit": SandboxResourceError,
}


def error_of(body: Any, status: Optional[int] = None, retry_after: Optional[str] = None) -> SandboxError:
    """The exception of an error object, as answers and events carry it."""
    error = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return SandboxError(f"the daemon answered {status} without an error object", status=status)
    code = str(error.get("code"))
    details = error.get("details")
    return _BY_CODE.get(code, SandboxError)(
        error["message"], code=code, hint=str(error.get("hint") or ""),
        details=details if isinstance(details, dict) else None, request_id=error.get("request_id"), status=status,
        retry_after=int(retry_after) if retry_after and retry_after.isdigit() else None)


def error_of_result(result: SandboxResult) -> SandboxError:
    """What check=True raises for a program that did not end well."""
    message = result.message or result.status
    last = result.stderr.strip().splitlines()[-1:]
    if result.exception:
        message = f"{result.exception.get('name')}: {result.exception.get('value')}"
    elif last:
        message = f"{message}: {last[0][:500]}"
    return _BY_STATUS.get(result.status, SandboxError)(message, code=result.status, result=result)
