"""A function-calling tool: what a model is told of it, and what becomes of its calls.

The description is JSON Schema as model APIs take it; only the envelope around it differs from one to the next.
"""

import json

import cay

RUN_CODE = {
    "name": "run_code",
    "description": "Runs Python in a sandbox without network and returns what it printed, and how it failed. "
                   "Each call starts afresh.",
    "parameters": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "The whole program. Print what you want to see."},
            "stdin": {"type": "string", "description": "What the program reads on standard input."},
        },
        "required": ["code"],
        "additionalProperties": False,
    },
}


def run_code(arguments: str) -> str:
    """The text for the model. It is never an exception: a model can act on words."""
    try:
        asked = json.loads(arguments)
        if not isinstance(asked["code"], str) or set(asked) - set(RUN_CODE["parameters"]["properties"]):
            return "[the arguments don't fit the tool's description]"
    except (ValueError, TypeError, KeyError):
        return "[the arguments are no JSON object with code]"
    # What the model may choose is what the schema names; limits are ours.
    result = cay.run(asked["code"], stdin=str(asked.get("stdin", "")), timeout=20, memory="256m",
                     output="32k", raise_errors=False)
    return str(result) or "[it printed nothing]"


if __name__ == "__main__":
    print(run_code('{"code": "print(sum(range(10)))"}'))
