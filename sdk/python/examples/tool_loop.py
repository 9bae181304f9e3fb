"""A loop in OpenAI's manner: the model asks for tools until it has an answer.

`complete` is the only thing that knows a model: messages and tools in, a message out, as chat completions have
them. Here it is scripted.
"""

import json
from typing import Any, Callable, Dict, List

import cay

TOOLS = [
    {"type": "function", "function": {
        "name": "run_command", "description": "Runs a line of shell in the workspace.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}},
    {"type": "function", "function": {
        "name": "write_file", "description": "Writes a file of the workspace.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
                       "required": ["path", "text"]}}},
    {"type": "function", "function": {
        "name": "read_file", "description": "Reads a file of the workspace.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}},
]

Message = Dict[str, Any]


def call(sandbox: cay.Sandbox, name: str, arguments: str) -> str:
    actions: Dict[str, Callable[..., Any]] = {
        "run_command": lambda command: str(sandbox.run_command(command, timeout=60, output="32k")),
        "write_file": lambda path, text: f"{sandbox.files.write(path, text).size} bytes",
        "read_file": lambda path: sandbox.files.read_text(path)[:32768],
    }
    try:
        return actions[name](**json.loads(arguments)) or "[done]"
    except (cay.SandboxError, KeyError, TypeError, ValueError) as error:
        return f"[{error}]"


def answer(question: str, complete: Callable[[List[Message], List[Message]], Message], turns: int = 20) -> str:
    messages: List[Message] = [{"role": "user", "content": question}]
    with cay.Sandbox.create(memory="512m", ttl="1h") as sandbox:
        for _ in range(turns):
            message = complete(messages, TOOLS)
            messages.append(message)
            calls = message.get("tool_calls") or []
            if not calls:
                return str(message["content"])
            for one in calls:
                text = call(sandbox, one["function"]["name"], one["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": one["id"], "content": text})
    return "[it found no end]"


def scripted(*turns: Any) -> Callable[[List[Message], List[Message]], Message]:
    """A model that says these, each a text or a (tool, arguments); {last} is what the last tool answered."""
    left = list(turns)

    def complete(messages: List[Message], tools: List[Message]) -> Message:
        turn = left.pop(0)
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn.replace("{last}", messages[-1]["content"])}
        return {"role": "assistant", "content": None, "tool_calls": [
            {"id": f"call_{len(left)}", "type": "function",
             "function": {"name": turn[0], "arguments": json.dumps(turn[1])}}]}
    return complete


if __name__ == "__main__":
    print(answer("How many lines has the poem?", scripted(
        ("write_file", {"path": "poem.txt", "text": "one\ntwo\nthree\n"}),
        ("run_command", {"command": "wc -l <poem.txt"}),
        "The poem has {last} lines.")))
