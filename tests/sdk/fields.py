"""The names of the API's fields."""

import yaml

from support import ROOT

_SCHEMAS = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())["components"]["schemas"]


def of(schema):
    return set(_SCHEMAS[schema]["properties"])


def of_requests():
    return set().union(*map(of, ("RunRequest", "SandboxRequest", "CommandRequest", "Limits")))
